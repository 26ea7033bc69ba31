#include "search/provision/StageOrders.h"

#include <algorithm>
#include <bitset>
#include <cassert>

using namespace llvm;

namespace heterplan {

StageOrders::StageOrders(Evaluator &evaluator)
    : evaluator(evaluator), blocks(int(evaluator.space.positions.size()) - 1) {}

/// Whether there are enough devices for all groups of `set`.
bool StageOrders::fit(ArrayRef<DeviceGroup> groups, size_t set) const {
  const SearchSpace &space = evaluator.space;
  std::vector<int> left = space.available;
  int stages = 0;
  for (size_t group = 0; group < groups.size(); ++group) {
    if (!(set >> group & 1))
      continue;
    ++stages;
    auto [type, count] = groups[group].counts.front();
    if ((left[size_t(type)] -= count) < 0)
      return false;
  }
  return stages <= space.maxStages;
}

StageOrders::Times &StageOrders::timesOf(const DeviceGroup &group, int microBatches, int inFlight,
                                         bool isLast) {
  auto [type, count] = group.counts.front();
  Times &times = known[{type, count, microBatches, inFlight, isLast}];
  if (times.empty()) {
    StageTimes unknown;
    unknown.share = -1;
    times.assign(size_t(blocks) * size_t(blocks), unknown);
  }
  return times;
}

/// The times of a stage; a share of 0 where it does not fit.
const StageTimes &StageOrders::stageAt(Times &of, int begin, int end, const DeviceGroup &group,
                                       int microBatches, StagePlace place) {
  StageTimes &times = of[size_t(begin) * size_t(blocks) + size_t(end) - 1];
  if (times.share >= 0)
    return times;
  ++evaluated;
  const std::vector<int> &at = evaluator.space.positions;
  const StageEvaluation found =
      evaluator.stages.evaluate({at[size_t(begin)], at[size_t(end)]}, group, microBatches, place);
  times.share = found.fits ? found.cost.largestShare.value() : 0;
  times.forward = found.cost.forward.value();
  times.backward = found.cost.backward.value();
  times.sync = found.cost.synchronization.value();
  return times;
}

/// `behind` with `stage` before it; price and place of the stage are not filled in.
StageOrders::Tail StageOrders::withStageBefore(const Tail &behind, const StageTimes &stage,
                                               const BoundaryCost &boundary) const {
  Tail tail = behind;
  StageSums &sums = tail.sums;
  const double receive = boundary.receive.value();
  tail.stage = &stage;
  tail.gradient = boundary.receiveGradient.value();
  if (behind.stage)
    sums.slowest = std::max(sums.slowest, behind.stage->forward + behind.stage->backward +
                                              behind.gradient + receive);
  const double time = stage.forward + stage.backward + tail.gradient;
  sums.fill += receive + time;
  sums.slowest = std::max(sums.slowest, time);
  sums.exposed = std::max(stage.sync, sums.exposed - stage.backward - tail.gradient);
  return tail;
}

/// Keeps `tail`, which begins at position `begin` on `set`, where it is better than what is known.
void StageOrders::keep(const Tail &tail, size_t set, int begin) {
  if (Tail &known = tailAt(set, begin, 0); tail.objective < known.objective)
    known = tail;
  if (Tail &known = tailAt(set, begin, 1); tail.hidden < known.hidden)
    known = tail;
}

/// Puts stages on `group` that end at `end` in front of `behind`, a pipeline on the groups of
/// `set`.
void StageOrders::putBefore(const Tail &behind, int end, ArrayRef<DeviceGroup> groups, size_t set,
                            int group, int microBatches, double limit) {
  const DeviceGroup &own = groups[size_t(group)];
  if (set != 0 && !evaluator.space.mayFollow(own, groups[size_t(behind.group)]))
    return;
  const int stages = int(std::bitset<64>(set).count()) + 1;
  const StagePlace place{set == 0, evaluator.problem.request.inFlight(stages, microBatches)};
  auto [type, count] = own.counts.front();
  const double price = evaluator.problem.cluster.types[size_t(type)].price.value() * count;
  const bool transfers = set != 0 && !evaluator.rules.transfersArePartOfStages();
  const TransferPath path =
      transfers ? evaluator.pathBetween(own, groups[size_t(behind.group)]) : TransferPath{};
  const Cut &cut = evaluator.cuts[size_t(evaluator.space.positions[size_t(end)])];
  Times &times = timesOf(own, microBatches, place.inFlight, place.isLast);
  for (int begin = end - 1; begin >= 0; --begin) {
    ++steps;
    const StageTimes &stage = stageAt(times, begin, end, own, microBatches, place);
    if (stage.share == 0) // longer stages do not fit either
      break;
    Tail tail = withStageBefore(
        behind, stage,
        transfers ? boundaryCost(path, Samples(stage.share), Samples(behind.stage->share), cut)
                  : BoundaryCost{});
    tail.price += price;
    tail.group = group;
    tail.end = end;
    auto objectiveOf = [&](const StageSums &sums) {
      return evaluator.objectiveOf(Seconds(evaluator.rules.leastIteration(sums, microBatches)),
                                   DollarsPerHour(tail.price));
    };
    tail.objective = objectiveOf(tail.sums);
    StageSums withoutSums = tail.sums;
    withoutSums.exposed = 0;
    tail.hidden = objectiveOf(withoutSums);
    if (tail.hidden >= limit) // longer stages take longer
      break;
    keep(tail, set | size_t(1) << group, begin);
  }
}

/// Puts a stage on `group` in front of each pipeline on the groups of `set`.
void StageOrders::extend(ArrayRef<DeviceGroup> groups, size_t set, int group, int microBatches,
                         double limit) {
  for (int end = set == 0 ? blocks : blocks - 1; end > 0; --end)
    for (size_t kind = 0; kind < kinds; ++kind) {
      Tail behind = tailAt(set, end, kind);
      const bool isKnown = kind > 0 && behind.objective == tailAt(set, end, 0).objective;
      if (behind.hidden >= limit || isKnown)
        continue;
      behind.kind = kind;
      putBefore(behind, end, groups, set, group, microBatches, limit);
    }
}

Placement StageOrders::placementOf(ArrayRef<DeviceGroup> groups, size_t set, int microBatches) {
  const std::vector<int> &at = evaluator.space.positions;
  Placement result{{}, microBatches};
  size_t kind = 0;
  for (int begin = 0; set != 0;) {
    const Tail &tail = tailAt(set, begin, kind);
    result.stages.push_back({at[size_t(begin)], at[size_t(tail.end)], groups[size_t(tail.group)]});
    set ^= size_t(1) << tail.group;
    begin = tail.end;
    kind = tail.kind;
  }
  return result;
}

std::vector<Placement> StageOrders::best(ArrayRef<DeviceGroup> groups, int microBatches,
                                         size_t most, double limit) {
  assert(groups.size() <= mostGroups);
  constexpr size_t mostKnown = 48; // tables of times
  if (known.size() >= mostKnown)
    known.clear();
  const size_t sets = size_t(1) << groups.size();
  tails.assign(sets * size_t(blocks + 1) * kinds, Tail());
  for (size_t kind = 0; kind < kinds; ++kind)
    tailAt(0, blocks, kind).objective = tailAt(0, blocks, kind).hidden = 0;
  for (size_t set = 0; set < sets; ++set)
    for (size_t group = 0; group < groups.size(); ++group)
      if (!(set >> group & 1) && fit(groups, set | size_t(1) << group))
        extend(groups, set, int(group), microBatches, limit);
  std::vector<size_t> order;
  for (size_t set = 1; set < sets; ++set)
    if (tailAt(set, 0).objective < limit)
      order.push_back(set);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tailAt(a, 0).objective < tailAt(b, 0).objective;
  });
  order.resize(std::min(order.size(), most));
  std::vector<Placement> result;
  for (size_t set : order)
    result.push_back(placementOf(groups, set, microBatches));
  return result;
}

} // namespace heterplan
