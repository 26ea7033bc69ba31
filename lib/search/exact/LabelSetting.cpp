// Exact search over every cut: first, briefly, over few, which gives a plan and good multipliers,
// then over all of them; where those are too many, over those near the plan's.
#include "search/exact/LabelSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
bool allFit(const SearchSpace &space, const SearchOptions &options) {
  return space.stages(space.positions.size()) <= size_t(options.tuning.mostStages);
}

/// Shares the answers of the cost model, which do not depend on the cuts, so that it is asked once.
void shareTimes(Evaluator &evaluator, Evaluator &other) {
  evaluator.stages.costs.times.shareWith(other.stages.costs.times);
}

/// From what the search over `few` cuts found, until no cut near those of the plan is better.
Expected<Solution> refine(Evaluator &evaluator, const SearchOptions &options,
                          const LabelSearch &coarse, ArrayRef<int> few, Solution solution) {
  const std::vector<int> &all = evaluator.space.positions;
  const Problem &problem = evaluator.problem;
  size_t cuts = few.size();
  while (solution.placement) {
    Evaluator near(problem, cutsNear(*solution.placement, few, all));
    shareTimes(near, evaluator);
    double before = near.evaluate(*solution.placement)->objective;
    Solution better = LabelSearch(near, options).runFrom(coarse, solution.placement);
    if (Error error = near.takeError())
      return error;
    cuts = near.space.positions.size();
    solution = std::move(better);
    if (!solution.placement || near.evaluate(*solution.placement)->objective >= before)
      break;
  }
  solution.leftOut.push_back(std::to_string(all.size() - cuts) + " of " +
                             std::to_string(all.size() - 2) + " cuts");
  return solution;
}

/// The plan of a brief search over `few` cuts, improved step by step among cuts near its own: one
/// that is close to the best saves most of the proof.
Expected<std::optional<Placement>> improved(Evaluator &evaluator, const SearchOptions &brief,
                                            ArrayRef<int> few, std::optional<Placement> placement) {
  if (!placement || !brief.uses(Method::Improvement))
    return placement;
  Evaluator near(evaluator.problem, cutsNear(*placement, few, evaluator.space.positions));
  shareTimes(near, evaluator);
  placement = improveLocally(near, brief, brief.tuning.briefShare, placement).placement;
  if (Error error = near.takeError())
    return error;
  return placement;
}

/// A solution that was cut short by the limit of work, and a second search that begins from its
/// plan with multipliers of its own: both bounds hold, but for what either search left out.
Solution searchedAgain(Evaluator &evaluator, const SearchOptions &options, Solution first) {
  Solution second = LabelSearch(evaluator, options).runFrom(first.placement);
  second.bound = std::max(*first.bound, *second.bound);
  for (std::string &part : first.leftOut)
    if (!is_contained(second.leftOut, part))
      second.leftOut.push_back(std::move(part));
  if (second.placement &&
      *second.bound >= evaluator.evaluate(*second.placement)->objective * (1 - 1e-12))
    second.termination = Termination::Optimal;
  return second;
}
} // namespace

Expected<Solution> LabelSetting::run(Evaluator &evaluator, const SearchOptions &options) {
  const std::vector<int> few = narrowCuts(evaluator.problem);
  if (few.size() >= evaluator.space.positions.size() ||
      (allFit(evaluator.space, options) && !options.uses(Method::CoarseSearch)))
    return LabelSearch(evaluator, options).run();
  const bool isWhole = allFit(evaluator.space, options);
  SearchOptions brief = options;
  if (isWhole) {
    brief.workLimit = int64_t(double(brief.workLimit) * options.tuning.briefShare);
    brief.without.push_back(Method::LevelBounds); // of use to a proof alone
  }
  Evaluator narrow(evaluator.problem, few);
  shareTimes(narrow, evaluator);
  LabelSearch coarse(narrow, brief);
  Solution found = coarse.run();
  if (Error error = narrow.takeError())
    return error;
  if (!isWhole)
    return refine(evaluator, options, coarse, few, std::move(found));
  auto placement = improved(evaluator, brief, few, std::move(found.placement));
  if (!placement)
    return placement.takeError();
  Solution solution = LabelSearch(evaluator, options).runFrom(coarse, *placement);
  const bool isOver = solution.termination != Termination::Limit || options.deadline.passed();
  return isOver ? solution : searchedAgain(evaluator, options, std::move(solution));
}

} // namespace heterplan
