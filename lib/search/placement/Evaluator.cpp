#include "search/placement/Evaluator.h"

#include "search/placement/Balance.h"

#include <algorithm>
#include <cassert>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double tolerance = 1e-9;

/// For each type and position, how many layers before it are pinned to another type.
std::vector<std::vector<int>> countForbidden(const Problem &problem) {
  int layers = problem.graph.size();
  std::vector<std::vector<int>> forbidden(problem.cluster.types.size(),
                                          std::vector<int>(layers + 1, 0));
  for (const Pin &pin : problem.request.pins)
    for (size_t type = 0; type < forbidden.size(); ++type)
      if (problem.cluster.types[type].name != pin.type)
        ++forbidden[type][problem.graph.find(pin.layer) + 1];
  for (std::vector<int> &counts : forbidden)
    for (int i = 0; i < layers; ++i)
      counts[i + 1] += counts[i];
  return forbidden;
}

/// For each position, where a stage that begins there has to end at the latest, so that it has no
/// two layers that are to be apart.
std::vector<int> farthestEnds(const Problem &problem) {
  std::vector<int> ends(problem.graph.layers.size() + 1, problem.graph.size());
  for (auto [first, second] : separatedPairs(problem))
    ends[first] = std::min(ends[first], second);
  for (size_t position = ends.size() - 1; position-- > 0;)
    ends[position] = std::min(ends[position], ends[position + 1]);
  return ends;
}

/// Contiguous equal shares, largest first.
std::vector<int64_t> evenShares(int64_t samples, int devices) {
  std::vector<int64_t> shares(devices, samples / devices);
  for (int64_t i = 0; i < samples % devices; ++i)
    ++shares[i];
  return shares;
}

/// Each share once; they come in descending order.
std::vector<int64_t> distinct(std::vector<int64_t> shares) {
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
  return shares;
}
} // namespace

GroupCosts groupCosts(const Cluster &cluster, const DeviceGroup &group) {
  return {allReduceCost(cluster, group), lookupCost(cluster, group),
          lookupGradientCost(cluster, group)};
}

Evaluator::Evaluator(const Problem &problem)
    : problem(problem), space(problem), cuts(problem.graph.cuts()), table(problem),
      forbidden(countForbidden(problem)), farthestEnd(farthestEnds(problem)),
      parameters(problem.graph.layers.size() + 1), dense(parameters), lookups(parameters),
      inPassAllReduceBytes(parameters), inPassAllReduces(parameters.size()) {
  for (int i = 0; i < problem.graph.size(); ++i) {
    parameters[i + 1] = parameters[i] + problem.graph.layers[i].parameterBytes;
    dense[i + 1] = dense[i] + problem.graph.layers[i].denseBytes();
    lookups[i + 1] = lookups[i] + problem.graph.layers[i].lookupBytes();
    inPassAllReduces[i + 1] = inPassAllReduces[i] + problem.graph.layers[i].inPassAllReduces;
    inPassAllReduceBytes[i + 1] =
        inPassAllReduceBytes[i] + problem.graph.layers[i].inPassAllReduceBytes;
  }
  if (!isSteady(problem.request.iterationModel))
    return;
  int microBatches = space.microBatches.front();
  steadyModel = std::make_unique<const HeterPsModel>(
      problem.graph, problem.cluster, Samples(problem.request.globalBatch.value() / microBatches),
      microBatches, [&](int layer, int type, Samples samples) {
        const PrefixSums &sums = table.at(type, samples.value());
        return LayerCost{Seconds(sums.forwardOf(layer, layer + 1)),
                         Seconds(sums.backwardOf(layer, layer + 1)), Seconds(0)};
      });
}

bool Evaluator::mayRun(int begin, int end, int type) const {
  return forbidden[type][end] == forbidden[type][begin] && end <= farthestEnd[begin];
}

void Evaluator::addLookups(int begin, int end, const GroupCosts &costs, StageTimes &times) const {
  Bytes rows = (lookups[end] - lookups[begin]) * double(times.largestShare.value());
  times.lookup = costs.lookup.time(rows).value();
  times.lookupGradient = costs.lookupGradient.time(rows).value();
  times.forward += times.lookup;
  times.backward += times.lookupGradient;
}

double Evaluator::sumsOf(int begin, int end, const GroupCosts &costs) const {
  Bytes size = inPassAllReduceBytes[end] - inPassAllReduceBytes[begin];
  return costs.reduce.time(inPassAllReduces[end] - inPassAllReduces[begin], size).value();
}

