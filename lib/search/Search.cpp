#include "search/Search.h"

#include "ir/sharding/NotWithShards.h"
#include "search/Comparison.h"
#include "search/burst/Burst.h"
#include "search/placement/PlanBuilder.h"
#include "search/placement/SearchMemory.h"
#include "search/placement/Strategy.h"
#include "search/provision/Rounding.h"
#include "support/Suggestion.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr StrategyInfo infos[] = {
    {"auto", "exact within its limits, then local search and learning from its plan"},
#define HETERPLAN_STRATEGY(name, cls, cuts, help) {name, help},
#include "search/placement/Strategies.def"
};

struct Strategy {
  Expected<Solution> (*run)(Evaluator &, const SearchOptions &);
  std::vector<int> (*cuts)(const Problem &); // that it searches
};

constexpr Strategy strategyTable[] = {
    {runPortfolio, everyCut}, // auto
#define HETERPLAN_STRATEGY(name, cls, cuts, help) {cls::run, cuts},
#include "search/placement/Strategies.def"
};

/// Sizes the stages of `placement` anew by `options.rounding`, and says what it is compared with,
/// in the units of Evaluation::objective; none where sizes are not continuous.
std::optional<Rounding> roundSizes(Evaluator &evaluator, const SearchOptions &options,
                                   Placement &placement) {
  auto sizes = ContinuousSizes::of(evaluator, placement);
  if (!sizes)
    return std::nullopt;
  if (options.rounding == RoundingMethod::Exact)
    return Rounding{nameOf(RoundingMethod::Exact), sizes->objective()};
  auto rounded = sizes->round(options.rounding, options.seed);
  assert(rounded && evaluator.evaluate(*rounded) && "roundings meet the limits if anything does");
  placement = std::move(*rounded);
  return Rounding{nameOf(options.rounding), sizes->objective()};
}

/// Whether a strategy plans with groups of devices that stand for unequal numbers of devices.
bool searchesDegrees(StringRef name) {
  constexpr StringLiteral names[] = {"auto", "label-setting", "greedy", "local-search",
                                     "exhaustive"};
  return is_contained(names, name);
}

Expected<size_t> strategyIndex(StringRef name) {
  std::string accepted;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::size(infos); ++i) {
    if (name == infos[i].name)
      return i;
    names.push_back(infos[i].name);
    accepted += (i ? ", " : "") + std::string(infos[i].name);
  }
  return Diagnostic(Diag::UnknownStrategy, {"", 0, 0, "strategy"})
             .note({}, "accepted are " + accepted)
         << "no strategy is called '" << name << "'" << didYouMean(name, names);
}

/// SearchOutcome::bound of a search that has found no plan.
std::optional<double> boundWithoutPlan(const Request &request, const Solution &solution,
                                       const SearchOptions &options) {
  if (!options.toBeat || !solution.bound || *solution.bound <= 0 || isProof(solution.termination))
    return std::nullopt;
  return objectiveOf(request, std::min(*solution.bound, objectiveOf(request, *options.toBeat)));
}

/// By strategy `index`, of infos.
Expected<SearchOutcome> searchPlacements(const Problem &problem, size_t index,
                                         const SearchOptions &options) {
  if (options.rounding != RoundingMethod::Exact &&
      std::isfinite(problem.request.highestCost().value()))
    return Diagnostic(Diag::NotSupported, {"", 0, 0, "rounding"})
           << "sizes are not rounded within a limit on the cost of an iteration or of samples";
  const Strategy &strategy = strategyTable[index];
  SearchMemory own;
  SearchMemory &memory = options.memory ? *options.memory : own;
  Evaluator &evaluator = memory.evaluatorOf(problem, strategy.cuts(problem));
  Expected<Solution> solution = strategy.run(evaluator, options);
  if (Error error = evaluator.takeError()) {
    if (!solution)
      consumeError(solution.takeError());
    return error;
  }
  if (!solution)
    return solution.takeError();
  SearchOutcome outcome;
  outcome.termination = solution->termination;
  outcome.isFirstLook = solution->isFirstLook;
  outcome.space =
      evaluator.space.searched(solution->leftOut, solution->termination == Termination::Infeasible);
  if (!solution->placement) {
    outcome.bound = boundWithoutPlan(problem.request, *solution, options);
    return outcome;
  }
  solution->placement =
      evaluator.simplifyModes(evaluator.shareNodes(std::move(*solution->placement)));
  std::optional<Rounding> rounding = roundSizes(evaluator, options, *solution->placement);
  if (!solution->bound) {
    Expected<double> bound = rootBound(evaluator, solution->placement, options);
    if (!bound)
      return bound.takeError();
    solution->bound = *bound;
  }
  Expected<Plan> plan = PlanBuilder(evaluator, *solution->placement).build(*solution->bound);
  if (!plan)
    return plan.takeError();
  if (rounding && plan->objective == Objective::Throughput)
    rounding->continuous = double(plan->globalBatch.value()) / rounding->continuous;
  plan->rounding = std::move(rounding);
  plan->searchSpace = outcome.space.name;
  plan->searchSpaceLimits = outcome.space.leftOut;
  plan->interrupted = options.stop && *options.stop;
  plan->strategy = infos[index].name;
  plan->seed = options.seed;
  if (plan->optimal) // its bound may be reached without a search for it
    outcome.termination = Termination::Optimal;
  else if (outcome.termination == Termination::Optimal) // with sizes that were not rounded
    outcome.termination = Termination::Feasible;
  outcome.plan = std::move(*plan);
  return outcome;
}
} // namespace

const char *nameOf(RoundingMethod method) {
  static constexpr const char *names[] = {"exact", "ceiling", "floor-repair", "randomised"};
  return names[static_cast<int>(method)];
}

ArrayRef<StrategyInfo> strategies() { return infos; }

ArrayRef<MethodInfo> methods() {
  static constexpr MethodInfo methods[] = {
#define HETERPLAN_METHOD(enumerator, name, help) {name, help},
#include "search/exact/Methods.def"
  };
  return methods;
}

Expected<SearchOutcome> search(const Problem &problem, StringRef name,
                               const SearchOptions &options) {
  Expected<size_t> index = strategyIndex(name);
  if (!index)
    return index.takeError();
  if (problem.cluster.hasShardTypes() && !searchesDegrees(name))
    return notWithShards(NotWithShards::UnequalDegreesStrategy);
  std::atomic<int64_t> work = 0;
  SearchOptions counting = options;
  counting.work = &work;
  SearchOptions forCopies = counting; // of the problem
  forCopies.memory = nullptr;
  Expected<SearchOutcome> outcome =
      problem.request.schedule == ScheduleChoice::Burst ? searchBurst(problem, name, forCopies)
      : comparesBursts(problem.request) ? compareWithBursts(problem, name, forCopies)
                                        : searchPlacements(problem, *index, counting);
  if (options.work)
    options.work->fetch_add(work, std::memory_order_relaxed);
  if (outcome)
    outcome->work = work;
  return outcome;
}

} // namespace heterplan
