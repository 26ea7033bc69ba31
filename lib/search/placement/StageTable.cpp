#include "search/placement/StageTable.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

StageTable::StageTable(Evaluator &evaluator, int microBatches, const StageLimits &limits)
    : microBatches(microBatches), batch(evaluator.stages.fullSize(microBatches)),
      evaluator(evaluator), options(evaluator.space.options.size()),
      last(static_cast<int>(evaluator.space.positions.size()) - 1) {
  for (const GroupOption &option : evaluator.space.options) {
    useful.push_back(evaluator.space.isUseful(option, batch));
    plain.push_back(option.plain);
    sharesBefore.push_back(option.group.besideBefore);
    sharesNext.push_back(option.group.besideNext);
    StageOption &plain = plainest.emplace_back();
    plain.devices = option.group;
    StageWay first = evaluator.stages.waysFor(option.group.size()).front();
    plain.stateSharding = first.sharding;
    plain.recomputation.segments = first.recomputes; // how many does not matter to times
    before.push_back(leastTransfer(option.group, option.group.besideBefore));
    behind.push_back(leastTransfer(option.group, option.group.besideNext));
  }
  const size_t count = last + 1;
  const LeastMixedTimes mixed(evaluator.stages, evaluator.space, microBatches);
  rows.assign(count * options, Row{});
  losses.resize(count);
  for (int end = 1; end < int(count) && !(limits.isOver && limits.isOver()); ++end)
    for (int option = 0; option < int(options); ++option)
      if (plain[option] == option)
        fillRow(end, option, limits, mixed);
  entries.shrink_to_fit();
  for (size_t end = 1; end < count; ++end)
    losses[end] = std::max(losses[end], losses[end - 1]);
}

/// The least of several links is concave in the size: its start, and its slope far out.
StageTable::LeastTransfer StageTable::leastTransfer(const DeviceGroup &group, bool inNode) const {
  auto least = [&](double bytes) {
    return leastTransferTime(evaluator.problem.cluster, group, inNode, Samples(1), Bytes(bytes),
                             Bytes(0))
        .value();
  };
  return {least(1e-9), (least(2e18) - least(1e18)) / 1e18};
}

/// A stage computes at least as long as any part of it, and an iteration takes at least m times as
/// long as a stage, and once all other layers.
void StageTable::fillRow(int end, int option, const StageLimits &limits,
                         const LeastMixedTimes &mixed) {
  const GroupOption &group = evaluator.space.options[option];
  bool whole = end + 1 == int(evaluator.space.positions.size());
  Row &row = rows[size_t(end) * options + option];
  row.offset = entries.size();
  row.last = row.first = !has(option) ? 0 : group.wholeModelOnly ? whole : end;
  double longest = std::min(limits.iteration, limits.paid / group.price.value()) * (1 + 1e-9);
  while (row.first > 0) {
    const double most = longest - limits.besides(row.first - 1, end);
    if (microBatches * mixed.seconds(group.group, row.first - 1, end) > most)
      return;
    double least = 0;
    StageEntry entry = price(row.first - 1, end, option, least);
    if (microBatches * least > most)
      return;
    entries.push_back(entry);
    --row.first;
  }
}

void StageTable::noteLoss(int end, double loss) {
  waysDiffer = true;
  losses[end] = std::max(losses[end], loss);
}

/// What is exposed of a longer synchronisation is made up for by shorter passes; longer passes
/// count in the sum and in the bottleneck, of as many stages as have other numbers in flight.
double StageTable::lossBetween(const WayCost &nearer, const WayCost &further) const {
  double passes = nearer.time() - further.time(), sync = nearer.sync - further.sync;
  return passes > 0 ? 2 * microBatches * passes + std::max(0.0, sync)
                    : std::max(0.0, sync + passes);
}

/// The least forward + backward, and the least sum of all three.
void StageTable::setEstimate(ArrayRef<WayCost> ways, StageEntry &entry) const {
  const WayCost *fastest =
      std::min_element(ways.begin(), ways.end(),
                       [](const WayCost &a, const WayCost &b) { return a.time() < b.time(); });
  entry.estimate = true;
  entry.forward = fastest->forward;
  entry.backward = fastest->backward;
  entry.sync = fastest->sync;
  for (const WayCost &way : ways) {
    entry.mostInFlight = std::max(entry.mostInFlight, way.mostInFlight);
    entry.sync = std::min(entry.sync, std::max(0.0, way.sync + (way.time() - fastest->time())));
  }
}