StageTimes Evaluator::uniformTimes(int begin, int end, int type, int count, const GroupCosts &costs,
                                   int64_t batch, int inFlight) {
  StageTimes times;
  int64_t share = (batch + count - 1) / count;
  if (count > batch || !mayRun(begin, end, type) ||
      mostSamples(begin, end, type, count, inFlight, batch) < share)
    return times;
  if (steadyModel)
    return steadyTimes(begin, end, type, count, share);
  const PrefixSums &prices = pricesOf(type, share, batch);
  double summing = sumsOf(begin, end, costs);
  times.fits = true;
  times.forward = prices.forwardOf(begin, end) + summing;
  times.backward = prices.backwardOf(begin, end) + summing;
  times.update = prices.updateOf(begin, end);
  times.sync = costs.reduce.time(denseParametersOf(begin, end)).value() + times.update;
  times.largestShare = Samples(share);
  addLookups(begin, end, costs, times);
  return times;
}

/// HeterPS has one time for a stage; forward and backward divide it as its computing does.
StageTimes Evaluator::steadyTimes(int begin, int end, int type, int count, int64_t share) const {
  StageTimes times;
  double all = steadyModel->stageTime(begin, end, type, count);
  times.fits = true;
  times.forward = all * steadyModel->forwardShare(begin, end, type);
  times.backward = all - times.forward;
  times.largestShare = Samples(share);
  return times;
}

int Evaluator::leastCount(int begin, int end, int type, double limit, int64_t batch, int inFlight) {
  if (!mayRun(begin, end, type))
    return 0;
  auto enough = [&](int count) {
    int64_t share = (batch + count - 1) / count;
    if (mostSamples(begin, end, type, count, inFlight, batch) < share)
      return false;
    if (steadyModel)
      return true;
    const PrefixSums &sums = pricesOf(type, share, batch);
    return sums.forwardOf(begin, end) + sums.backwardOf(begin, end) <= limit;
  };
  int low = steadyModel ? steadyModel->unitsFor(begin, end, type, limit) : 1;
  int high = static_cast<int>(std::min<int64_t>(space.available[type], batch));
  if (low == 0 || low > high || !enough(high))
    return 0;
  while (low < high) {
    int middle = low + (high - low) / 2;
    enough(middle) ? high = middle : low = middle + 1;
  }
  return low;
}

std::vector<std::vector<int64_t>> Evaluator::balancedShares(int begin, int end,
                                                            const DeviceGroup &group, int64_t batch,
                                                            int inFlight) {
  auto timeOn = [&](int type) {
    return [this, type, begin, end, batch](int64_t samples) {
      const PrefixSums &sums = pricesOf(type, samples, batch);
      return sums.forwardOf(begin, end) + sums.backwardOf(begin, end);
    };
  };
  std::vector<decltype(timeOn(0))> times;
  times.reserve(group.counts.size()); // EqualDevices refers to them
  std::vector<EqualDevices> classes;
  for (auto [type, count] : group.counts) {
    int64_t most = mostSamples(begin, end, type, group.size(), inFlight, batch);
    if (most < 1)
      return {};
    times.push_back(timeOn(type));
    classes.push_back({count, most, times.back()});
  }
  return balance(classes, batch);
}

StageTimes Evaluator::mixedTimes(int begin, int end, const DeviceGroup &group,
                                 const std::vector<std::vector<int64_t>> &shares, int64_t batch,
                                 bool last) {
  StageTimes times;
  times.fits = true;
  double slowest = -1;
  auto add = [&](int type, int64_t share) {
    const PrefixSums &sums = pricesOf(type, share, batch);
    double forward = sums.forwardOf(begin, end), backward = sums.backwardOf(begin, end);
    if (!last) {
      times.forward = std::max(times.forward, forward);
      times.backward = std::max(times.backward, backward);
    } else if (forward + backward > slowest) {
      slowest = forward + backward;
      times.forward = forward;
      times.backward = backward;
    }
    times.update = std::max(times.update, sums.updateOf(begin, end));
    times.largestShare = std::max(times.largestShare, Samples(share));
  };
  for (size_t i = 0; i < group.counts.size(); ++i) // as measured, smaller ones may take longer
    for (int64_t share : distinct(shares[i]))
      add(group.counts[i].first, share);
  return times;
}

