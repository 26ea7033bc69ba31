#include "search/verify/bound/StageBounds.h"

#include "cost/Memory.h"
#include "ir/AdmittedModes.h"
#include "search/verify/IterationFacts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tolerance = 1 + 1e-9; // of limits
constexpr size_t mostCuts = 600;

/// ⌈batch/b⌉ for each size b of a micro-batch.
std::vector<int> usefulCounts(int64_t batch) {
  std::set<int> counts;
  for (int64_t size = batch; size >= 1;) {
    const int64_t count = (batch + size - 1) / size;
    counts.insert(int(count));
    size = (batch - 1) / count; // the largest size with more micro-batches
  }
  return {counts.begin(), counts.end()};
}

double seconds(const CollectiveCost &cost, const TableRows &rows) {
  return cost.time(rows).value();
}
} // namespace

StageBounds::StageBounds(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                         const CostModel &costs)
    : plan(plan), graph(graph), cluster(cluster), costs(costs) {
  reason = findObstacle();
  if (!reason.empty())
    return;
  devices.emplace(plan, cluster);
  reason = devices->obstacle();
  if (!reason.empty())
    return;
  if (plan.requestedMicroBatches > 0)
    numbers = {plan.requestedMicroBatches};
  else
    numbers = usefulCounts(plan.globalBatch.value());
  const std::vector<bool> allowed = graph.allowedCuts();
  std::vector<int> cuts{0};
  for (int layer = 1; layer < graph.size(); ++layer)
    if (allowed[size_t(layer)] && plan.requestedSchedule != ScheduleChoice::DataParallel)
      cuts.push_back(layer);
  cuts.push_back(graph.size());
  if (cuts.size() > mostCuts) {
    reason = "the model has more than " + std::to_string(mostCuts) + " cuts";
    return;
  }
  ranges.emplace(graph, std::move(cuts), plan.batchNorm == BatchNorm::Synchronised);
  for (const DeviceType &type : cluster.types)
    for (const Layer &layer : graph.layers)
      mayFall |= costs.mayFall(layer, type);
  StringMap<int> first;
  for (int layer = 0; layer < graph.size(); ++layer)
    alike.push_back(first.try_emplace(graph.layers[size_t(layer)].signature, layer).first->second);
}

std::string StageBounds::findObstacle() const {
  const IterationFacts &facts = factsOf(plan.iterationModel);
  if (facts.fitted || !facts.drains)
    return "bounds of steady-state iterations are not checked";
  if (facts.onePool || plan.schedule == Schedule::Burst || plan.amplificationLimit > 0 ||
      !plan.alternatives.empty())
    return "bounds of burst plans are not checked";
  if (plan.schedule == Schedule::GPipe)
    return "bounds of GPipe are not checked";
  if (plan.objective == Objective::DeviceSeconds)
    return "bounds on device-seconds are not checked";
  if (plan.overlapsSums)
    return "bounds with overlapped gradient sums are not checked";
  if (plan.overlapsTransfers)
    return "bounds with overlapped transfers are not checked";
  if (cluster.shardDegree != 1 || graph.shardDegree != 1 || cluster.hasShardTypes())
    return "bounds of plans with tensor parallelism are not checked";
  if (any_of(cluster.zones, [](const Zone &zone) { return zone.pricePerGb > Dollars(0); }))
    return "bounds with prices of traffic are not checked";
  return "";
}

double StageBounds::longestIteration() const {
  double longest = infinity;
  if (plan.minThroughput > SamplesPerSecond(0))
    longest = double(plan.globalBatch.value()) / plan.minThroughput.value();
  if (plan.maxIteration > Seconds(0))
    longest = std::min(longest, plan.maxIteration.value());
  return longest * tolerance;
}

double StageBounds::highestPrice() const {
  return plan.maxCostPerHour > DollarsPerHour(0) ? plan.maxCostPerHour.value() * tolerance
                                                 : infinity;
}

/// Layers of one signature take the same.
std::optional<LayerCost> StageBounds::costOf(int layer, int type, int64_t samples) {
  auto [entry, isNew] = layers.try_emplace({alike[size_t(layer)], type, samples});
  if (isNew) {
    Expected<LayerCost> cost =
        costs.price(graph.layers[size_t(layer)], cluster.types[size_t(type)], Samples(samples));
    if (cost)
      entry->second = *cost;
    else
      consumeError(cost.takeError()); // no stage has the layer there
  }
  return entry->second;
}

