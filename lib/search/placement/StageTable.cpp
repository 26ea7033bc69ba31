#include "search/placement/StageTable.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
/// How many segments are recomputed does not matter to times.
StageOption optionIn(ExecutionMode mode, const DeviceGroup &group) {
  StageOption option;
  option.devices = group;
  option.sharding = mode.sharding;
  option.recomputation.segments = mode.recomputes;
  return option;
}
} // namespace

StageTable::StageTable(Evaluator &evaluator, int microBatches, const StageLimits &limits)
    : microBatches(microBatches), batch(evaluator.stages.fullSize(microBatches)),
      evaluator(evaluator), options(evaluator.space.options.size()),
      last(static_cast<int>(evaluator.space.positions.size()) - 1) {
  for (const GroupOption &option : evaluator.space.options) {
    useful.push_back(evaluator.space.isUseful(option, batch));
    plain.push_back(option.plain);
    sharesBefore.push_back(option.group.besideBefore);
    sharesNext.push_back(option.group.besideNext);
    fastest.push_back(
        optionIn(evaluator.stages.fastestMode(option.group.replicas()), option.group));
    before.push_back(leastTransfer(option.group, option.group.besideBefore));
    behind.push_back(leastTransfer(option.group, option.group.besideNext));
  }
  const size_t count = last + 1;
  const LeastMixedTimes mixed(evaluator.stages, evaluator.space, microBatches);
  rows.assign(count * options, Row{});
  entries.resize(1);
  for (int end = 1; end < int(count) && !(limits.isOver && limits.isOver()); ++end)
    for (int option = 0; option < int(options); ++option)
      if (plain[option] == option)
        fillRow(end, option, limits, mixed);
  entries.shrink_to_fit();
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
  row.offset = numbers.size();
  row.last = row.first = !has(option) ? 0 : group.wholeModelOnly ? whole : end;
  double longest = std::min(limits.iteration, limits.paid / group.price.value()) * (1 + 1e-9);
  while (row.first > 0) {
    const double most = longest - limits.besides(row.first - 1, end);
    if (microBatches * mixed.seconds(group.group, row.first - 1, end) > most)
      return;
    if (limits.mayHave && !limits.mayHave(row.first - 1, end, option)) {
      numbers.push_back(absent);
      --row.first;
      continue;
    }
    double least = 0;
    StageTimes entry = price(row.first - 1, end, option, least);
    if (microBatches * least > most)
      return;
    numbers.push_back(uint32_t(entries.size()));
    entries.push_back(entry);
    --row.first;
  }
}

StageTimes StageTable::entryOf(const StageCost &cost, ExecutionMode mode, int mostInFlight) const {
  StageTimes entry;
  entry.forward = entry.leastForward = cost.forward.value();
  entry.backward = cost.backward.value();
  entry.sync = cost.synchronization.value();
  entry.share = cost.largestShare.value();
  entry.mostInFlight = mostInFlight;
  entry.mode = mode;
  return entry;
}

/// The least forward + backward, the least sum of all three, and the least forward pass.
StageTimes StageTable::estimateOf(ArrayRef<StageTimes> modes) const {
  auto time = [](const StageTimes &mode) { return mode.forward + mode.backward; };
  StageTimes entry =
      *std::min_element(modes.begin(), modes.end(), [&](const StageTimes &a, const StageTimes &b) {
        return time(a) < time(b);
      });
  entry.estimate = true;
  const double fastest = time(entry);
  for (const StageTimes &mode : modes) {
    entry.mostInFlight = std::max(entry.mostInFlight, mode.mostInFlight);
    entry.leastForward = std::min(entry.leastForward, mode.leastForward);
    entry.sync = std::min(entry.sync, std::max(0.0, mode.sync + (time(mode) - fastest)));
  }
  return entry;
}

