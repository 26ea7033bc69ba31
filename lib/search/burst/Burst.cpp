#include "search/burst/Burst.h"

#include "search/burst/Branches.h"
#include "search/burst/BurstPlan.h"
#include "search/placement/PlanBuilder.h"
#include "search/problem/Cuts.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Of the model, at most; a chain with more is cut at evenly spread ones.
constexpr int mostCuts = 256;

Diagnostic notPlanned(const char *element) {
  return Diagnostic(Diag::NotSupported, Location{"", 0, 0, element});
}

Error refuseUnsupported(const Problem &problem, StringRef strategy) {
  const Request &request = problem.request;
  if (strategy != "auto")
    return notPlanned("strategy").note({}, "bursts have one search, which is exact: auto")
           << "strategy '" << strategy << "' is not supported for bursts";
  if (request.microBatches > 1)
    return notPlanned("micro-batches").note({}, "a burst takes the batch at once")
           << request.microBatches << " micro-batches are not supported in bursts";
  if (request.recompute == RecomputePolicy::Always)
    return notPlanned("recompute") << "recomputation is not supported in bursts";
  if (request.shardState.value_or(StateSharding::None) != StateSharding::None)
    return notPlanned("shard state") << "sharded state is not supported in bursts";
  for (const Layer &layer : problem.graph.layers)
    if (!layer.tables.empty())
      return notPlanned("layers").note({}, "plan it with --schedule pipeline")
             << "layer '" << layer.name << "' has a sparse table, which bursts do not support";
  return Error::success();
}

/// How many devices of `type` a plan may have: those that pins, the budget and limits on the type
/// allow.
int devicesFor(const Problem &problem, int type) {
  const Request &request = problem.request;
  const DeviceType &of = problem.cluster.types[type];
  if (any_of(request.pins, [&](const Pin &pin) { return pin.type != of.stated(); }))
    return 0;
  double most = problem.availableDevices(type);
  if (request.maxCostPerHour > DollarsPerHour(0) && of.price > DollarsPerHour(0))
    most = std::min(most, std::floor(request.maxCostPerHour / of.price * (1 + 1e-9)));
  return static_cast<int>(most);
}

/// A plan's widths on one pool, and what they are worth.
struct PoolChoice {
  int type = 0;
  std::vector<BurstStage> stages;
  double value = infinity; // in the units of the objective, least is best
};

class BurstPlanner {
public:
  BurstPlanner(const Problem &problem, const SearchOptions &options)
      : problem(problem), request(problem.request), options(options), budget(options),
        positions(cutPositions(problem, mostCuts)), leftOut(leftOutOfBursts(problem)) {}

  Expected<SearchOutcome> run() {
    for (int type = 0; type < int(problem.cluster.types.size()); ++type)
      if (int most = devicesFor(problem, type); most > 0)
        if (Error error = searchPool(type, most))
          return error;
    SearchOutcome outcome;
    outcome.space = {burstSpaceName(leftOut), leftOut};
    outcome.termination = budget.termination(proven, !best.stages.empty());
    if (best.stages.empty())
      return outcome;
    Expected<Plan> plan = makePlan();
    if (!plan)
      return plan.takeError();
    outcome.plan = std::move(*plan);
    return outcome;
  }

private:
  Error searchPool(int type, int most) {
    Pool pool(problem.cluster, type, most, request.globalBatch, request.widths);
    BurstCosts costs(problem, pool);
    bool widestCounts =
        request.objective == Objective::Cost || std::isfinite(request.highestCost().value());
    for (int width : pool.widths()) {
      // The price of a plan is that of its widest stage; else more devices are never worse.
      if (!widestCounts && width != pool.widths().back())
        continue;
      BurstGoal goal{request.objective == Objective::DeviceSeconds, longestOn(type, width),
                     request.amplificationLimit, width, problem.roomOf(type).memory};
      Expected<BurstChoice> choice = searchWidths(costs, positions, goal, budget);
      if (!choice)
        return choice.takeError();
      merge(type, width, *choice);
    }
    return costs.takeError();
  }

