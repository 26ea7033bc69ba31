#include "search/exact/Transfers.h"

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

LeastTransfers::LeastTransfers(const Evaluator &evaluator, PathTable &paths,
                               const StageTable &table)
    : fromBefore(evaluator.space.options.size(), -1), fromBehind(fromBefore) {
  const SearchSpace &space = evaluator.space;
  std::map<std::vector<int>, int> numbers; // of types, and whether a node is shared
  std::vector<int> options;
  for (int option = 0; option < int(space.options.size()); ++option) {
    if (space.options[option].wholeModelOnly || !table.has(option))
      continue;
    const DeviceGroup &group = space.options[option].group;
    auto kindOf = [&](bool sharesNode) {
      std::vector<int> types{sharesNode};
      for (auto [type, devices] : group.counts)
        types.push_back(type);
      return numbers.try_emplace(types, int(numbers.size())).first->second;
    };
    fromBefore[option] = kindOf(group.besideBefore);
    fromBehind[option] = kindOf(group.besideNext);
    options.push_back(option);
  }
  count = int(numbers.size());
  const size_t positions = space.positions.size();
  boundaries.assign(positions * count * count, {infinity, infinity});
  std::fill_n(boundaries.begin(), count * count, Boundary());
  std::fill_n(boundaries.rbegin(), count * count, Boundary());
  std::map<std::tuple<Bytes, Bytes, Bytes, Bytes>, size_t> known; // positions where as much crosses
  for (size_t position = 1; position + 1 < positions; ++position) {
    const Cut &cut = evaluator.cuts[space.positions[position]];
    auto [alike, isNew] = known.try_emplace(
        {cut.forwardBytes, cut.fixedBytes, cut.backwardBytes, cut.fixedGradientBytes}, position);
    if (isNew)
      setBoundaries(evaluator, paths, table.batch, int(position), options);
    else
      std::copy_n(boundaries.begin() + alike->second * count * count, count * count,
                  boundaries.begin() + position * count * count);
  }
}

void LeastTransfers::setBoundaries(const Evaluator &evaluator, PathTable &paths, int64_t batch,
                                   int position, ArrayRef<int> options) {
  for (int before : options)
    for (int behind : options) {
      if (!evaluator.space.mayFollow(before, behind))
        continue;
      Boundary &least = boundaries[(size_t(position) * count + kindFromBehind(before)) * count +
                                   kindFromBefore(behind)];
      TransferTimes times = transferTimes(evaluator, paths, batch, position, before, behind);
      least.receive = std::min(least.receive, times.receive);
      least.gradient = std::min(least.gradient, times.gradient);
    }
}

} // namespace heterplan