const StageBounds::Times &StageBounds::timesOf(int type, int64_t samples) {
  Times &times = known[{type, samples}];
  if (!times.empty())
    return times;
  times.resize(size_t(ranges->count()));
  for (int cut = 0; cut + 1 < ranges->count(); ++cut) {
    Sums sum = times[size_t(cut)];
    for (int layer = ranges->layerAt(cut); layer < ranges->layerAt(cut + 1); ++layer) {
      const std::optional<LayerCost> cost = costOf(layer, type, samples);
      if (!cost) {
        ++sum.unknown;
        continue;
      }
      sum.forward += cost->forward.value();
      sum.backward += cost->backward.value();
      sum.accumulate += cost->accumulate.value();
      sum.update += cost->update.value();
    }
    times[size_t(cut) + 1] = sum;
  }
  return times;
}

/// Both passes on one device; infinite if they are not known.
double StageBounds::computingOf(const Times &times, int begin, int end, int microBatches) const {
  const Sums &from = times[size_t(begin)], &to = times[size_t(end)];
  if (from.unknown != to.unknown)
    return infinity;
  const double added = double(microBatches - 1) / microBatches;
  return to.forward - from.forward + to.backward - from.backward +
         (to.accumulate - from.accumulate) * added;
}

/// `computing`: the passes and the update on one device, without communication.
StageBounds::Passes StageBounds::passesOf(const RangeFacts &facts, Passes computing,
                                          const DeviceChoice &choice,
                                          const ExecutionMode &mode) const {
  Passes result = computing;
  double update = computing.sync;
  if (mode.recomputes)
    result.backward += computing.forward;
  const bool divides = choice.most > 1;
  if (divides && mode.sharding.dividesState())
    update /= choice.most;
  double within = choice.reduce.time(facts.sums, facts.summed).value(), scatter = 0;
  Bytes atEnd = facts.dense;
  if (divides && mode.sharding.gathersParameters()) {
    const double gather = choice.reduce.time(facts.gathers, facts.gathered).value() / 2;
    within += gather;
    scatter = gather;
    atEnd = facts.dense - facts.gathered;
  } else if (divides && mode.sharding.scattersGradients()) {
    scatter = choice.reduce.time(facts.dense).value() / 2;
  }
  result.forward += within;
  result.backward += within + scatter;
  const TableRows rows = facts.lookups * double(choice.share);
  result.forward += seconds(choice.lookup, rows);
  result.backward += seconds(choice.lookupGradient, rows);
  double sum = choice.reduce.time(atEnd).value();
  if (divides && mode.sharding.scattersGradients() && !mode.sharding.gathersParameters())
    sum /= 2;
  result.sync = update + sum;
  if (facts.tiedOutside > Bytes(0))
    result.sync += choice.tied.time(facts.tiedOutside).value();
  return result;
}

/// Whether a device with `samples` may have enough memory, by a lower bound on its need; at most
/// `most` devices divide what is divided.
bool StageBounds::fits(int begin, int end, int type, int most, bool rowsAreEven, double samples,
                       int inFlight, const ExecutionMode &mode) const {
  const RangeFacts &facts = ranges->at(begin, end);
  const DeviceType &device = cluster.types[size_t(type)];
  const double copies = parameterCopies(plan.optimizer);
  const StageSharding &sharding = mode.sharding;
  auto slice = [&](Bytes all) { return all / double(most); };
  Bytes need{}, rounded = facts.dense;
  if (sharding.gathersParameters()) {
    const Bytes whole = facts.dense - facts.gathered;
    need = slice(facts.gathered) * copies + whole * 3 + slice(whole) * (copies - 2) +
           facts.largestGathered * (isHalf(plan.precision) && mode.recomputes ? 1.5 : 2.0) +
           slice(facts.largestGathered);
    if (mode.recomputes)
      rounded = whole;
  } else {
    Bytes passing = facts.largestDense * (plan.optimizer == Optimizer::Adam ? 2.0 : 1.0);
    if (sharding.dividesState())
      passing = std::min(facts.dense, facts.largestDense * 2 + gradientBuffer * 2);
    need = facts.dense + (sharding.scattersGradients() ? slice(facts.dense) : facts.dense) +
           passing + (sharding.dividesState() ? slice(facts.dense) : facts.dense) * (copies - 2);
  }
  Bytes kept = (mode.recomputes ? facts.largestUnit : facts.activations) * samples;
  if (isHalf(plan.precision))
    kept += rounded / 2;
  if (!mode.recomputes)
    kept = kept * double(inFlight);
  const Cut &in = ranges->crossing(begin), &out = ranges->crossing(end);
  need += kept + facts.buffers +
          ((in.forwardBytes + out.forwardBytes) * samples + in.fixedBytes + out.fixedBytes) *
              double(inFlight) +
          (in.backwardBytes + out.backwardBytes) * samples + in.fixedGradientBytes +
          out.fixedGradientBytes;
  const Bytes passing = facts.workspace * samples;
  need += mode.recomputes ? passing : facts.workspaceLast * samples;
  if (facts.lookups.count > 0 && rowsAreEven) // uneven rows may all lie elsewhere
    for (int layer = ranges->layerAt(begin); layer < ranges->layerAt(end); ++layer)
      for (const SparseTable &table : graph.layers[size_t(layer)].tables)
        need += tableMemory(table, table.rows / most, plan.optimizer, plan.globalBatch);
  const MemoryOverhead &beside = device.overhead;
  need = beside.constant + need * beside.factor +
         passing * std::max(0.0, beside.underWay - beside.factor) +
         facts.convolution * (samples * beside.convolutions);
  return need <= device.memory * (plan.memoryPart() * tolerance);
}

