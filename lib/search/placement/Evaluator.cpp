#include "search/placement/Evaluator.h"

#include "cost/TrafficPrice.h"
#include "search/balance/Balance.h"
#include "search/placement/DeviceAssignment.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double tolerance = 1e-9;

/// Each share once; they come in descending order.
std::vector<int64_t> distinct(std::vector<int64_t> shares) {
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
  return shares;
}
} // namespace

std::vector<int> cutsNear(const Placement &placement, ArrayRef<int> few, ArrayRef<int> all) {
  constexpr int steps[] = {-8, -4, -2, -1, 0, 1, 2, 4, 8};
  std::set<int> cuts(few.begin(), few.end());
  for (const PlacedStage &stage : placement.stages) {
    int at = int(lower_bound(all, stage.begin) - all.begin());
    for (int step : steps)
      if (at + step >= 0 && at + step < int(all.size()))
        cuts.insert(all[at + step]);
  }
  return {cuts.begin(), cuts.end()};
}

double objectiveOf(const Request &request, double value) {
  return request.objective == Objective::Throughput ? double(request.globalBatch.value()) / value
                                                    : value;
}

Placement withModes(Placement placement, const Evaluation &evaluation) {
  for (size_t i = 0; i < placement.stages.size(); ++i)
    placement.stages[i].mode = evaluation.runs[i].mode;
  return placement;
}

size_t endOfChain(const Placement &placement, size_t begin) {
  while (begin + 1 < placement.stages.size() && placement.stages[begin].group.besideNext)
    ++begin;
  return begin + 1;
}

void setBeside(Placement &placement, size_t index, bool areBeside) {
  placement.stages[index].group.besideNext = areBeside;
  placement.stages[index + 1].group.besideBefore = areBeside;
}

Placement apart(Placement placement) {
  for (size_t stage = 0; stage + 1 < placement.stages.size(); ++stage)
    setBeside(placement, stage, false);
  return placement;
}

Evaluator::Evaluator(const Problem &problem, std::vector<int> cuts)
    : problem(problem), space(problem, std::move(cuts)), rules(space.rules), stages(problem, space),
      cuts(stages.costs.cuts) {}

/// Replicas on which the schedule depends: for each type the replica with its largest share, and
/// others that may be slower. Empty if one replica is the slowest in both passes.
std::vector<Replica> Evaluator::slowestOfEachType(const PlacedStage &placed,
                                                  const StageEvaluation &run,
                                                  const BatchSplit &split) {
  std::vector<Replica> replicas;
  if (run.cost.largestIsSlowest)
    return replicas;
  bool several = placed.group.counts.size() > 1;
  for (size_t i = 0; i < placed.group.counts.size(); ++i) {
    auto [type, count] = placed.group.counts[i];
    std::vector<int64_t> shares =
        distinct(run.shares.empty() ? evenShares(split.batch, count) : run.shares[i]);
    int64_t largest = shares.front();
    erase_if(shares, [&, type = type](int64_t share) {
      return share != largest &&
             stages.costs.isSlower(placed.layers(), type, largest, share, split.microBatches);
    });
    if (!several && shares.size() == 1)
      continue;
    for (int64_t share : shares) {
      ReplicaCost cost = stages.costs.replicaCost(placed.layers(), run.option, split, type, share);
      Replica &replica = replicas.emplace_back();
      replica.forward = cost.forward;
      replica.backward = cost.backward;
    }
  }
  return replicas;
}

/// The figures of a stage but for what it receives.
Stage Evaluator::stageOf(const PlacedStage &placed, const StageEvaluation &run, int microBatches) {
  Stage stage;
  stage.forward = run.cost.forward;
  stage.backward = run.cost.backward;
  stage.sync = run.cost.synchronization;
  stage.update = run.cost.update;
  stage.lookup = run.cost.lookup;
  stage.lookupGradient = run.cost.lookupGradient;
  stage.reduceScatter = run.cost.reduceScatter;
  stage.gather = run.cost.gather;
  stage.replicas = slowestOfEachType(placed, run, stages.splitOf(microBatches, true));
  return stage;
}

Evaluator::KnownStage Evaluator::measureStage(const PlacedStage &placed, int microBatches,
                                              StagePlace place) {
  KnownStage stage;
  stage.run = placed.mode ? stages.evaluate(placed.layers(), placed.group, microBatches, place,
                                            *placed.mode, placed.shares)
                          : stages.evaluate(placed.layers(), placed.group, microBatches, place,
                                            placed.shares);
  if (stage.run.fits)
    stage.figures = stageOf(placed, stage.run, microBatches);
  return stage;
}

