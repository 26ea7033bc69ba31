#include "Fallbacks.h"
#include "Options.h"
#include "PlanWriting.h"
#include "ReplanCandidates.h"
#include "Table.h"

#include "support/Files.h"
#include "support/JsonWriter.h"
#include "support/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <set>

using namespace llvm;

namespace heterplan {

namespace {
/// `cluster` without the last `lost` nodes of group `index`. The others keep their names.
Cluster withoutNodes(const Cluster &cluster, size_t index, int lost) {
  Cluster result = cluster;
  NodeGroup group = result.nodes[index];
  result.nodes.erase(result.nodes.begin() + index);
  for (int node = 0; node < group.count - lost; ++node) {
    NodeGroup single = group;
    single.name = nodeName(group, node);
    single.count = 1;
    result.nodes.insert(result.nodes.begin() + index + node, single);
  }
  return result;
}

/// A plan for the loss of some nodes of a group.
struct Fallback {
  std::string directory;
  int lost = 0;
  std::vector<std::string> nodes; // of the group
};

/// The nodes of `group` that `plan` uses.
std::vector<std::string> usedNodes(const Plan &plan, const NodeGroup &group) {
  std::set<std::string> used;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        used.insert(device.node);
  std::vector<std::string> nodes;
  for (int i = 0; i < group.count; ++i)
    if (used.count(nodeName(group, i)))
      nodes.push_back(nodeName(group, i));
  return nodes;
}

Error writeIndex(const std::string &folder, StringRef plan, ArrayRef<Fallback> fallbacks) {
  std::string text;
  raw_string_ostream os(text);
  JsonWriter json(os);
  json.object([&] {
    json.attribute("plan", plan);
    json.attributeArray("fallbacks", [&] {
      for (const Fallback &each : fallbacks)
        json.object([&] {
          json.attribute("directory", each.directory);
          json.attribute("lost", int64_t(each.lost));
          json.attributeArray("nodes", [&] {
            for (const std::string &node : each.nodes)
              json.value(node);
          });
        });
    });
  });
  os << '\n';
  return writeFile(folder + "/index.json", os.str());
}
} // namespace

Expected<ExitStatus> prepareFallbacks(const Plan &before, PlanningInputs &inputs,
                                      const CompileOptions &options, const std::string &directory,
                                      int64_t horizon, int64_t most) {
  const Cluster cluster = inputs.problem.cluster;
  const Request request = inputs.problem.request;
  if (!cluster.links.empty())
    return notSupported("--fallbacks on clusters with 'links'");
  std::string folder = directory + "/fallbacks";
  std::vector<Fallback> fallbacks;
  for (size_t index = 0; index < cluster.nodes.size(); ++index) {
    const NodeGroup &group = cluster.nodes[index];
    std::vector<std::string> nodes = usedNodes(before, group);
    for (int lost = 1; lost <= std::min<int64_t>(most, group.count) && !nodes.empty(); ++lost) {
      std::string name = group.name + "-" + std::to_string(lost);
      Cluster left = withoutNodes(cluster, index, lost);
      if (left.nodes.empty())
        continue;
      Expected<Problem> problem =
          Problem::create(inputs.problem.graph, left, *inputs.costs.model, request);
      if (!problem)
        return problem.takeError();
      inputs.problem = std::move(*problem);
      Expected<std::optional<ReplanCandidates>> found =
          findReplanCandidates(before, inputs, options, horizon);
      if (!found)
        return found.takeError();
      outs() << left_justify(name, 24);
      if (!*found) {
        outs() << "no plan\n";
        continue;
      }
      ReplanCandidate &chosen = (*found)->all[(*found)->chosen];
      CompileOptions writing = options;
      writing.directory = folder + "/" + name;
      if (Error error = writePlan(chosen.plan, inputs, writing, {}))
        return error;
      fallbacks.push_back({name, lost, nodes});
      outs() << readable(chosen.plan.expectedIteration()) << " a step on "
             << chosen.plan.deviceCount() << " devices, " << readable(chosen.moves.moved)
             << " of state move\n";
    }
  }
  Expected<std::string> plan = sha256OfFile(directory + "/plan.json");
  if (!plan)
    return plan.takeError();
  if (fallbacks.empty()) {
    outs() << "no group of nodes can be lost\n";
    return exitInfeasible;
  }
  if (Error error = writeIndex(folder, *plan, fallbacks))
    return error;
  outs() << "\nwrote " << folder << "; next:\n  heterplan run " << directory
         << " --max-restarts 10 --elastic\n";
  return exitDone;
}

} // namespace heterplan