/// The passes of several types are known together only.
void StageBounds::addStage(StageList &list, int begin, int end, int index) {
  const DeviceChoice &choice = list.choices[size_t(index)];
  const int m = list.microBatches, inFlight = end + 1 == cutCount() ? 1 : std::min(m, 2);
  if (choice.isMixed()) {
    const double both = mixedTime(choice, begin, end, m, inFlight);
    if (std::isfinite(both))
      addMode(list, begin, end, index, {0, both, 0}, modes.at(choice.most).front());
    return;
  }
  const Times &times = timesOf(choice.type(), choice.share);
  const Sums &from = times[size_t(begin)], &to = times[size_t(end)];
  const double forward = to.forward - from.forward;
  const Passes computed{forward, computingOf(times, begin, end, m) - forward,
                        to.update - from.update};
  for (const ExecutionMode &mode : modes.at(choice.most)) {
    if (!fits(begin, end, choice.type(), choice.most, /*rowsAreEven=*/true, double(choice.share),
              inFlight, mode))
      continue;
    addMode(list, begin, end, index, computed, mode);
    // No other mode is faster than one that keeps all and divides at most the optimizer's state.
    if (!mode.recomputes && (mode.sharding.scattersAtEnd() || choice.most == 1 ||
                             plan.mustDivideState() || !plan.mayDivideState()))
      return;
  }
}

void StageBounds::addMode(StageList &list, int begin, int end, int index, const Passes &computing,
                          const ExecutionMode &mode) const {
  const DeviceChoice &choice = list.choices[size_t(index)];
  const bool isFirst = begin == 0, isLast = end + 1 == ranges->count();
  auto transfer = [&](Bytes perSample, Bytes fixed) {
    if (perSample == Bytes(0) && fixed == Bytes(0))
      return 0.0;
    return choice.link.latency.value() +
           (perSample * double(choice.share) + fixed).value() * choice.link.secondsPerByte;
  };
  const Cut &in = ranges->crossing(begin), &out = ranges->crossing(end);
  const double receive = isFirst ? 0 : transfer(in.forwardBytes, in.fixedBytes);
  const double gradient = isLast ? 0 : transfer(out.backwardBytes, out.fixedGradientBytes);
  const Passes passes = passesOf(ranges->at(begin, end), computing, choice, mode);
  const double forward = choice.isMixed() ? receive : receive + passes.forward;
  const double time = receive + passes.forward + gradient + passes.backward;
  if (isFirst && isLast)
    addAlone(list, list.microBatches * time + passes.sync, list.prices[size_t(index)]);
  else if (const StageBound stage{begin, end, index, time, forward, passes.sync, receive, gradient};
           !isBeyondLimits(list, stage))
    list.stages.push_back(stage);
}

/// Whether no plan below the limits has the stage. A stage adds m·T to an iteration, and the layers
/// behind it at least their passes. The layers before it add their passes, too, and its
/// synchronisation is hidden by them alone.
bool StageBounds::isBeyondLimits(const StageList &list, const StageBound &stage) const {
  const size_t begin = size_t(stage.begin), end = size_t(stage.end);
  const std::vector<double> &time = list.timeBefore, &paid = list.paidBefore;
  const double iteration = list.microBatches * stage.time + (time.back() - time[end]) +
                           std::max(time[begin], stage.sync);
  const double others = paid.back() - (paid[end] - paid[begin]);
  return iteration > list.limits.iteration * tolerance ||
         list.prices[size_t(stage.choice)] * iteration + others > list.limits.paid * tolerance;
}

