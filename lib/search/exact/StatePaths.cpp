#include "search/exact/StatePaths.h"

#include "search/exact/StateLoops.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double safety = 1 - 1e-12;
} // namespace

TransferTimes transferTimes(const Evaluator &evaluator, PathTable &paths, int64_t batch,
                            int position, int before, int behind) {
  const SearchSpace &space = evaluator.space;
  const Cut &cut = evaluator.cuts[space.positions[position]];
  auto share = [&](int option) {
    int64_t devices = space.options[option].group.size();
    return Samples((batch + devices - 1) / devices);
  };
  const TransferPath &path = paths.at(before, behind);
  Seconds receive = path.time(share(before), share(behind), cut.forwardBytes, cut.fixedBytes);
  Seconds gradient =
      path.reversed().time(share(behind), share(before), cut.backwardBytes, Bytes(0));
  return {receive.value() * safety, gradient.value() * safety};
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
  for (size_t position = 1; position + 1 < positions; ++position)
    for (int before : options)
      for (int behind : options) {
        if (!space.mayFollow(before, behind))
          continue;
        Boundary &least = boundaries[(position * count + kindFromBehind(before)) * count +
                                     kindFromBefore(behind)];
        TransferTimes times =
            transferTimes(evaluator, paths, table.batch, int(position), before, behind);
        least.receive = std::min(least.receive, times.receive);
        least.gradient = std::min(least.gradient, times.gradient);
      }
}

void StatePaths::solve(ArrayRef<StateStage> stages, double below) {
  const size_t count = states.size();
  memory.fills.assign(size_t(positions) * size_t(kinds) * count, infinity);
  memory.forwards.assign(size_t(positions) * size_t(kinds) * count, infinity);
  std::fill_n(memory.fills.begin(), kinds * count, 0);
  std::fill_n(memory.forwards.begin(), kinds * count, 0);
  auto next = stages.begin();
  for (int end = 1; end < positions; ++end) {
    memory.endingFills.assign(kinds * count, infinity);
    memory.endingForwards.assign(kinds * count, infinity);
    for (; next != stages.end() && next->end == end; ++next) {
      if (next->time >= below)
        continue;
      const int before = transfers.kindFromBefore(next->option);
      const int kind = transfers.kindFromBehind(next->option);
      const size_t taken = states.taken(next->option), from = place(next->begin, before) - taken;
      const Addition<float> added{float(next->time - next->receive - next->gradient),
                                  float(next->forward - next->receive), float(next->sync)};
      for (auto [first, length] : states.runs(next->option)) {
        addStage(added, &memory.fills[from + first], &memory.forwards[from + first],
                 &memory.endingFills[kind * count + first],
                 &memory.endingForwards[kind * count + first], length);
        looked += int64_t(length);
      }
    }
    addTransfers(end);
  }
}

void StatePaths::addTransfers(int position) {
  const size_t count = states.size();
  for (int before = 0; before < kinds; ++before)
    for (int behind = 0; behind < kinds; ++behind) {
      const LeastTransfers::Boundary &times = transfers.at(position, before, behind);
      if (std::isinf(times.receive)) // they cannot be neighbours
        continue;
      addTime(float(times.receive + times.gradient), &memory.endingFills[before * count],
              &memory.fills[place(position, behind)], count);
      addTime(float(times.receive), &memory.endingForwards[before * count],
              &memory.forwards[place(position, behind)], count);
    }
  looked += int64_t(count * kinds * kinds);
}

/// Of what is left behind a position, with what crosses it.
void StatePaths::takeTransfers(int position) {
  const size_t count = states.size();
  for (int before = 0; before < kinds; ++before)
    for (int behind = 0; behind < kinds; ++behind) {
      const LeastTransfers::Boundary &times = transfers.at(position, before, behind);
      if (std::isinf(times.receive))
        continue;
      keepMost(float(times.receive + times.gradient), &memory.leftBehind[place(position, behind)],
               &memory.left[place(position, before)], count);
    }
  looked += int64_t(count * kinds * kinds);
}

std::vector<StateStage> StatePaths::within(ArrayRef<StateStage> stages, double below,
                                           const std::vector<double> &limits) {
  const size_t count = states.size();
  memory.left.assign(size_t(positions) * size_t(kinds) * count, -infinity);
  memory.leftBehind.assign(size_t(positions) * size_t(kinds) * count, -infinity);
  for (int kind = 0; kind < kinds; ++kind)
    std::transform(limits.begin(), limits.end(), memory.left.begin() + place(positions - 1, kind),
                   [&](double limit) { return float(limit * (1 + 2 * rounding())); });
  std::vector<StateStage> kept;
  auto stage = stages.end();
  for (int end = positions - 1; end > 0; --end) {
    if (end + 1 < positions)
      takeTransfers(end);
    for (; stage != stages.begin() && (stage - 1)->end == end; --stage) {
      const StateStage &own = stage[-1];
      if (own.time >= below)
        continue;
      const size_t before =
          place(own.begin, transfers.kindFromBefore(own.option)) - states.taken(own.option);
      const size_t behind = place(end, transfers.kindFromBehind(own.option));
      const float time = float(own.time - own.receive - own.gradient);
      bool isKept = false;
      for (auto [first, length] : states.runs(own.option)) {
        keepMost(time, &memory.left[behind + first], &memory.leftBehind[before + first], length);
        isKept |=
            anyWithin(time, &memory.fills[before + first], &memory.left[behind + first], length);
        looked += 2 * int64_t(length);
      }
      if (isKept)
        kept.push_back(own);
    }
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

StatesOfInterest StatePaths::statesWithin() const {
  StatesOfInterest result(states);
  std::vector<char> found;
  for (int position = 0; position < positions; ++position) {
    found.assign(states.size(), false);
    addWithin(position + 1 < positions ? memory.leftBehind : memory.left, position, found);
    result.addPosition(found);
  }
  return result;
}

/// Adds to `found` the states of a position in which paths take no more than `mayTake`.
void StatePaths::addWithin(const std::vector<float> &mayTake, int position,
                           std::vector<char> &found) const {
  for (int kind = 0; kind < kinds; ++kind) {
    const float *fill = &memory.fills[place(position, kind)];
    const float *most = &mayTake[place(position, kind)];
    for (size_t state = 0; state < found.size(); ++state)
      found[state] |= fill[state] <= most[state];
  }
}

} // namespace heterplan