/// `least`: forward and backward pass, whatever memory allows, of this stage and of each that
/// begins before it; a longer stage may receive less, so that it fits in a faster way. 0: not
/// known.
StageEntry StageTable::price(int begin, int end, int option, double &least) {
  const std::vector<int> &positions = evaluator.space.positions;
  LayerRange range{positions[begin], positions[end]};
  const DeviceGroup &group = evaluator.space.options[option].group;
  int64_t devices = group.size();
  if (group.counts.size() > 1)
    return priceBalanced(range, group, end, deepest(end));
  int type = group.counts.front().first;
  if (!evaluator.stages.mayRun(range, type))
    return {};
  StageWay plain = evaluator.stages.waysFor(group.size()).front();
  StageCost cost = evaluator.stages.costs.stageCost(range, plainest[option],
                                                    evaluator.stages.splitOf(microBatches, true));
  if (!cost.isKnown)
    return {};
  if (!cost.largestIsSlowest)
    return priceBalanced(range, group, end, deepest(end));
  StageEntry entry;
  least = (cost.forward + cost.backward).value();
  entry.forward = entry.leastForward = cost.forward.value();
  entry.backward = cost.backward.value();
  entry.sync = cost.synchronization.value();
  entry.share = cost.largestShare.value();
  entry.mostInFlight = plain.recomputes ? evaluator.stages.mostInFlight(range, type, int(devices),
                                                                        entry.share, plain)
                                        : evaluator.stages.mostInFlight(cost, type);
  bool onlyWay = evaluator.stages.waysFor(int(devices)).size() == 1;
  return onlyWay || entry.mostInFlight >= deepest(end) ? entry : priceWays(range, group, end);
}

/// The ways that fit with the `fewest` micro-batches in flight there can be, of an even split.
SmallVector<StageTable::WayCost, 6> StageTable::waysThatFit(LayerRange range,
                                                            const DeviceGroup &group, int fewest) {
  auto [type, count] = group.counts.front();
  const int64_t share = (batch + count - 1) / count;
  const BatchSplit split = evaluator.stages.splitOf(microBatches, true);
  StageOption option{group, 1, {}, {}, {}};
  SmallVector<WayCost, 6> ways;
  for (const StageWay &way : evaluator.stages.waysFor(count)) {
    int most = evaluator.stages.mostInFlight(range, type, count, share, way);
    if (most < fewest)
      continue;
    option.recomputation = {way.recomputes};
    option.stateSharding = way.sharding;
    const StageCost cost = evaluator.stages.costs.stageTimes(range, option, split);
    ways.push_back({most, cost.forward.value(), cost.backward.value(), cost.synchronization.value(),
                    &way == evaluator.stages.waysFor(count).begin()});
  }
  return ways;
}

/// The ways that fit with the `fewest` micro-batches in flight there can be, and what is lost where
/// one that is taken at some depth takes longer than one further from the end. The split is even,
/// and no way makes a forward pass shorter.
StageEntry StageTable::priceWays(LayerRange range, const DeviceGroup &group, int end) {
  const int fewest = fewestInFlight(end);
  StageEntry entry;
  entry.share = (batch + group.size() - 1) / group.size();
  const SmallVector<WayCost, 6> ways = waysThatFit(range, group, fewest);
  if (ways.empty())
    return entry;
  setEstimate(ways, entry);
  entry.leastForward = entry.forward;
  const SmallVector<WayCost, 6> taken = waysTaken(ways, fewest, deepest(end));
  for (size_t further = 0; further < taken.size(); ++further)
    for (size_t nearer = 0; nearer < further; ++nearer)
      noteLoss(end, lossBetween(taken[nearer], taken[further]));
  waysDiffer = true;
  return entry;
}

/// Of `ways` those that StageEvaluator takes with `fewest` to `deepest` micro-batches in flight,
/// each with the most with which it does.
SmallVector<StageTable::WayCost, 6> StageTable::waysTaken(ArrayRef<WayCost> ways, int fewest,
                                                          int deepest) const {
  auto takenWith = [&](int inFlight) {
    const WayCost *taken = nullptr;
    for (const WayCost &way : ways) {
      auto added = [&](const WayCost &of) { return Seconds(microBatches * of.time() + of.sync); };
      if (way.mostInFlight < inFlight || (taken && !addsLess(added(way), added(*taken))))
        continue;
      taken = &way;
      if (way.isFirst)
        break;
    }
    return taken;
  };
  SmallVector<WayCost, 6> result; // nearer to the end first
  const WayCost *last = nullptr;
  for (int inFlight = fewest; inFlight <= deepest; ++inFlight) {
    const WayCost *taken = takenWith(inFlight);
    if (!taken)
      break;
    if (taken != last)
      result.push_back(*taken);
    result.back().mostInFlight = inFlight;
    last = taken;
  }
  return result;
}

/// Whether a stage that runs as `run` would still fit with `inFlight` micro-batches, and a sample
/// more where shares are balanced.
bool StageTable::fitsDeeper(LayerRange range, const StageEvaluation &run, int inFlight) {
  const DeviceGroup &group = run.option.devices;
  StageWay way{bool(run.option.recomputation), run.option.stateSharding};
  for (size_t i = 0; i < group.counts.size(); ++i) {
    int64_t most = run.shares.empty() ? run.cost.largestShare.value() : run.shares[i].front() + 1;
    if (evaluator.stages.mostInFlight(range, group.counts[i].first, group.size(), most, way) <
        inFlight)
      return false;
  }
  return true;
}

