#include "codegen/ClusterLaunchers.h"

#include "codegen/LaunchedNodes.h"
#include "support/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace heterplan {
namespace {
/// `text` as a word of an #SBATCH line: names come from the cluster file.
std::string word(StringRef text) {
  std::string result;
  for (char c : text)
    result += isAlnum(c) || StringRef("_.-").contains(c) ? c : '_';
  return result;
}

int gpusOf(const LaunchedNode &node) {
  return int(
      count_if(node.ranks, [](const auto &rank) { return rank.deviceClass != DeviceClass::Cpu; }));
}

/// How many GPUs of each type a node has, as in "v100:4,t4:2".
std::string slurmGpus(const LaunchedNode &node, bool typed) {
  std::string text;
  for (const auto &[type, count] : countByType(node)) {
    if (count.deviceClass == DeviceClass::Cpu)
      continue;
    text += (text.empty() ? "" : ",") + std::string("gpu:") + (typed ? word(type) + ":" : "") +
            std::to_string(count.ranks);
  }
  return text;
}

void writeSlurmComponent(raw_ostream &os, const LaunchGroup &group, bool typed) {
  const LaunchedNode &node = group.nodes.front();
  os << "#SBATCH --nodes=" << group.nodes.size() << " --ntasks-per-node=" << node.ranks.size();
  std::string gpus = slurmGpus(node, typed);
  if (!gpus.empty())
    os << " --gres=" << gpus;
  if (typed && gpus.empty())
    os << " --constraint=" << join(map_range(group.types, word), "&");
  os << "\n";
}

/// One replicated job, or one Job: its nodes and the names of its pods.
struct PodGroup {
  std::string name;
  const LaunchGroup *nodes;
};

/// Names by device types; unequal where types differ only by characters that names cannot have.
std::vector<PodGroup> podGroups(ArrayRef<LaunchGroup> groups) {
  std::vector<PodGroup> pods;
  for (const LaunchGroup &group : groups) {
    std::string name = kubernetesName(join(group.types, "-"), "plan");
    if (any_of(pods, [&](const PodGroup &other) { return other.name == name; }))
      name += "-" + std::to_string(pods.size() + 1);
    pods.push_back({name, &group});
  }
  return pods;
}

/// The pods of a plan: a node each, in groups by device types.
struct Pods {
  std::string name; // of the service
  std::vector<LaunchGroup> nodes;
  std::vector<PodGroup> groups;   // of `nodes`
  std::vector<std::string> hosts; // of the plan, in its order
};

/// `infix`: what the controller puts between the name of a group and the index of a pod.
Pods podsOf(const Program &program, StringRef infix) {
  Pods pods{kubernetesName(program.model, "plan"), groupNodes(program, /*byCounts=*/false), {}, {}};
  pods.groups = podGroups(pods.nodes);
  pods.hosts.resize(launchedNodes(program).size());
  for (const PodGroup &group : pods.groups)
    for (size_t index = 0; index < group.nodes->nodes.size(); ++index)
      pods.hosts[group.nodes->nodes[index].index] =
          pods.name + "-" + group.name + infix.str() + std::to_string(index) + "." + pods.name;
  return pods;
}

/// A string of JSON, which is one of YAML.
std::string quoted(StringRef text) {
  std::string result = "\"";
  for (char c : text)
    result += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return result + "\"";
}

/// The pod template of a group, below a key that stands at `indent` columns.
void writePod(raw_ostream &os, unsigned indent, const PodGroup &group, StringRef service,
              ArrayRef<std::string> hosts) {
  std::string order;
  int gpus = 0;
  for (const LaunchedNode &node : group.nodes->nodes) {
    order += (order.empty() ? "" : " ") + std::to_string(node.index);
    gpus = std::max(gpus, gpusOf(node));
  }
  auto line = [&](unsigned deeper, const Twine &text) {
    os.indent(indent + deeper) << text << "\n";
  };
  line(0, "metadata:");
  line(2, "labels: {app: " + quoted(service) + "}");
  line(0, "spec:");
  line(2, "subdomain: " + quoted(service));
  line(2, "restartPolicy: Never");
  line(2, "nodeSelector: {heterplan/device-type: " + quoted(group.name) + "}");
  line(2, "containers:");
  line(4, "- name: ranks");
  line(6, "image: pytorch/pytorch:latest");
  line(6, "command:");
  line(8, "- bash");
  line(8, "- -c");
  line(8, "- |");
  line(10, "order=(" + order + ")");
  line(10, "until getent hosts " + hosts.front() + " >/dev/null; do sleep 1; done");
  line(10, "exec /plan/launch.sh --hosts " + join(hosts, ",") +
               " --node-rank \"${order[JOB_COMPLETION_INDEX]}\" \"$@\"");
  line(8, "- launch.sh");
  line(6, "args: [\"--steps\", \"20\"]");
  if (gpus)
    line(6, "resources: {limits: {nvidia.com/gpu: \"" + Twine(gpus) + "\"}}");
  line(6, "volumeMounts:");
  line(8, "- {name: plan, mountPath: /plan}");
  line(8, "- {name: memory, mountPath: /dev/shm}");
  line(2, "volumes:");
  line(4, "- {name: plan, persistentVolumeClaim: {claimName: heterplan-plan}}");
  line(4, "- {name: memory, emptyDir: {medium: Memory}}");
}

/// The fields of an Indexed Job below its `spec:`.
void writeJob(raw_ostream &os, unsigned indent, const PodGroup &group, StringRef service,
              ArrayRef<std::string> hosts) {
  size_t pods = group.nodes->nodes.size();
  os.indent(indent) << "completionMode: Indexed\n";
  os.indent(indent) << "completions: " << pods << "\n";
  os.indent(indent) << "parallelism: " << pods << "\n";
  os.indent(indent) << "backoffLimit: 0\n";
  os.indent(indent) << "template:\n";
  writePod(os, indent + 2, group, service, hosts);
}

constexpr const char *adapt = R"(#
# Adapt a copy before use: the image, which needs PyTorch; the claim with the folder of this plan at its
# root; the label heterplan/device-type of the nodes; args, which are options of the runtime.
)";
} // namespace

