#include "search/burst/Burst.h"

#include "search/burst/Branches.h"
#include "search/burst/BurstPlan.h"
#include "search/burst/Pools.h"
#include "search/placement/PlanBuilder.h"
#include "search/problem/Cuts.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// The most cuts of a model; a chain with more is cut at evenly spread ones.
constexpr int mostCuts = 256;

Diagnostic notPlanned(const char *element) {
  return Diagnostic(Diag::NotSupported, Location{"", 0, 0, element});
}

bool isMixed(const Pool &pool) { return pool.isMixed(); }

Error refuseUnsupported(const Problem &problem, StringRef strategy) {
  const Request &request = problem.request;
  if (strategy != "auto")
    return notPlanned("strategy").note({}, "bursts have one search, which is exact: auto")
           << "strategy '" << strategy << "' is not supported for bursts";
  if (request.microBatches > 1)
    return notPlanned("micro-batches").note({}, "a burst takes the batch at once")
           << request.microBatches << " micro-batches are not supported in bursts";
  if (request.mustRecompute())
    return notPlanned("recompute") << "recomputation is not supported in bursts";
  if (request.mustDivideState())
    return notPlanned("shard state") << "sharded state is not supported in bursts";
  for (const Layer &layer : problem.graph.layers)
    if (!layer.tables.empty())
      return notPlanned("layers").note({}, "plan it with --schedule pipeline")
             << "layer '" << layer.name << "' has a sparse table, which bursts do not support";
  return Error::success();
}

/// A plan's widths on one pool, and what they are worth.
struct PoolChoice {
  const Pool *pool = nullptr;
  std::vector<BurstStage> stages;
  double value = infinity; // in the units of the objective, least is best
};

class BurstPlanner {
public:
  BurstPlanner(const Problem &problem, const SearchOptions &options, const std::vector<Pool> &pools)
      : problem(problem), request(problem.request), options(options), pools(pools), budget(options),
        positions(cutPositions(problem, mostCuts)), leftOut(leftOutOfBursts(problem, pools)) {}

  Expected<SearchOutcome> run() {
    for (const Pool &pool : pools)
      if (Error error = searchPool(pool))
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
  Error searchPool(const Pool &pool) {
    BurstCosts costs(problem, pool);
    bool widestCounts =
        request.objective == Objective::Cost || std::isfinite(request.highestCost().value());
    for (int width : pool.widths()) {
      // The price of a plan is that of its widest stage; else more devices are never worse.
      if (!widestCounts && width != pool.widths().back())
        continue;
      BurstGoal goal{request.objective == Objective::DeviceSeconds, longestOn(pool, width),
                     request.amplificationLimit, width, toBeat(pool, width)};
      Expected<BurstChoice> choice = searchWidths(costs, positions, goal, budget);
      if (!choice)
        return choice.takeError();
      merge(pool, width, *choice);
    }
    return costs.takeError();
  }

  /// The longest iteration on `devices` of `pool` that is within the limits on time and on cost.
  Seconds longestOn(const Pool &pool, int devices) const {
    Dollars second = pool.price(devices) * Seconds(1);
    Seconds longest = request.longestIteration();
    return second > Dollars(0) ? std::min(longest, Seconds(request.highestCost() / second))
                               : longest;
  }

  /// The longest time of a plan on `devices` of `pool` that is as good as the incumbent.
  Seconds toBeat(const Pool &pool, int devices) const {
    double second = valueOf(pool, devices, Seconds(1));
    return Seconds(second > 0 ? best.value / second : infinity);
  }

  /// The objective value of `time`, the time of an iteration or of devices, on `devices` of `pool`.
  double valueOf(const Pool &pool, int devices, Seconds time) const {
    if (request.objective != Objective::Cost)
      return time.value();
    Dollars iteration = pool.price(devices) * time;
    return iteration.value() / double(request.globalBatch.value()) * 1e6;
  }

  void merge(const Pool &pool, int width, const BurstChoice &choice) {
    proven &= choice.proven;
    if (!choice.stages.empty() || !choice.proven)
      bound = std::min(bound, valueOf(pool, width, choice.bound));
    if (choice.stages.empty())
      return;
    int widest = 0;
    for (const BurstStage &stage : choice.stages)
      widest = std::max(widest, stage.width);
    Seconds time =
        request.objective == Objective::DeviceSeconds ? choice.deviceTime : choice.iteration;
    double value = valueOf(pool, widest, time);
    if (value < best.value)
      best = {&pool, choice.stages, value};
    if (options.progress)
      options.progress(budget.progress(), best.value);
  }

  Expected<Plan> makePlan() {
    BurstCosts costs(problem, *best.pool);
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
  const std::vector<Pool> &pools;
  SearchBudget budget;
  std::vector<int> positions;
  PoolChoice best;
  double bound = infinity; // on the value of every plan of the space
  bool proven = true;
  const std::vector<std::string> leftOut;
};
} // namespace

std::vector<std::string> leftOutOfBursts(const Problem &problem, ArrayRef<Pool> pools) {
  std::vector<std::string> result;
  size_t all = cutPositions(problem, problem.graph.size()).size();
  if (size_t kept = cutPositions(problem, mostCuts).size(); kept < all)
    result.push_back(std::to_string(all - kept) + " of " + std::to_string(all - 2) + " cuts");
  bool branches = hasBranches(problem.graph), mixed = any_of(pools, isMixed);
  if (branches)
    result.push_back("branches side by side of several stages each, on more devices than the "
                     "stages around them, or in more than " +
                     std::to_string(mostLaneChoices) + " ways a block");
  if (any_of(pools, [](const Pool &pool) { return pool.leavesPowersOut(); }))
    result.push_back("powers of two that do not divide the batch");
  if (mixed && branches)
    result.push_back("branches side by side on devices of several types");
  if (mixed) // of more than Pool::mostOfAnyNumber not every number is tried
    result.push_back("other numbers and shares of devices of several types");
  return result;
}

std::string burstSpaceName(ArrayRef<std::string> leftOut) {
  return leftOut.empty() ? "burst" : "burst-reduced";
}

Expected<SearchOutcome> searchBurst(const Problem &problem, StringRef strategy,
                                    const SearchOptions &options) {
  if (Error error = refuseUnsupported(problem, strategy))
    return error;
  Expected<std::vector<Pool>> pools = poolsOf(problem);
  if (!pools)
    return pools.takeError();
  return BurstPlanner(problem, options, *pools).run();
}

} // namespace heterplan