/// Neighbours of a placement in local search have most of its stages, so that these are kept.
const Evaluator::KnownStage &Evaluator::stageAt(const PlacedStage &placed, int microBatches,
                                                StagePlace place) {
  constexpr size_t mostKnown = 1 << 14;
  if (placed.mode || !placed.shares.empty())
    return stated = measureStage(placed, microBatches, place);
  const DeviceGroup &group = placed.group;
  std::vector<int> key{placed.begin, placed.end, microBatches, place.inFlight,
                       place.isLast + 2 * group.inOneNode + 4 * group.besideBefore +
                           8 * group.besideNext};
  for (auto [type, count] : group.counts)
    key.insert(key.end(), {type, count});
  for (const Spread &spread : group.spread)
    key.insert(key.end(), {spread.nodes, spread.inNode});
  if (auto entry = known.find(key); entry != known.end())
    return entry->second;
  if (known.size() >= mostKnown)
    known.clear();
  return known.emplace(std::move(key), measureStage(placed, microBatches, place)).first->second;
}

TransferPath Evaluator::pathBetween(const DeviceGroup &before, const DeviceGroup &behind) {
  if (before.counts.size() > 1 || behind.counts.size() > 1)
    return transferPath(problem.cluster, before, behind);
  auto [a, b] = before.counts.front();
  auto [c, d] = behind.counts.front();
  auto inNode = [](const DeviceGroup &group) {
    return group.spread.empty() ? 0 : group.spread.front().inNode;
  };
  auto [entry, isNew] = paths.try_emplace(
      {a, b, inNode(before), c, d, inNode(behind), before.besideNext && behind.besideBefore});
  if (isNew)
    entry->second = transferPath(problem.cluster, before, behind);
  return entry->second;
}

bool Evaluator::inSpace(const Placement &placement) const {
  int count = static_cast<int>(placement.stages.size());
  if (count < space.minStages || count > space.maxStages)
    return false;
  for (int i = 1; i < count; ++i) {
    const PlacedStage &stage = placement.stages[i];
    if (!std::binary_search(space.positions.begin(), space.positions.end(), stage.begin))
      return false;
  }
  return true;
}

bool Evaluator::devicesSuffice(const Placement &placement) {
  std::vector<int> used(space.available.size(), 0);
  for (size_t begin = 0, end = 0; begin < placement.stages.size(); begin = end) {
    end = endOfChain(placement, begin);
    std::vector<int> devices(used.size(), 0);
    for (size_t stage = begin; stage < end; ++stage)
      for (auto [type, count] : placement.stages[stage].group.counts)
        devices[type] += count;
    for (size_t type = 0; type < used.size(); ++type) {
      const TypeRoom &room = space.rooms[type];
      used[room.pool] += room.shards * slotsOfChain(space.rooms, int(type), devices[type]);
      if (used[room.pool] > space.available[room.pool] ||
          (end > begin + 1 && devices[type] > space.chains.devicesInNode(int(type))))
        return false;
    }
  }
  if (!space.keepsSharedLimits(used))
    return false;
  auto [room, isNew] =
      rooms.try_emplace(nodeItemsOf(problem.cluster, placement, space.rooms), true);
  if (isNew)
    room->second = findRoom(problem.cluster, room->first);
  return room->second;
}

void Evaluator::fillTransfers(const Placement &placement, Evaluation &evaluation) {
  if (rules.transfersArePartOfStages())
    return;
  std::vector<Stage> &stages = evaluation.stages;
  for (size_t i = 1; i < stages.size(); ++i) {
    const Cut &cut = cuts[placement.stages[i].begin];
    const DeviceGroup &from = placement.stages[i - 1].group, &to = placement.stages[i].group;
    Samples fromShare = evaluation.runs[i - 1].cost.largestShare,
            toShare = evaluation.runs[i].cost.largestShare;
    const BoundaryCost cost = boundaryCost(pathBetween(from, to), fromShare, toShare, cut);
    stages[i].receive = cost.receive;
    stages[i - 1].receiveGradient = cost.receiveGradient;
    stages[i].forward += stages[i].receive;
    stages[i - 1].backward += stages[i - 1].receiveGradient;
  }
}

/// The price of an iteration for boundaries between zones.
Dollars Evaluator::trafficOf(const Placement &placement) const {
  Dollars sum{};
  const MicroBatches samples{problem.request.globalBatch, placement.microBatches};
  const auto sideOf = [&](size_t stage) {
    return BoundarySide::of(problem.cluster, placement.stages[stage].group);
  };
  for (size_t i = 1; i < placement.stages.size(); ++i)
    sum += priceOfBoundary(sideOf(i - 1), sideOf(i), cuts[placement.stages[i].begin], samples);
  return sum;
}