/// `least`: forward and backward pass, whatever memory allows, of this stage and of each that
/// begins before it; a longer stage may receive less, so that it fits in a faster mode. 0: not
/// known.
StageTimes StageTable::price(int begin, int end, int option, double &least) {
  const std::vector<int> &positions = evaluator.space.positions;
  LayerRange range{positions[begin], positions[end]};
  const DeviceGroup &group = evaluator.space.options[option].group;
  if (group.counts.size() > 1)
    return priceBalanced(range, group, deepest(end));
  int type = group.counts.front().first;
  if (!evaluator.stages.mayRun(range, type))
    return {};
  const ExecutionMode mode = evaluator.stages.fastestMode(group.replicas());
  StageCost cost = evaluator.stages.costs.stageCost(range, fastest[option],
                                                    evaluator.stages.splitOf(microBatches, true));
  if (!cost.isKnown)
    return {};
  if (!cost.largestIsSlowest)
    return priceBalanced(range, group, deepest(end));
  least = (cost.forward + cost.backward).value();
  const int most = mode.recomputes ? evaluator.stages.mostInFlight(range, type, group.replicas(),
                                                                   cost.largestShare.value(), mode)
                                   : evaluator.stages.mostInFlight(cost, type);
  const bool isDominating = evaluator.stages.fastestDominates() && most >= deepest(end);
  if (evaluator.stages.modesFor(group.replicas()).size() == 1 || isDominating)
    return entryOf(cost, mode, most);
  const SmallVector<StageTimes, 2> modes = priceModes(range, group, end);
  if (modes.size() == 1)
    return modes.front();
  severalModes |= !modes.empty();
  StageTimes none;
  none.share = cost.largestShare.value();
  if (modes.empty())
    return none;
  StageTimes entry = estimateOf(modes);
  entry.modes = int(modesOf.size());
  modesOf.push_back(modes);
  return entry;
}

StagesBehind StageTable::behindWith(int mostInFlight, int end, int deepest) const {
  StagesBehind behind{end < last ? 1 : 0};
  int most = std::min(deepest, last - end);
  if (inFlight(most + 1) <= mostInFlight)
    return behind;
  for (behind.most = behind.fewest - 1; inFlight(behind.most + 2) <= mostInFlight;)
    ++behind.most;
  return behind;
}

SmallVector<StageTable::TimesByDepth, 2> StageTable::byDepth(int begin, int end, int option,
                                                             int deepest) const {
  SmallVector<StageTimes, 2> modes = modesOf[at(begin, end, option).modes];
  llvm::sort(modes, [](const StageTimes &a, const StageTimes &b) {
    return a.mostInFlight < b.mostInFlight;
  });
  SmallVector<TimesByDepth, 2> result;
  int next = 0;
  for (size_t i = 0; i < modes.size(); ++i) {
    StagesBehind behind = behindWith(modes[i].mostInFlight, end, deepest);
    behind.fewest = std::max(behind.fewest, next);
    if (behind.fewest > behind.most)
      continue;
    result.push_back({behind, estimateOf(ArrayRef<StageTimes>(modes).drop_front(i))});
    next = behind.most + 1;
    if (behind.most == StagesBehind::any)
      break;
  }
  return result;
}

/// The modes in which an even split fits with the fewest micro-batches in flight that it can have,
/// but for those that another one dominates which holds as many.
SmallVector<StageTimes, 2> StageTable::priceModes(LayerRange range, const DeviceGroup &group,
                                                  int end) {
  const auto [type, count] = group.counts.front();
  const int64_t share = (batch + count - 1) / count;
  const int deepest = this->deepest(end);
  SmallVector<StageTimes, 2> kept;
  SmallVector<StageCost, 2> costs;
  bool noGathers[2] = {false, false}; // by whether the mode recomputes
  for (const ExecutionMode &mode : evaluator.stages.modesFor(count)) {
    if (mode.sharding.gathersParameters() && noGathers[mode.recomputes])
      continue;
    const int most = evaluator.stages.mostInFlight(range, type, count, share, mode);
    if (most < fewestInFlight(end))
      continue;
    if (StageEvaluator::dominatesGathers(mode) && most >= deepest)
      noGathers[mode.recomputes] = noGathers[true] = true;
    const StageCost cost = evaluator.stages.costs.stageTimes(
        range, optionIn(mode, group), evaluator.stages.splitOf(microBatches, true));
    auto holdsNoMore = [&](int a, int b) { return std::min(a, deepest) <= std::min(b, deepest); };
    bool isDominated = false;
    for (size_t i = kept.size(); i-- > 0 && !isDominated;) {
      isDominated = holdsNoMore(most, kept[i].mostInFlight) && dominates(costs[i], cost);
      if (isDominated || !holdsNoMore(kept[i].mostInFlight, most) || !dominates(cost, costs[i]))
        continue;
      kept.erase(kept.begin() + i);
      costs.erase(costs.begin() + i);
    }
    if (isDominated)
      continue;
    kept.push_back(entryOf(cost, mode, most));
    costs.push_back(cost);
  }
  return kept;
}