/// Whether `large` samples take at least as long as `small` in every way. Measured times may fall
/// as the batch grows.
bool Evaluator::isSlower(int begin, int end, int type, int64_t large, int64_t small,
                         int64_t batch) {
  if (large == small || steadyModel)
    return true;
  const PrefixSums &slow = pricesOf(type, large, batch), &fast = pricesOf(type, small, batch);
  return fast.forwardOf(begin, end) <= slow.forwardOf(begin, end) &&
         fast.backwardOf(begin, end) <= slow.backwardOf(begin, end) &&
         fast.updateOf(begin, end) <= slow.updateOf(begin, end);
}

bool Evaluator::largestIsSlowest(int begin, int end, int type, int count, int64_t batch) {
  return batch < count ||
         isSlower(begin, end, type, (batch + count - 1) / count, batch / count, batch);
}

/// Even shares of one type, balanced ones of several; none where they do not fit.
std::vector<std::vector<int64_t>> Evaluator::sharesOf(int begin, int end, const DeviceGroup &group,
                                                      int64_t batch, int inFlight) {
  if (group.counts.size() > 1)
    return balancedShares(begin, end, group, batch, inFlight);
  auto [type, count] = group.counts.front();
  std::vector<int64_t> shares = evenShares(batch, count);
  if (shares.front() > mostSamples(begin, end, type, count, inFlight, batch))
    return {};
  return {std::move(shares)};
}

StagePrice Evaluator::priceStage(int begin, int end, const DeviceGroup &group, int64_t batch,
                                 bool last, int inFlight) {
  const GroupCosts costs = costsOf(group);
  auto [type, count] = group.counts.front();
  if (group.counts.size() == 1 && largestIsSlowest(begin, end, type, count, batch)) {
    StageTimes times = uniformTimes(begin, end, type, count, costs, batch, inFlight);
    return {times, times.fits ? std::vector<std::vector<int64_t>>{evenShares(batch, count)}
                              : std::vector<std::vector<int64_t>>{}};
  }
  for (const auto &entry : group.counts)
    if (!mayRun(begin, end, entry.first))
      return {};
  if (group.size() > batch)
    return {};
  std::vector<std::vector<int64_t>> shares = sharesOf(begin, end, group, batch, inFlight);
  if (shares.empty())
    return {};
  StageTimes times = mixedTimes(begin, end, group, shares, batch, last);
  times.forward += sumsOf(begin, end, costs);
  times.backward += sumsOf(begin, end, costs);
  times.sync = costs.reduce.time(denseParametersOf(begin, end)).value() + times.update;
  addLookups(begin, end, costs, times);
  return {times, std::move(shares)};
}

/// What the schedule depends on: for each type the times of its largest share, and of others that
/// may be slower. None where one share is the slowest in both passes.
std::vector<Replica> Evaluator::slowestOfEachType(const PlacedStage &placed,
                                                  const StagePrice &price, int64_t batch) {
  std::vector<Replica> replicas;
  Seconds summing(sumsOf(placed.begin, placed.end, costsOf(placed.group)));
  auto add = [&](int type, int64_t share) {
    const PrefixSums &prices = pricesOf(type, share, batch);
    Replica &replica = replicas.emplace_back();
    replica.forward = Seconds(prices.forwardOf(placed.begin, placed.end)) + summing;
    replica.backward = Seconds(prices.backwardOf(placed.begin, placed.end)) + summing;
  };
  bool several = placed.group.counts.size() > 1;
  for (size_t i = 0; i < price.shares.size(); ++i) {
    int type = placed.group.counts[i].first;
    std::vector<int64_t> shares = distinct(price.shares[i]);
    auto yields = [&](int64_t share) {
      return share != shares.front() &&
             isSlower(placed.begin, placed.end, type, shares.front(), share, batch);
    };
    llvm::erase_if(shares, yields);
    if (several || shares.size() > 1)
      for (int64_t share : shares)
        add(type, share);
  }
  return replicas;
}

Bytes Evaluator::parametersOf(int begin, int end) const {
  return parameters[end] - parameters[begin];
}

Bytes Evaluator::denseParametersOf(int begin, int end) const { return dense[end] - dense[begin]; }

const GroupCosts &Evaluator::costsOf(const DeviceGroup &group) {
  std::pair<int, int> key =
      group.counts.size() == 1 ? group.counts.front() : std::pair(-1, group.size());
  auto [entry, isNew] = groups.try_emplace(key);
  if (isNew || key.first < 0)
    entry->second = groupCosts(problem.cluster, group);
  return entry->second;
}

