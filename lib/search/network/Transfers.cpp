#include "search/network/Transfers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

/// A path depends on the types at its ends, on how many devices share a node's interface, and on
/// whether the stages lie in one node (transferPath).
PathTable::PathTable(const Evaluator &evaluator) : evaluator(evaluator) {
  std::map<std::vector<int>, int> known;
  for (const GroupOption &option : evaluator.space.options) {
    const DeviceGroup &group = option.group;
    std::vector<int> end{shapeOf(evaluator.problem.cluster, group).devicesPerNode,
                         group.besideBefore, group.besideNext};
    for (auto [type, devices] : group.counts)
      end.push_back(type);
    ends.push_back(known.try_emplace(std::move(end), int(known.size())).first->second);
  }
}

const TransferPath &PathTable::at(int before, int behind) {
  auto [entry, inserted] = paths.try_emplace({ends[before], ends[behind]});
  const std::vector<GroupOption> &options = evaluator.space.options;
  if (inserted)
    entry->second =
        transferPath(evaluator.problem.cluster, options[before].group, options[behind].group);
  return entry->second;
}

TransferTimes transferTimes(const Evaluator &evaluator, PathTable &paths, int64_t batch,
                            int position, int before, int behind) {
  const SearchSpace &space = evaluator.space;
  const Cut &cut = evaluator.cuts[space.positions[position]];
  auto share = [&](int option) {
    int64_t devices = space.options[option].group.replicas();
    return Samples((batch + devices - 1) / devices);
  };
  const BoundaryCost cost =
      boundaryCost(paths.at(before, behind), share(before), share(behind), cut);
  return {cost.receive.value() * StageArc::safety, cost.receiveGradient.value() * StageArc::safety};
}

} // namespace heterplan
