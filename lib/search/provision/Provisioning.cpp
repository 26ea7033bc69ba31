#include "search/provision/Provisioning.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

Provisioner::Provisioner(Evaluator &evaluator, const AssignmentSpace &assignments)
    : evaluator(evaluator), assignments(assignments), sizes(evaluator.space.available.size()) {
  for (const GroupOption &option : evaluator.space.options) {
    if (option.group.counts.size() > 1 || !option.group.spread.empty() || option.group.sharesNode())
      continue;
    auto [type, count] = option.group.counts.front();
    sizes[type].push_back({count, option.slots[type], option.price.value(), &option});
  }
  for (std::vector<Size> &of : sizes)
    std::sort(of.begin(), of.end(), [](const Size &a, const Size &b) { return a.count < b.count; });
}

/// Makes the stages of `assignment`, each with the fewest devices that hold it.
bool Provisioner::start(const TypeAssignment &assignment) {
  const SearchSpace &space = evaluator.space;
  microBatches = space.microBatches[assignment.choice];
  batch = evaluator.stages.fullSize(microBatches);
  stages.clear();
  cost = 0;
  left = space.available;
  for (int block = 0; block < assignments.blocks; ++block) {
    int type = assignments.typeOf(assignment.actions[block]);
    bool begins =
        stages.empty() || stages.back().type != type ||
        (assignments.cuts(assignment.actions[block]) && !evaluator.rules.mergesNeighbours());
    if (begins)
      stages.push_back({{}, space.positions[block], 0, type});
    stages.back().end = space.positions[block + 1];
  }
  int count = static_cast<int>(stages.size());
  if (count < space.minStages || count > space.maxStages || !holdStages()) {
    missing.rules = missing.total() > 0 ? missing.rules : 1;
    return false;
  }
  for (int stage = 0; stage < count; ++stage) {
    cost += sizes[stages[stage].type][stages[stage].size].price;
    price(stage);
  }
  for (int stage = 1; stage < count; ++stage)
    connect(stage);
  return true;
}

/// Gives each stage the fewest devices that hold it, and sums up what is missing.
bool Provisioner::holdStages() {
  int count = static_cast<int>(stages.size());
  for (int stage = 0; stage < count; ++stage) {
    Sizing &sizing = stages[stage];
    if (!evaluator.stages.mayRun({sizing.begin, sizing.end}, sizing.type))
      missing.rules = 1;
    const std::vector<Size> &of = sizes[sizing.type];
    const int all = static_cast<int>(of.size());
    while (sizing.size < all && !(isUseful(of[sizing.size]) && fits(stage)))
      ++sizing.size;
    if (sizing.size == all)
      missing.memory += 1.0 / count;
    else if ((left[sizing.type] -= of[sizing.size].slots) < 0)
      missing.devices += double(std::min(-left[sizing.type], of[sizing.size].slots)) /
                         evaluator.space.available[sizing.type];
  }
  return missing.total() == 0;
}

/// The largest log of what is above a limit; 0 where all are kept.
double Provisioner::excess(Seconds time, DollarsPerHour price) const {
  const Request &request = evaluator.problem.request;
  double most = std::log(time.value() / request.longestIteration().value());
  most = std::max(most, std::log((price * time).value() / request.highestCost().value()));
  if (request.maxCostPerHour > DollarsPerHour(0))
    most = std::max(most, std::log(price.value() / request.maxCostPerHour.value()));
  return std::max(most, 0.0);
}

bool Provisioner::fits(int stage) const {
  const Sizing &sizing = stages[stage];
  int count = sizes[sizing.type][sizing.size].count;
  int inFlight = evaluator.problem.request.inFlight(int(stages.size()) - stage, microBatches);
  return evaluator.stages.holds({sizing.begin, sizing.end}, sizing.type, count, microBatches,
                                inFlight);
}

void Provisioner::price(int stage) {
  Sizing &sizing = stages[stage];
  int after = static_cast<int>(stages.size()) - stage; // itself counted
  int inFlight = evaluator.problem.request.inFlight(after, microBatches);
  ++steps;
  if (knownStages.size() >= mostKnown)
    knownStages.clear();
  auto [entry, isNew] = knownStages.try_emplace({sizing.begin, sizing.end, sizing.type, sizing.size,
                                                 microBatches, inFlight, int(after == 1)});
  if (isNew) {
    DeviceGroup group{{{sizing.type, sizes[sizing.type][sizing.size].count}}};
    StageCost cost =
        evaluator.stages
            .evaluate({sizing.begin, sizing.end}, group, microBatches, {after == 1, inFlight})
            .cost;
    entry->second.forward = cost.forward.value();
    entry->second.backward = cost.backward.value();
    entry->second.sync = cost.synchronization.value();
    entry->second.share = cost.largestShare.value();
  }
  static_cast<StageTimes &>(sizing) = entry->second;
}