TransferPath Evaluator::pathBetween(const DeviceGroup &from, const DeviceGroup &to) {
  if (from.counts.size() > 1 || to.counts.size() > 1)
    return transferPath(problem.cluster, from, to);
  auto [a, b] = from.counts.front();
  auto [c, d] = to.counts.front();
  auto [entry, isNew] = paths.try_emplace({a, b, c, d});
  if (isNew)
    entry->second = transferPath(problem.cluster, from, to);
  return entry->second;
}

bool Evaluator::stagesAllowed(const Placement &placement) const {
  int count = static_cast<int>(placement.stages.size());
  if (count < space.minStages || count > space.maxStages)
    return false;
  for (int i = 1; i < count; ++i) {
    const PlacedStage &before = placement.stages[i - 1], &stage = placement.stages[i];
    bool isCut = std::binary_search(space.positions.begin(), space.positions.end(), stage.begin);
    if (!isCut || !space.mayFollow(before.group, stage.group))
      return false;
  }
  return true;
}

bool Evaluator::devicesSuffice(const Placement &placement) const {
  std::vector<int> left = space.available;
  for (const PlacedStage &stage : placement.stages) {
    GroupOption option = space.optionOf(problem, stage.group);
    for (size_t type = 0; type < left.size(); ++type)
      if ((left[type] -= option.slots[type]) < 0)
        return false;
  }
  return true;
}

void Evaluator::fillTransfers(const Placement &placement, const std::vector<StagePrice> &prices,
                              std::vector<Stage> &stages) {
  if (steadyModel) // they are part of the stages
    return;
  for (size_t i = 1; i < stages.size(); ++i) {
    const Cut &cut = cuts[placement.stages[i].begin];
    const DeviceGroup &from = placement.stages[i - 1].group, &to = placement.stages[i].group;
    Samples fromShare = prices[i - 1].times.largestShare, toShare = prices[i].times.largestShare;
    stages[i].receive =
        pathBetween(from, to).time(fromShare, toShare, cut.forwardBytes, cut.fixedBytes);
    stages[i - 1].receiveGradient =
        pathBetween(to, from).time(toShare, fromShare, cut.backwardBytes, Bytes(0));
    stages[i].forward += stages[i].receive;
    stages[i - 1].backward += stages[i - 1].receiveGradient;
  }
}

std::optional<Evaluation> Evaluator::evaluate(const Placement &placement) {
  std::optional<Evaluation> result = measure(placement);
  if (result && !meetsLimits(result->iteration, result->price))
    return std::nullopt;
  return result;
}

std::optional<Evaluation> Evaluator::measure(const Placement &placement) {
  int count = static_cast<int>(placement.stages.size());
  if (!stagesAllowed(placement) || !devicesSuffice(placement))
    return std::nullopt;
  int64_t batch = problem.request.globalBatch.value() / placement.microBatches;
  Evaluation result;
  std::vector<StagePrice> prices;
  for (int i = 0; i < count; ++i) {
    const PlacedStage &placed = placement.stages[i];
    prices.push_back(priceStage(placed.begin, placed.end, placed.group, batch, i + 1 == count,
                                std::min(placement.microBatches, count - i)));
    if (!prices.back().times.fits)
      return std::nullopt;
    result.stages.push_back(stageOf(placed, prices.back(), batch));
    result.stages.back().id = i;
    for (auto [type, devices] : placed.group.counts)
      result.price += problem.cluster.types[type].price * double(devices);
  }
  fillTransfers(placement, prices, result.stages);
  Schedule schedule = count == 1 ? Schedule::DataParallel : Schedule::OneForwardOneBackward;
  result.iteration = iterationTime(result.stages, placement.microBatches, schedule,
                                   problem.request.iterationModel);
  result.objective = objectiveOf(result.iteration, result.price);
  return result;
}

double Evaluator::objectiveOf(Seconds iteration, DollarsPerHour price) const {
  if (problem.request.objective == Objective::Throughput)
    return iteration.value();
  return (price * iteration).value() / double(problem.request.globalBatch.value()) * 1e6;
}

bool Evaluator::meetsLimits(Seconds iteration, DollarsPerHour price) const {
  const Request &request = problem.request;
  if (request.minThroughput > SamplesPerSecond(0) &&
      request.globalBatch / iteration < request.minThroughput * (1 - tolerance))
    return false;
  return request.maxCostPerHour == DollarsPerHour(0) ||
         price <= request.maxCostPerHour * (1 + tolerance);
}

} // namespace heterplan