  /// The longest iteration on `devices` of `type` that is within the limits on time and on cost.
  Seconds longestOn(int type, int devices) const {
    Dollars second = problem.cluster.types[type].price * double(devices) * Seconds(1);
    Seconds longest = request.longestIteration();
    return second > Dollars(0) ? std::min(longest, Seconds(request.highestCost() / second))
                               : longest;
  }

  /// What `time`, of an iteration or of devices, is worth with `devices` of `type`.
  double valueOf(int type, int devices, Seconds time) const {
    if (request.objective != Objective::Cost)
      return time.value();
    Dollars iteration = problem.cluster.types[type].price * double(devices) * time;
    return iteration.value() / double(request.globalBatch.value()) * 1e6;
  }

  void merge(int type, int width, const BurstChoice &choice) {
    proven &= choice.proven;
    if (!choice.stages.empty() || !choice.proven)
      bound = std::min(bound, valueOf(type, width, choice.bound));
    if (choice.stages.empty())
      return;
    int widest = 0;
    for (const BurstStage &stage : choice.stages)
      widest = std::max(widest, stage.width);
    Seconds time =
        request.objective == Objective::DeviceSeconds ? choice.deviceTime : choice.iteration;
    double value = valueOf(type, widest, time);
    if (value < best.value)
      best = {type, choice.stages, value};
    if (options.progress)
      options.progress(budget.progress(), best.value);
  }

  Expected<Plan> makePlan() {
    int most = 0;
    for (const BurstStage &stage : best.stages)
      most = std::max(most, stage.width);
    Pool pool(problem.cluster, best.type, most, request.globalBatch, request.widths);
    BurstCosts costs(problem, pool);
    Expected<Plan> plan = makeBurstPlan(costs, best.stages);
    if (!plan)
      return plan.takeError();
    plan->searchSpace = burstSpaceName(leftOut);
    plan->searchSpaceLimits = leftOut;
    plan->strategy = "auto";
    plan->seed = options.seed;
    plan->interrupted = options.stop && *options.stop;
    bool maximise = request.objective == Objective::Throughput;
    stateWorth(*plan, maximise ? double(request.globalBatch.value()) / bound : bound, proven);
    return plan;
  }

  const Problem &problem;
  const Request &request;
  const SearchOptions &options;
  SearchBudget budget;
  std::vector<int> positions;
  PoolChoice best;
  double bound = infinity; // on the value of every plan of the space
  bool proven = true;
  const std::vector<std::string> leftOut;
};
} // namespace

std::vector<std::string> leftOutOfBursts(const Problem &problem) {
  std::vector<std::string> result;
  size_t all = cutPositions(problem, problem.graph.size()).size();
  if (size_t kept = cutPositions(problem, mostCuts).size(); kept < all)
    result.push_back(std::to_string(all - kept) + " of " + std::to_string(all - 2) + " cuts");
  int pools = 0;
  bool powers = false;
  for (int type = 0; type < int(problem.cluster.types.size()); ++type)
    if (int most = devicesFor(problem, type); most > 0) {
      ++pools;
      powers |=
          Pool(problem.cluster, type, most, problem.request.globalBatch, problem.request.widths)
              .leavesPowersOut();
    }
  if (hasBranches(problem.graph))
    result.push_back("branches side by side of several stages each, on more devices than the "
                     "stages around them, or in more than " +
                     std::to_string(mostLaneChoices) + " ways a block");
  if (powers)
    result.push_back("powers of two that do not divide the batch");
  if (pools > 1)
    result.push_back("pools of several device types");
  return result;
}

std::string burstSpaceName(ArrayRef<std::string> leftOut) {
  return leftOut.empty() ? "burst" : "burst-reduced";
}

Expected<SearchOutcome> searchBurst(const Problem &problem, StringRef strategy,
                                    const SearchOptions &options) {
  if (Error error = refuseUnsupported(problem, strategy))
    return error;
  return BurstPlanner(problem, options).run();
}

} // namespace heterplan
