// The bound of plans whose strategy has none of its own.
#include "search/exact/Bounds.h"
#include "search/exact/CountBounds.h"
#include "search/exact/steady/Bottleneck.h"
#include "search/placement/SearchBudget.h"

#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
Expected<double> steadyBound(Evaluator &evaluator, const std::optional<Placement> &best,
                             const SearchOptions &options) {
  auto solver = makeShortestPaths(evaluator, options.tuning);
  Expected<Solution> solution =
      searchByBottleneck(evaluator, *solver, options, options.tuning.briefShare, best);
  if (!solution)
    return solution.takeError();
  return solution->bound.value_or(0);
}
} // namespace

Expected<double> rootBound(Evaluator &evaluator, const std::optional<Placement> &best,
                           const SearchOptions &options) {
  if (evaluator.rules.slowestDecides())
    return steadyBound(evaluator, best, options);
  double bound = std::numeric_limits<double>::infinity();
  double slowest = bound; // of interest
  if (best) {
    std::optional<Evaluation> evaluation = evaluator.evaluate(*best);
    bound = evaluation->objective;
    if (evaluator.problem.request.objective == Objective::Throughput)
      slowest = evaluation->iteration.value();
  }
  const double reached = bound;
  for (auto [least, choice] : CountBounds(evaluator, /*wholeModelGroups=*/true).inOrder()) {
    if (least >= bound)
      break;
    if (SearchBudget(options).interrupted()) {
      bound = least;
      break;
    }
    StageTable table(evaluator, evaluator.space.microBatches[choice]);
    Bounds bounds(evaluator, table, /*wholeModelGroups=*/true, options);
    bounds.tighten(slowest, reached);
    bound = std::min(bound, bounds.root());
  }
  return bound;
}

} // namespace heterplan