std::string emitSlurmScript(const Program &program) {
  std::vector<LaunchGroup> groups = groupNodes(program, /*byCounts=*/true);
  bool typed = groups.size() > 1 || groups.front().types.size() > 1;
  std::string text;
  raw_string_ostream os(text);
  os << "#!/usr/bin/env bash\n"
        "# Starts the ranks of this plan under Slurm. Generated by heterplan; do not edit.\n"
        "#\n"
        "#   sbatch launch.sbatch [options of the runtime: --steps N --loss L --data D ...]\n"
        "#\n"
        "# Each component has the nodes of one kind, a task is a rank. Nodes without GPUs are "
        "found by\n"
        "# the feature (--constraint) that has the name of the device type. The folder of the plan "
        "must\n"
        "# have the same path on all nodes. HETERPLAN_PYTHON: the Python that has torch.\n"
     << "#SBATCH --job-name=" << word(program.model.empty() ? "heterplan" : program.model) << "\n";
  for (size_t index = 0; index < groups.size(); ++index) {
    if (index)
      os << "#SBATCH hetjob\n";
    writeSlurmComponent(os, groups[index], typed);
  }
  os << R"sh(set -euo pipefail

# Slurm runs a copy of this script.
script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=\(.*launch\.sbatch\).*/\1/p' | sed 1q)
folder=$(dirname -- "${script:-$SLURM_SUBMIT_DIR/launch.sbatch}")
)sh";
  if (groups.size() == 1) {
    os << "exec srun --kill-on-bad-exit=1 \"$folder/launch.sh\" \"$@\"\n";
    return os.str();
  }
  os << "exec srun --kill-on-bad-exit=1";
  for (size_t index = 0; index < groups.size(); ++index)
    os << (index ? " : \\\n  " : " \\\n  ") << "--het-group=" << index
       << " env HETERPLAN_DEVICE_TYPES=" << shellQuote(join(groups[index].types, ","))
       << " \"$folder/launch.sh\" \"$@\"";
  os << "\n";
  return os.str();
}

std::string emitKubernetesManifest(const Program &program) {
  const Pods pods = podsOf(program, "-");
  const std::string &name = pods.name;
  std::string text;
  raw_string_ostream os(text);
  os << "# Starts the ranks of this plan on Kubernetes: kubectl apply -f launch.k8s.yaml\n"
        "# Generated by heterplan. A pod is a node of the plan; each Job has those of one device "
        "type.\n"
     << adapt << "apiVersion: v1\nkind: Service\nmetadata: {name: " << quoted(name)
     << "}\nspec:\n  clusterIP: None\n  publishNotReadyAddresses: true\n  selector: {app: "
     << quoted(name) << "}\n  ports:\n    - {name: ranks, port: 29400}\n";
  for (const PodGroup &group : pods.groups) {
    os << "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: "
       << quoted(name + "-" + group.name) << "}\nspec:\n";
    writeJob(os, 2, group, name, pods.hosts);
  }
  return os.str();
}

std::string emitTrainJob(const Program &program) {
  const Pods pods = podsOf(program, "-0-");
  const std::string &name = pods.name;
  std::string text;
  raw_string_ostream os(text);
  os << "# Starts the ranks of this plan by Kubeflow Trainer v2: kubectl apply -f "
        "launch.trainjob.yaml\n"
        "# Generated by heterplan. A pod is a node of the plan; each replicated job has those of "
        "one\n"
        "# device type.\n"
     << adapt
     << "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: "
     << quoted(name)
     << "}\nspec:\n  template:\n    spec:\n      network: {publishNotReadyAddresses: true}\n"
        "      replicatedJobs:\n";
  for (const PodGroup &group : pods.groups) {
    os << "        - name: " << quoted(group.name)
       << "\n          replicas: 1\n          template:\n            spec:\n";
    writeJob(os, 14, group, name, pods.hosts);
  }
  os << "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: "
     << quoted(name)
     << "}\nspec:\n  runtimeRef: {apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: "
     << quoted(name) << "}\n";
  return os.str();
}

} // namespace heterplan
