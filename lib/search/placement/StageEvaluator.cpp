#include "search/placement/StageEvaluator.h"

#include "search/balance/Balance.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

using namespace llvm;

namespace heterplan {

namespace {
/// Whether a pin to `name` allows devices of a type: it names these, or, of groups of devices, the
/// groups (shardTypeName) or the devices of any group.
bool allowsType(StringRef name, const Cluster &cluster, int type) {
  return cluster.types[type].stated() == name ||
         cluster.types[cluster.deviceTypeOf(type)].stated() == name;
}

/// For each type and position, how many layers before it are pinned to another type.
std::vector<std::vector<int>> countForbidden(const Problem &problem) {
  int layers = problem.graph.size();
  std::vector<std::vector<int>> forbidden(problem.cluster.types.size(),
                                          std::vector<int>(layers + 1, 0));
  for (const Pin &pin : problem.request.pins)
    for (size_t type = 0; type < forbidden.size(); ++type)
      if (!allowsType(pin.type, problem.cluster, int(type)))
        ++forbidden[type][problem.graph.find(pin.layer) + 1];
  for (std::vector<int> &counts : forbidden)
    for (int i = 0; i < layers; ++i)
      counts[i + 1] += counts[i];
  return forbidden;
}

/// For each type and position, how many layers before it may take less time for more samples.
std::vector<std::vector<int>> countFalling(const Problem &problem) {
  std::vector<std::vector<int>> falling;
  for (const DeviceType &type : problem.cluster.types) {
    std::vector<int> &counts = falling.emplace_back(1, 0);
    for (const Layer &layer : problem.graph.layers)
      counts.push_back(counts.back() + problem.costs->mayFall(layer, type));
  }
  return falling;
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

std::vector<ExecutionMode> listModes(const Request &request, bool savesMemory, int replicas) {
  if (!savesMemory)
    return {ExecutionMode()};
  std::vector<ExecutionMode> modes;
  for (bool recomputes : {false, true})
    for (int each = 0; each < (replicas > 1 ? stateShardings : 1); ++each)
      if (const ExecutionMode mode{recomputes, {StateSharding{each}}};
          request.admits(mode, replicas))
        modes.push_back(mode);
  return modes;
}
/// Shards of the optimizer's state are updated at once, and their collectives take as long as the
/// all-reduce that they replace. Sharded gradients and recomputation make backward passes longer,
/// sharded parameters both passes.
/// Puts the mode first that is faster than the others.
void sortByTime(std::vector<ExecutionMode> &modes) {
  std::stable_sort(modes.begin(), modes.end(), [](const ExecutionMode &a, const ExecutionMode &b) {
    auto rank = [](const ExecutionMode &mode) {
      return std::pair(mode.recomputes, !mode.sharding.scattersAtEnd());
    };
    return rank(a) < rank(b);
  });
}
} // namespace

StageEvaluator::StageEvaluator(const Problem &problem, const SearchSpace &space)
    : costs(
          problem.graph, problem.cluster, *problem.costs, problem.request.optimizer,
          problem.request.globalBatch,
          [this](int layer, int type) {
            return forbidden[type][layer + 1] == forbidden[type][layer];
          },
          problem.request.precision, problem.request),
      problem(problem), space(space),
      modes(listModes(problem.request, space.rules.savesMemory(), 2)),
      modesOfOne(listModes(problem.request, space.rules.savesMemory(), 1)), byTime(modes),
      byTimeOfOne(modesOfOne), forbidden(countForbidden(problem)), falling(countFalling(problem)),
      farthestEnd(farthestEnds(problem)) {
  sortByTime(byTime);
  sortByTime(byTimeOfOne);
  int microBatches = space.microBatches.front();
  costs.useFit(
      space.rules.fit(problem.graph, problem.cluster, Samples(fullSize(microBatches)), microBatches,
                      [&](int layer, int type, Samples samples) {
                        const LayerTimes &times = costs.times.at(type, samples.value());
                        LayerRange one{layer, layer + 1};
                        return LayerCost{times.forward(one), times.backward(one), Seconds(0)};
                      }));
}

bool StageEvaluator::dominatesGathers(ExecutionMode mode) {
  return mode.sharding.dividesState() && !mode.sharding.gathersParameters();
}

bool StageEvaluator::mayRun(LayerRange range, int type) const {
  return forbidden[type][range.end] == forbidden[type][range.begin] &&
         range.end <= farthestEnd[range.begin];
}

int StageEvaluator::mostInFlight(LayerRange range, int type, int replicas, int64_t share,
                                 ExecutionMode mode) {
  return costs.memoryOf(type).mostInFlight(range, replicas, mode.recomputes, mode.sharding,
                                           problem.roomOf(type), Samples(share));
}

int64_t StageEvaluator::mostSamples(LayerRange range, int type, int inFlight, int64_t batch,
                                    const StageOption &option) {
  if (problem.request.ignoreMemory)
    return batch;
  const DeviceRoom room = problem.roomOf(type);
  return memoryOn(range, type, option).mostSamples(room.memory, inFlight, batch);
}

MemoryModel StageEvaluator::memoryOn(LayerRange range, int type, const StageOption &option) {
  MemoryModel model =
      costs.memoryOf(type).of(range, option.replicas(), option.recomputation, option.sharding);
  for (size_t i = 0; i < option.tableParts.size(); ++i)
    if (option.devices.counts[i].first == type)
      model.fixed += costs.memoryOf(type).tablesOfPart(range, option.tableParts[i]) -
                     costs.memoryOf(type).tables(range, option.replicas());
  return model.on(problem.roomOf(type));
}

bool StageEvaluator::holds(LayerRange range, int type, int count, int microBatches, int inFlight) {
  int64_t batch = fullSize(microBatches), share = (batch + count - 1) / count;
  return count <= batch && any_of(modesFor(count), [&](ExecutionMode mode) {
           return mostInFlight(range, type, count, share, mode) >= inFlight;
         });
}

int StageEvaluator::leastCount(LayerRange range, int type, double limit, int microBatches,
                               int inFlight) {
  if (!mayRun(range, type))
    return 0;
  const HeterPsModel *fit = costs.fit();
  int64_t batch = fullSize(microBatches);
  auto enough = [&](int count) {
    int64_t share = (batch + count - 1) / count;
    return (inFlight == 0 || holds(range, type, count, microBatches, inFlight)) &&
           (fit || costs.computing(range, {}, type, share, microBatches) <= Seconds(limit));
  };
  int low = fit ? fit->unitsFor(range.begin, range.end, type, limit) : 1;
  int high = static_cast<int>(std::min<int64_t>(space.available[type], batch));
  if (low == 0 || low > high || !enough(high))
    return 0;
  while (low < high) {
    int middle = low + (high - low) / 2;
    enough(middle) ? high = middle : low = middle + 1;
  }
  return low;
}

/// Rows of sparse tables on a group of several types where even parts do not fit: as even as what
/// memory leaves beside `shares`. The samples and rows that devices hold together do not depend on
/// who has which. Empty: they do not fit.
std::vector<double> StageEvaluator::divideTables(LayerRange range, int inFlight, Shares shares,
                                                 const StageOption &withoutTables) {
  const DeviceGroup &group = withoutTables.devices;
  std::vector<double> parts;
  for (size_t i = 0; i < group.counts.size(); ++i) {
    const int type = group.counts[i].first;
    const Bytes need =
        memoryOn(range, type, withoutTables).need(Samples(shares[i].front()), inFlight);
    const Bytes room = problem.roomOf(type).memory - need;
    if (room < Bytes(0))
      return {};
    parts.push_back(costs.memoryOf(type).largestPart(range, room));
  }
  SmallVector<size_t, 2> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  stable_sort(order, [&](size_t a, size_t b) { return parts[a] < parts[b]; });
  double left = 1;
  int devices = group.replicas();
  for (size_t i : order) {
    const int count = group.counts[i].second;
    parts[i] = std::min(parts[i], left / devices);
    left -= parts[i] * count;
    devices -= count;
  }
  constexpr double rounding = 1e-12;
  return left > rounding ? std::vector<double>() : parts;
}

/// Balances the shares of a group of several types; empty if they do not fit. Rows of sparse tables
/// are divided evenly if that fits.
StageEvaluator::Balanced StageEvaluator::balanceShares(LayerRange range, int microBatches,
                                                       int inFlight, const StageOption &option) {
  Balanced result = balanceSamples(range, microBatches, inFlight, option);
  if (!result.shares.empty() || costs.memoryOf(option.devices).lookups(range).count == 0)
    return result;
  StageOption uneven = option;
  uneven.tableParts.assign(option.devices.counts.size(), 0);
  result = balanceSamples(range, microBatches, inFlight, uneven);
  if (!result.shares.empty())
    result.tableParts = divideTables(range, inFlight, result.shares, uneven);
  result.isLimited = true; // in another mode the rows may lie evenly
  return result.tableParts.empty() ? Balanced() : result;
}

StageEvaluator::Balanced StageEvaluator::balanceSamples(LayerRange range, int microBatches,
                                                        int inFlight, const StageOption &option) {
  int64_t batch = fullSize(microBatches);
  auto timeOn = [&](int type) {
    return [&, type](int64_t samples) {
      return costs.computing(range, option.recomputation, type, samples, microBatches).value();
    };
  };
  std::vector<decltype(timeOn(0))> times;
  times.reserve(option.devices.counts.size()); // EqualDevices refers to them
  std::vector<EqualDevices> classes;
  for (auto [type, count] : option.devices.counts) {
    int64_t most = mostSamples(range, type, inFlight, batch, option);
    if (most < 1)
      return {};
    times.push_back(timeOn(type));
    classes.push_back({count, most, times.back()});
  }
  const bool anyFall = any_of(option.devices.counts, [&](const auto &each) {
    return falling[each.first][range.end] > falling[each.first][range.begin];
  });
  Balanced result;
  result.shares = (anyFall ? balanceAnyTimes : balance)(classes, batch);
  for (size_t i = 0; i < result.shares.size(); ++i)
    result.isLimited |= anyFall ? classes[i].mostSamples < batch
                                : result.shares[i].front() == classes[i].mostSamples;
  return result;
}

/// As before, where the last groups were alike in it.
const StageEvaluator::Balanced &StageEvaluator::balancedShares(LayerRange range, int microBatches,
                                                               int inFlight,
                                                               const StageOption &option) {
  if (balanced.end != range.end || balanced.microBatches != microBatches ||
      balanced.counts != option.devices.counts) {
    balanced.counts = option.devices.counts;
    balanced.end = range.end;
    balanced.microBatches = microBatches;
    balanced.known.clear();
  }
  uint64_t mode = uint64_t(option.sharding.state) * 2 + bool(option.recomputation);
  uint64_t key = (uint64_t(range.begin) << 32 | uint64_t(inFlight)) * 8 + mode;
  auto [entry, isNew] = balanced.known.try_emplace(key);
  if (isNew)
    entry->second = balanceShares(range, microBatches, inFlight, option);
  return entry->second;
}

/// Whether the devices of `option` hold `shares`; rows of sparse tables become uneven where even
/// ones do not fit.
bool StageEvaluator::holdsShares(LayerRange range, int inFlight, Shares shares,
                                 StageOption &option) {
  auto hold = [&](const StageOption &each) {
    for (size_t i = 0; i < shares.size(); ++i)
      if (mostSamples(range, each.devices.counts[i].first, inFlight, shares[i].front(), each) <
          shares[i].front())
        return false;
    return true;
  };
  if (hold(option))
    return true;
  if (option.devices.counts.size() == 1 || costs.memoryOf(option.devices).lookups(range).count == 0)
    return false;
  option.tableParts.assign(option.devices.counts.size(), 0);
  option.tableParts = divideTables(range, inFlight, shares, option);
  return !option.tableParts.empty();
}

StageEvaluation StageEvaluator::evaluate(LayerRange range, const DeviceGroup &group,
                                         int microBatches, StagePlace place, ExecutionMode mode,
                                         Shares stated) {
  StageEvaluation result;
  result.mode = mode;
  const int shards = shardsOf(problem.cluster, group);
  if (group.replicas() > fullSize(microBatches) || any_of(group.counts, [&](const auto &each) {
        return !mayRun(range, each.first) || problem.cluster.types[each.first].shards != shards;
      }))
    return result;
  int64_t batch = fullSize(microBatches), devices = group.replicas(),
          share = (batch + devices - 1) / devices;
  result.option.devices = group;
  result.option.sharding = mode.sharding;
  if (mode.recomputes)
    result.option.recomputation =
        costs.memoryOf(group).leastSegments(range, Samples(share), place.inFlight, mode.sharding);
  if (!stated.empty()) {
    if (!holdsShares(range, place.inFlight, stated, result.option))
      return result;
    result.shares = stated.vec();
  } else if (group.counts.size() == 1) {
    int type = group.counts.front().first;
    if (mostSamples(range, type, place.inFlight, batch, result.option) < share)
      return result;
  } else {
    const Balanced &shares = balancedShares(range, microBatches, place.inFlight, result.option);
    if (shares.shares.empty())
      return result;
    result.shares = shares.shares;
    result.isLimited = shares.isLimited;
    result.option.tableParts = shares.tableParts;
  }
  BatchSplit split = splitOf(microBatches, place.isLast);
  split.shares = result.shares;
  result.cost = costs.stageCost(range, result.option, split);
  result.fits = result.cost.isKnown;
  return result;
}

bool dominates(const StageCost &a, const StageCost &b) {
  constexpr double rounding = 1e-12; // of the sums
  return a.forward <= b.forward && a.backward <= b.backward &&
         a.backward + a.synchronization <= (b.backward + b.synchronization) * (1 + rounding) &&
         a.largestShare <= b.largestShare;
}

namespace {
/// Drops modes that others dominate; of equal modes the first one stays.
void dropDominated(SmallVectorImpl<StageEvaluation> &found) {
  for (size_t i = found.size(); i-- > 0;) {
    auto isBetter = [&](size_t other) {
      return other != i && dominates(found[other].cost, found[i].cost) &&
             (other < i || !dominates(found[i].cost, found[other].cost));
    };
    if (any_of(seq<size_t>(0, found.size()), isBetter))
      found.erase(found.begin() + i);
  }
}
} // namespace

SmallVector<StageEvaluation, 2> StageEvaluator::evaluateModes(LayerRange range,
                                                              const DeviceGroup &group,
                                                              int microBatches, StagePlace place,
                                                              Shares stated) {
  SmallVector<StageEvaluation, 2> found;
  const ExecutionMode fastest = fastestMode(group.replicas());
  const bool isMixed = group.counts.size() > 1 && stated.empty();
  bool dominatesKeeping = false, dominatesRecomputing = false; // the other ways to shard state
  bool noGathers[2] = {false, false};                          // by whether the mode recomputes
  for (const ExecutionMode &mode : modesByTime(group.replicas())) {
    if (mode.recomputes ? dominatesRecomputing : dominatesKeeping)
      continue;
    if (mode.sharding.gathersParameters() && noGathers[mode.recomputes])
      continue;
    StageEvaluation now = evaluate(range, group, microBatches, place, mode, stated);
    if (!now.fits)
      continue;
    if (dominatesGathers(mode) && !now.isLimited && now.option.tableParts.empty()) {
      noGathers[mode.recomputes] = true;
      noGathers[true] |= !isMixed;
    }
    if (fastestDominates() && mode.sharding == fastest.sharding && !now.isLimited) {
      dominatesKeeping |= !mode.recomputes;
      dominatesRecomputing |= mode.recomputes || !isMixed;
    }
    found.push_back(std::move(now));
  }
  dropDominated(found);
  return found;
}

StageEvaluation StageEvaluator::evaluate(LayerRange range, const DeviceGroup &group,
                                         int microBatches, StagePlace place, Shares stated) {
  constexpr double rounding = 1e-9;
  auto added = [&](const StageEvaluation &stage) {
    return (stage.cost.forward + stage.cost.backward) * double(microBatches) +
           stage.cost.synchronization;
  };
  StageEvaluation best;
  for (StageEvaluation &now : evaluateModes(range, group, microBatches, place, stated))
    if (!best.fits || added(now) < added(best) * (1 - rounding))
      best = std::move(now);
  return best;
}

} // namespace heterplan