/// As the last stage with one micro-batch in flight, where its shares are the best there are. In
/// another place, where another way may be the only one that fits, they may be balanced otherwise.
StageEntry StageTable::priceBalanced(LayerRange range, const DeviceGroup &group, int end,
                                     int deepest) {
  StageEntry entry;
  int64_t devices = group.size();
  entry.share = (batch + devices - 1) / devices;
  entry.estimate = true;
  ArrayRef<StageWay> ways = evaluator.stages.waysFor(group.size());
  bool mayRun = std::all_of(group.counts.begin(), group.counts.end(),
                            [&](auto each) { return evaluator.stages.mayRun(range, each.first); });
  if (!mayRun)
    return entry;
  // the even split has the least largest share, hence the least lookups
  const GroupCosts costs = evaluator.stages.costs.costsOf(group);
  TableRows rows = evaluator.stages.costs.memory.lookups(range) * double(entry.share);
  SmallVector<WayCost, 6> found;
  for (const StageWay &way : ways) {
    StageEvaluation run = evaluator.stages.evaluate(range, group, microBatches, StagePlace(), way);
    if (!run.fits)
      continue;
    const StageCost &cost = run.cost;
    found.push_back(
        {microBatches, (cost.forward - cost.lookup + costs.lookup.time(rows)).value(),
         (cost.backward - cost.lookupGradient + costs.lookupGradient.time(rows)).value(),
         cost.synchronization.value()});
    bool isTaken = &way == ways.begin() && !run.isLimited && fitsDeeper(range, run, deepest);
    if (isTaken || ways.size() == 1)
      break; // everywhere
  }
  if (!found.empty())
    setEstimate(found, entry);
  for (const WayCost &nearer : found)
    for (const WayCost &further : found)
      if (&nearer != &further)
        noteLoss(end, lossBetween(nearer, further));
  return entry;
}

StageEntry StageTable::atDepth(int begin, int end, int option, int depth) {
  const Row &row = rowOf(end, option);
  StageEntry entry = at(begin, end, option);
  int inFlight = std::min(microBatches, depth);
  if (entry.mostInFlight < inFlight)
    entry.mostInFlight = 0;
  if (entry.mostInFlight == 0 || !entry.estimate)
    return entry;
  auto [known, isNew] = exact.try_emplace({row.indexOf(begin), inFlight});
  if (!isNew)
    return known->second;
  const std::vector<int> &positions = evaluator.space.positions;
  bool isLast = end + 1 == int(positions.size());
  StageEvaluation run = evaluator.stages.evaluate({positions[begin], positions[end]},
                                                  evaluator.space.options[option].group,
                                                  microBatches, {isLast, inFlight});
  StageEntry &result = known->second;
  result.forward = result.leastForward = run.cost.forward.value();
  result.backward = run.cost.backward.value();
  result.sync = run.cost.synchronization.value();
  result.share = run.cost.largestShare.value();
  result.mostInFlight = run.fits ? inFlight : 0;
  return result;
}

SmallVector<StageEntry, 6> StageTable::ways(int begin, int end, int option) {
  const StageEntry &entry = at(begin, end, option);
  const std::vector<int> &positions = evaluator.space.positions;
  const LayerRange range{positions[begin], positions[end]};
  const DeviceGroup &group = evaluator.space.options[option].group;
  const bool isExact = !entry.estimate, isMixed = group.counts.size() > 1;
  if (isExact || isMixed ||
      !evaluator.stages.costs
           .stageTimes(range, plainest[option], evaluator.stages.splitOf(microBatches, true))
           .largestIsSlowest)
    return {entry};
  const int fewest = fewestInFlight(end);
  SmallVector<StageEntry, 6> found;
  for (const WayCost &way : waysTaken(waysThatFit(range, group, fewest), fewest, deepest(end))) {
    StageEntry &of = found.emplace_back(entry);
    of.forward = of.leastForward = way.forward;
    of.backward = way.backward;
    of.sync = way.sync;
    of.mostInFlight = way.mostInFlight;
    of.estimate = false;
  }
  return found;
}

double StageTable::leastReceive(int position, int option, int64_t share) const {
  const Cut &cut = evaluator.cuts[evaluator.space.positions[position]];
  if (evaluator.rules.transfersArePartOfStages() || cut.forwardBytes == Bytes(0))
    return 0;
  return before[option].latency +
         cut.forwardBytes.value() * double(share) * before[option].perSampleByte;
}

double StageTable::leastReceiveGradient(int position, int option, int64_t share) const {
  const Cut &cut = evaluator.cuts[evaluator.space.positions[position]];
  if (evaluator.rules.transfersArePartOfStages() || cut.backwardBytes == Bytes(0))
    return 0;
  return behind[option].latency +
         cut.backwardBytes.value() * double(share) * behind[option].perSampleByte;
}

} // namespace heterplan