std::optional<Evaluation> Evaluator::evaluate(const Placement &placement) {
  std::optional<Evaluation> result = measure(placement);
  if (result && !meetsLimits(result->iteration, result->price))
    return std::nullopt;
  return result;
}

/// Whether what the iteration model says of neighbours holds.
bool Evaluator::neighboursAllowed(const Placement &placement) const {
  for (size_t i = 1; i < placement.stages.size(); ++i)
    if (!space.mayFollow(placement.stages[i - 1].group, placement.stages[i].group))
      return false;
  return !placement.stages.front().group.besideBefore && !placement.stages.back().group.besideNext;
}

std::optional<Evaluation> Evaluator::measure(const Placement &placement, Among among) {
  int count = static_cast<int>(placement.stages.size());
  if ((among == Among::SearchSpace && !inSpace(placement)) || !neighboursAllowed(placement) ||
      (among != Among::Assigned && !devicesSuffice(placement)))
    return std::nullopt;
  Evaluation result;
  for (int i = 0; i < count; ++i) {
    const PlacedStage &placed = placement.stages[i];
    const StagePlace place{i + 1 == count,
                           problem.request.inFlight(count - i, placement.microBatches)};
    const KnownStage &stage = stageAt(placed, placement.microBatches, place);
    if (!stage.run.fits)
      return std::nullopt;
    result.runs.push_back(stage.run);
    result.stages.push_back(stage.figures);
    result.stages.back().id = i;
    for (auto [type, devices] : placed.group.counts)
      result.price += problem.cluster.types[type].price * double(devices);
  }
  fillTransfers(placement, result);
  Schedule schedule = count == 1 ? Schedule::DataParallel : Schedule::OneForwardOneBackward;
  result.iteration = rules.iteration(
      problem.request.overlapsTransfers ? withTransfersApart(result.stages) : result.stages,
      placement.microBatches, schedule);
  if (chargesTraffic(problem.cluster)) {
    result.traffic = trafficOf(placement);
    result.price += result.traffic / result.iteration;
  }
  result.objective = objectiveOf(result.iteration, result.price);
  return result;
}

Placement Evaluator::shareNodes(Placement placement) {
  if (rules.transfersArePartOfStages() || rules.mergesNeighbours()) // it saves nothing
    return placement;
  for (size_t stage = 0; stage + 1 < placement.stages.size(); ++stage) {
    const DeviceGroup &group = placement.stages[stage].group;
    const DeviceGroup &next = placement.stages[stage + 1].group;
    if (group.besideNext || !space.mayShareNode(group, next))
      continue;
    setBeside(placement, stage, true);
    if (!devicesSuffice(placement))
      setBeside(placement, stage, false);
  }
  return placement;
}

Placement Evaluator::simplifyModes(Placement placement) {
  constexpr double rounding = 1e-9;
  std::optional<Evaluation> before = measure(placement, Among::All);
  if (!before)
    return placement;
  placement = withModes(std::move(placement), *before);
  for (PlacedStage &stage : placement.stages) {
    const ExecutionMode decided = *stage.mode;
    for (const ExecutionMode &mode : stages.modesFor(stage.group.replicas())) {
      stage.mode = mode;
      std::optional<Evaluation> now = measure(placement, Among::All);
      if (mode == decided ||
          (now && now->objective <= before->objective * (1 + rounding) &&
           now->iteration <= before->iteration * (1 + rounding) && now->price <= before->price))
        break;
      stage.mode = decided;
    }
  }
  return placement;
}

Placement Evaluator::keepTogether(Placement placement) {
  for (size_t stage = 0; stage < placement.stages.size(); ++stage) {
    if (!staysApart(problem.cluster, placement.stages[stage].group))
      continue;
    Placement together = placement;
    together.stages[stage].group.inOneNode = true;
    std::optional<Evaluation> before = measure(placement, Among::All);
    std::optional<Evaluation> after = measure(together, Among::All);
    if (after && (!before || after->iteration <= before->iteration))
      placement = std::move(together);
  }
  return placement;
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
  if (iteration > request.longestIteration() * (1 + tolerance) ||
      price * iteration > request.highestCost() * (1 + tolerance))
    return false;
  return request.maxCostPerHour == DollarsPerHour(0) ||
         price <= request.maxCostPerHour * (1 + tolerance);
}

} // namespace heterplan