/// A stage that takes T adds m·T to an iteration, which contains the other layers once.
void StageBounds::addStages(StageList &list, const BoundLimits &limits) {
  const int last = cutCount() - 1, m = list.microBatches;
  list.limits = limits;
  std::vector<const Times *> times;
  for (const DeviceChoice &choice : list.choices)
    times.push_back(choice.isMixed() ? nullptr : &timesOf(choice.type(), choice.share));
  const double all = list.timeBefore.back(), paid = list.paidBefore.back();
  for (int end = 1; end <= last; ++end) {
    std::vector<std::pair<int, int>> spans; // begin, choice
    for (int choice = 0; choice < int(list.choices.size()); ++choice) {
      const DeviceChoice &of = list.choices[size_t(choice)];
      int begin = of.wholeModelOnly || list.prices[size_t(choice)] > highestPrice() ? 0 : end;
      while (begin-- > 0) {
        const double time = of.isMixed() ? quickMixedTime(of, begin, end, m)
                                         : computingOf(*times[size_t(choice)], begin, end, m);
        const double rest = all - (list.timeBefore[size_t(end)] - list.timeBefore[size_t(begin)]);
        const double restPaid =
            paid - (list.paidBefore[size_t(end)] - list.paidBefore[size_t(begin)]);
        if (m * time + rest > limits.iteration * tolerance ||
            list.prices[size_t(choice)] * m * time + restPaid > limits.paid * tolerance)
          break;
        spans.push_back({begin, choice});
      }
    }
    llvm::sort(spans);
    for (auto [begin, choice] : spans)
      addStage(list, begin, end, choice);
  }
}

/// Finds the least times and costs of the layers between neighbouring cuts, and of the slowest
/// stage. On the devices of type t the work of a block takes λ_t·k·p, so that the devices of the
/// cluster have at least that much for each micro-batch.
void StageBounds::addBlocks(StageList &list) {
  const int last = cutCount() - 1, m = list.microBatches;
  std::vector<double> weights(cluster.types.size(), 0);
  std::vector<const Times *> times; // by choice
  for (const DeviceChoice &choice : list.choices) {
    times.push_back(choice.isMixed() ? nullptr : &timesOf(choice.type(), choice.share));
    if (choice.isMixed())
      continue;
    const double time = computingOf(*times.back(), 0, last, m) * choice.fewest;
    if (time > 0 && std::isfinite(time))
      weights[size_t(choice.type())] = std::max(weights[size_t(choice.type())], 1 / time);
  }
  const double fastest = *std::max_element(weights.begin(), weights.end());
  for (double &weight : weights)
    weight = weight > 0 ? weight : fastest > 0 ? fastest : 1;
  double work = 0, slowest = 0, all = 0;
  list.timeBefore.assign(1, 0);
  list.paidBefore.assign(1, 0);
  for (int cut = 0; cut < last; ++cut) {
    double leastWork = infinity, least = infinity, leastPaid = infinity;
    for (size_t i = 0; i < list.choices.size(); ++i) {
      const DeviceChoice &choice = list.choices[i];
      if (choice.wholeModelOnly)
        continue;
      const double time = choice.isMixed() ? quickMixedTime(choice, cut, cut + 1, m)
                                           : computingOf(*times[i], cut, cut + 1, m);
      double weight = 0;
      for (auto [type, slots] : choice.slots)
        weight += weights[size_t(type)] * slots;
      leastWork = std::min(leastWork, time * weight);
      least = std::min(least, time);
      leastPaid = std::min(leastPaid, time * m * list.prices[i]);
    }
    work += leastWork;
    slowest = std::max(slowest, least);
    list.timeBefore.push_back(list.timeBefore.back() + least);
    list.paidBefore.push_back(list.paidBefore.back() + leastPaid);
  }
  for (size_t type = 0; type < weights.size(); ++type)
    all += weights[type] * available(int(type));
  list.slowest = std::max(slowest, work / all) / tolerance;
}

int64_t StageBounds::batchOf(int microBatches) const {
  return (plan.globalBatch.value() + microBatches - 1) / microBatches;
}

void StageBounds::addWholeModelMixes(StageList &list) {
  for (int choice = 0; choice < int(list.choices.size()); ++choice)
    if (list.choices[size_t(choice)].wholeModelOnly)
      addStage(list, 0, cutCount() - 1, choice);
}

/// A plan of one stage that keeps the limits.
void StageBounds::addAlone(StageList &list, double iteration, double price) const {
  iteration /= tolerance;
  if (iteration > longestIteration() || price > highestPrice())
    return;
  list.leastAloneIteration = std::min(list.leastAloneIteration, iteration);
  list.leastAlonePaid = std::min(list.leastAlonePaid, iteration * price);
}

StageList StageBounds::begin(int microBatches) {
  StageList result;
  result.microBatches = microBatches;
  result.choices = devices->choicesFor(batchOf(microBatches));
  samples.clear();
  byShare.clear();
  shareLists.clear();
  for (const DeviceChoice &choice : result.choices) {
    double price = cluster.types[size_t(choice.type())].price.value() * choice.fewest;
    if (choice.isMixed())
      price = std::accumulate(
          choice.slots.begin(), choice.slots.end(), 0.0, [&](double sum, const auto &each) {
            return sum + cluster.types[size_t(each.first)].price.value() * each.second;
          });
    result.prices.push_back(price);
    if (auto [known, isNew] = modes.try_emplace(choice.most); isNew)
      known->second = admittedModes(plan, choice.most);
  }
  addBlocks(result);
  addWholeModelMixes(result);
  return result;
}

} // namespace heterplan
