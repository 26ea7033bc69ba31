#include "search/provision/Provisioning.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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
    while (sizing.size < of.size() && !(isUseful(of[sizing.size]) && fits(stage)))
      ++sizing.size;
    if (sizing.size == of.size())
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
  int inFlight = std::min<int>(microBatches, int(stages.size()) - stage);
  return evaluator.stages.holds({sizing.begin, sizing.end}, sizing.type, count, microBatches,
                                inFlight);
}

void Provisioner::price(int stage) {
  Sizing &sizing = stages[stage];
  DeviceGroup group{{{sizing.type, sizes[sizing.type][sizing.size].count}}};
  int after = static_cast<int>(stages.size()) - stage; // itself counted
  StageCost cost = evaluator.stages
                       .evaluate({sizing.begin, sizing.end}, group, microBatches,
                                 {after == 1, std::min(microBatches, after)})
                       .cost;
  sizing.forward = cost.forward.value();
  sizing.backward = cost.backward.value();
  sizing.sync = cost.synchronization.value();
  sizing.share = cost.largestShare.value();
  ++steps;
}

/// Transfers between `stage` and the one before it.
void Provisioner::connect(int stage) {
  if (evaluator.rules.transfersArePartOfStages())
    return;
  Sizing &from = stages[stage - 1], &to = stages[stage];
  DeviceGroup sender{{{from.type, sizes[from.type][from.size].count}}};
  DeviceGroup receiver{{{to.type, sizes[to.type][to.size].count}}};
  const Cut &cut = evaluator.cuts[to.begin];
  const BoundaryCost cost = boundaryCost(evaluator.pathBetween(sender, receiver),
                                         Samples(from.share), Samples(to.share), cut);
  to.receive = cost.receive.value();
  from.receiveGradient = cost.receiveGradient.value();
}

bool Provisioner::grow(int stage) {
  Sizing &sizing = stages[stage];
  const std::vector<Size> &of = sizes[sizing.type];
  size_t next = sizing.size + 1;
  while (next < of.size() && !isUseful(of[next]))
    ++next;
  if (next == of.size())
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
/// times add up.
bool Provisioner::growSlowest() {
  std::vector<int> order(stages.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return stages[a].time() > stages[b].time(); });
  if (evaluator.rules.slowestDecides())
    order.resize(1);
  return llvm::any_of(order, [&](int stage) { return grow(stage); });
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

Placement Provisioner::placement() const {
  Placement result;
  result.microBatches = microBatches;
  for (const Sizing &stage : stages)
    result.stages.push_back(
        {stage.begin, stage.end, DeviceGroup{{{stage.type, sizes[stage.type][stage.size].count}}}});
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
  std::optional<Sized> best;
  double bestObjective = std::numeric_limits<double>::infinity();
  ++steps;
  missing = {};
  closest = 0;
  if (!start(assignment))
    return best;
  missing.limits = std::numeric_limits<double>::infinity();
  double least = leastIteration();
  while (evaluator.objectiveOf(Seconds(least), DollarsPerHour(cost)) < bestObjective) {
    Seconds time(iteration());
    double objective = evaluator.objectiveOf(time, DollarsPerHour(cost));
    if (objective < bestObjective && evaluator.meetsLimits(time, DollarsPerHour(cost))) {
      bestObjective = objective;
      best = Sized{placement(), objective};
    }
    if (double over = excess(time, DollarsPerHour(cost)); over < missing.limits) {
      missing.limits = over;
      closest = objective;
    }
    if (!growSlowest())
      break;
  }
  // The evaluator has the last word.
  if (best) {
    best->placement = evaluator.shareNodes(std::move(best->placement));
    std::optional<Evaluation> evaluation = evaluator.evaluate(best->placement);
    if (!evaluation) {
      missing.rules = 1;
      return std::nullopt;
    }
    missing = {};
    best->objective = evaluation->objective;
  }
  return best;
}

} // namespace heterplan
