#include "Fallbacks.h"
#include "Options.h"
#include "PlanWriting.h"
#include "Table.h"

#include "cost/ShardGroups.h"
#include "ir/PlanShards.h"
#include "support/Files.h"
#include "support/JsonWriter.h"
#include "support/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <set>

using namespace llvm;

namespace heterplan {

namespace {
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

/// Whether the nodes that are left have a group of devices for a replica of the plan of `asked`, or
/// it may be replanned with another degree.
Expected<bool> mayHaveReplicas(const Replanning &asked, const CompileOptions &left) {
  if (asked.options.tensorParallel == "auto")
    return true;
  Expected<Cluster> cluster = readWholeCluster(left.costs);
  if (!cluster)
    return cluster.takeError();
  Expected<Cluster> groups = shardGroups(std::move(*cluster), shardDegreeOf(asked.before));
  if (groups)
    return true;
  consumeError(groups.takeError());
  return false;
}

/// Writes the plan for the loss of `fallback` into its folder, if there is one, and prints a line.
Expected<bool> writeFallback(const Replanning &asked, const std::string &group,
                             const std::string &folder, const Fallback &fallback) {
  CompileOptions options = asked.options;
  options.costs.lost = {group, fallback.lost};
  options.directory = folder + "/" + fallback.directory;
  Expected<bool> mayHave = mayHaveReplicas(asked, options);
  if (!mayHave)
    return mayHave.takeError();
  std::optional<ReplanCandidates> candidates;
  if (*mayHave) {
    auto found = findReplanCandidates({asked.before, options, asked.sources, asked.horizon});
    if (!found)
      return found.takeError();
    candidates = std::move(*found);
  }
  outs() << left_justify(fallback.directory, 24);
  if (!candidates) {
    outs() << "no plan\n";
    return false;
  }
  const ReplanCandidate &chosen = candidates->best();
  if (Error error = writePlan(chosen.plan, chosen.own->inputs, options, {}))
    return error;
  outs() << readable(chosen.plan.expectedIteration()) << " a step on " << chosen.devices
         << " devices, " << readable(chosen.moves.moved) << " of state move\n";
  return true;
}
} // namespace

Expected<ExitStatus> prepareFallbacks(const Replanning &asked, const std::string &directory,
                                      int64_t most) {
  Expected<Cluster> cluster = readWholeCluster(asked.options.costs);
  if (!cluster)
    return cluster.takeError();
  if (!cluster->links.empty())
    return notSupported("--fallbacks on clusters with 'links'");
  std::string folder = directory + "/fallbacks";
  std::vector<Fallback> fallbacks;
  for (const NodeGroup &group : cluster->nodes) {
    std::vector<std::string> nodes = usedNodes(asked.before, group);
    for (int lost = 1; lost <= std::min<int64_t>(most, group.count) && !nodes.empty(); ++lost) {
      Fallback fallback{group.name + "-" + std::to_string(lost), lost, nodes};
      if (withoutNodes(*cluster, group.name, lost).nodes.empty())
        continue;
      Expected<bool> isWritten = writeFallback(asked, group.name, folder, fallback);
      if (!isWritten)
        return isWritten.takeError();
      if (*isWritten)
        fallbacks.push_back(std::move(fallback));
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