/// Transfers between `stage` and the one before it.
void Provisioner::connect(int stage) {
  if (evaluator.rules.transfersArePartOfStages())
    return;
  Sizing &from = stages[stage - 1], &to = stages[stage];
  if (knownTransfers.size() >= mostKnown)
    knownTransfers.clear();
  auto [entry, isNew] =
      knownTransfers.try_emplace({to.begin, from.type, from.size, to.type, to.size, microBatches});
  if (isNew) {
    DeviceGroup sender{{{from.type, sizes[from.type][from.size].count}}};
    DeviceGroup receiver{{{to.type, sizes[to.type][to.size].count}}};
    const BoundaryCost cost =
        boundaryCost(evaluator.pathBetween(sender, receiver), Samples(from.share),
                     Samples(to.share), evaluator.cuts[to.begin]);
    entry->second = {cost.receive.value(), cost.receiveGradient.value()};
  }
  std::tie(to.receive, from.receiveGradient) = entry->second;
}

bool Provisioner::grow(int stage) {
  Sizing &sizing = stages[stage];
  const std::vector<Size> &of = sizes[sizing.type];
  const int all = static_cast<int>(of.size());
  int next = sizing.size + 1;
  while (next < all && !isUseful(of[next]))
    ++next;
  if (next == all)
    return false;
  int more = of[next].slots - of[sizing.size].slots;
  if (more > left[sizing.type])
    return false;
  left[sizing.type] -= more;
  cost += of[next].price - of[sizing.size].price;
  sizing.size = next;
  price(stage);
  if (stage > 0)
    connect(stage);
  if (stage + 1 < static_cast<int>(stages.size()))
    connect(stage + 1);
  return true;
}

/// Grows the slowest stage. If it cannot grow, other stages only shorten an iteration where their
/// times add up. A stage that cannot grow now will never do so, as devices only become fewer.
bool Provisioner::growSlowest() {
  for (;;) {
    int slowest = -1;
    for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage)
      if (!stages[stage].isStuck && (slowest < 0 || stages[stage].time() > stages[slowest].time()))
        slowest = stage;
    if (slowest < 0)
      return false;
    if (grow(slowest))
      return true;
    stages[slowest].isStuck = true;
    if (evaluator.rules.slowestDecides())
      return false;
  }
}

double Provisioner::iteration() const {
  StageSums sums;
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    sums.fill += stage->time();
    sums.slowest = std::max(sums.slowest, stage->time());
    sums.exposed = std::max(stage->sync, sums.exposed - stage->backward - stage->receiveGradient);
  }
  return evaluator.rules.leastIteration(sums, microBatches);
}

std::vector<int> Provisioner::sizesInHand() const {
  std::vector<int> result;
  result.reserve(stages.size());
  for (const Sizing &stage : stages)
    result.push_back(stage.size);
  return result;
}

/// The stages in hand with the sizes `sizeOf`.
Placement Provisioner::placement(const std::vector<int> &sizeOf) const {
  Placement result;
  result.microBatches = microBatches;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Sizing &stage = stages[i];
    result.stages.push_back(
        {stage.begin, stage.end, DeviceGroup{{{stage.type, sizes[stage.type][sizeOf[i]].count}}}});
  }
  return result;
}

/// No sizing of the stages in hand is faster than this where costs are fitted to sizes; 0
/// elsewhere.
double Provisioner::leastIteration() {
  const HeterPsModel *model = evaluator.stages.costs.fit();
  if (!model)
    return 0;
  double slowest = 0;
  for (const Sizing &stage : stages) {
    int most = sizes[stage.type].back().count;
    slowest = std::max(slowest, model->stageTime(stage.begin, stage.end, stage.type, most));
  }
  return slowest * microBatches;
}

std::optional<Provisioner::Sized> Provisioner::size(const TypeAssignment &assignment) {
  std::vector<int> best; // sizes of the stages
  double bestObjective = std::numeric_limits<double>::infinity();
  ++steps;
  missing = {};
  closest = 0;
  if (!start(assignment))
    return std::nullopt;
  missing.limits = std::numeric_limits<double>::infinity();
  double least = leastIteration();
  while (evaluator.objectiveOf(Seconds(least), DollarsPerHour(cost)) < bestObjective) {
    Seconds time(iteration());
    double objective = evaluator.objectiveOf(time, DollarsPerHour(cost));
    if (objective < bestObjective && evaluator.meetsLimits(time, DollarsPerHour(cost))) {
      bestObjective = objective;
      best = sizesInHand();
    }
    if (double over = excess(time, DollarsPerHour(cost)); over < missing.limits) {
      missing.limits = over;
      closest = objective;
    }
    if (!growSlowest())
      break;
  }
  if (best.empty())
    return std::nullopt;
  // The evaluator has the last word.
  Placement result = evaluator.shareNodes(placement(best));
  std::optional<Evaluation> evaluation = evaluator.evaluate(result);
  if (!evaluation) {
    missing.rules = 1;
    return std::nullopt;
  }
  missing = {};
  return Sized{std::move(result), evaluation->objective};
}

} // namespace heterplan