/// Whether a stage that runs as `run` would still fit with `inFlight` micro-batches, and a sample
/// more where shares are balanced.
bool StageTable::fitsDeeper(LayerRange range, const StageEvaluation &run, int inFlight) {
  const DeviceGroup &group = run.option.devices;
  for (size_t i = 0; i < group.counts.size(); ++i) {
    int64_t most = run.shares.empty() ? run.cost.largestShare.value() : run.shares[i].front() + 1;
    if (evaluator.stages.mostInFlight(range, group.counts[i].first, group.replicas(), most,
                                      run.mode) < inFlight)
      return false;
  }
  return true;
}

/// As the last stage with one micro-batch in flight, where its shares are the best there are. Modes
/// that fit further from the end take no less than those that dominate them here.
StageTimes StageTable::priceBalanced(LayerRange range, const DeviceGroup &group, int deepest) {
  StageTimes entry;
  int64_t devices = group.replicas();
  entry.share = (batch + devices - 1) / devices;
  entry.estimate = true;
  bool mayRun = all_of(
      group.counts, [&](const auto &each) { return evaluator.stages.mayRun(range, each.first); });
  if (!mayRun)
    return entry;
  // the even split has the least largest share, hence the least lookups
  const GroupCosts costs = evaluator.stages.costs.costsOf(group);
  TableRows rows = evaluator.stages.costs.memoryOf(0).lookups(range) * double(entry.share);
  SmallVector<StageTimes, 6> found;
  const SmallVector<StageEvaluation, 2> runs =
      evaluator.stages.evaluateModes(range, group, microBatches, StagePlace());
  for (const StageEvaluation &run : runs) {
    const StageCost &cost = run.cost;
    StageTimes &of = found.emplace_back(entryOf(cost, run.mode, microBatches));
    of.forward = (cost.forward - cost.lookup + costs.lookup.time(rows)).value();
    of.backward = (cost.backward - cost.lookupGradient + costs.lookupGradient.time(rows)).value();
  }
  if (found.empty())
    return entry;
  severalModes |= found.size() > 1 || !fitsDeeper(range, runs.front(), deepest);
  const int64_t share = entry.share;
  entry = estimateOf(found);
  entry.share = share;
  entry.leastForward = 0;
  return entry;
}

SmallVector<StageTimes, 2> StageTable::atDepth(int begin, int end, int option, int depth) {
  const Row &row = rowOf(end, option);
  const StageTimes &entry = at(begin, end, option);
  const int inFlight = this->inFlight(depth);
  if (entry.mostInFlight < inFlight)
    return {};
  if (!entry.estimate)
    return {entry};
  auto [known, isNew] = exact.try_emplace({row.indexOf(begin), inFlight});
  if (!isNew)
    return known->second;
  const std::vector<int> &positions = evaluator.space.positions;
  bool isLast = end + 1 == int(positions.size());
  for (const StageEvaluation &run : evaluator.stages.evaluateModes(
           {positions[begin], positions[end]}, evaluator.space.options[option].group, microBatches,
           {isLast, inFlight}))
    known->second.push_back(entryOf(run.cost, run.mode, inFlight));
  return known->second;
}

SmallVector<StageTimes, 2> StageTable::modes(int begin, int end, int option) {
  const StageTimes &entry = at(begin, end, option);
  const std::vector<int> &positions = evaluator.space.positions;
  const LayerRange range{positions[begin], positions[end]};
  const DeviceGroup &group = evaluator.space.options[option].group;
  const bool isExact = !entry.estimate, isMixed = group.counts.size() > 1;
  if (isExact || isMixed ||
      !evaluator.stages.costs
           .stageTimes(range, fastest[option], evaluator.stages.splitOf(microBatches, true))
           .largestIsSlowest)
    return {entry};
  return priceModes(range, group, end);
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
