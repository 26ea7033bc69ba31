#include "search/Search.h"

#include "search/Strategy.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
using Run = Expected<Solution> (*)(Evaluator &, const SearchOptions &);

constexpr StrategyInfo infos[] = {
    {"auto", "exact within its limits, then local search and learning from its plan"},
#define HETERPLAN_STRATEGY(name, cls, help) {name, help},
#include "search/Strategies.def"
};

constexpr Run runs[] = {
    runPortfolio, // auto
#define HETERPLAN_STRATEGY(name, cls, help) cls::run,
#include "search/Strategies.def"
};

Expected<size_t> strategyIndex(StringRef name) {
  std::string accepted;
  for (size_t i = 0; i < std::size(infos); ++i) {
    if (name == infos[i].name)
      return i;
    accepted += (i ? ", " : "") + std::string(infos[i].name);
  }
  return Diagnostic(Diag::UnknownStrategy, {"", 0, 0, "strategy"})
             .note({}, "accepted are " + accepted)
         << "no strategy is called '" << name << "'";
}
} // namespace

ArrayRef<StrategyInfo> strategies() { return infos; }

Expected<SearchOutcome> search(const Problem &problem, StringRef name,
                               const SearchOptions &options) {
  Expected<size_t> index = strategyIndex(name);
  if (!index)
    return index.takeError();
  Evaluator evaluator(problem);
  Expected<Solution> solution = runs[*index](evaluator, options);
  if (Error error = evaluator.prices().takeError()) {
    if (!solution)
      consumeError(solution.takeError());
    return error;
  }
  if (!solution)
    return solution.takeError();
  SearchOutcome outcome;
  outcome.proven = solution->complete;
  if (!solution->placement)
    return outcome;
  if (solution->bound == Solution::noBound)
    solution->bound = rootBound(evaluator, solution->placement);
  if (Error error = evaluator.prices().takeError())
    return error;
  Expected<Plan> plan = evaluator.plan(*solution->placement, solution->bound);
  if (!plan)
    return plan.takeError();
  plan->strategy = name.str();
  plan->seed = options.seed;
  outcome.plan = std::move(*plan);
  return outcome;
}

} // namespace heterplan
