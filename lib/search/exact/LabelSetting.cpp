// Exact search over every cut: first, briefly, over few, which gives a plan and good multipliers,
// then over all of them; where those are too many, over those near the plan's.
#include "search/exact/LabelSearch.h"
#include "support/Parallel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <atomic>

using namespace llvm;

namespace heterplan {

namespace {
/// The share of a time limit for the search over few cuts. With a limit of 1 s, the mean gap of 15
/// slow rows of gaps.md is 25 %. It is 29 % without a share, or with half of the limit.
constexpr double coarseShare = 0.25;

/// A search with a single number of micro-batches keeps so many times the stages of others.
constexpr size_t timesAsMany = 8;

bool allFit(const SearchSpace &space, const SearchOptions &options) {
  return space.stages(space.positions.size()) <= size_t(options.tuning.mostStages);
}

/// Shares the answers of the cost model, which do not depend on the cuts, so that it is asked once.
void shareTimes(Evaluator &evaluator, Evaluator &other) {
  evaluator.stages.costs.times.shareWith(other.stages.costs.times);
}

/// The message about the cuts that a search over `cuts` of them leaves out.
std::string cutsLeftOut(const Evaluator &evaluator, size_t cuts) {
  const size_t all = evaluator.space.positions.size();
  return std::to_string(all - cuts) + " of " + std::to_string(all - 2) + " cuts";
}

/// A plan over all cuts with `microBatches` micro-batches that is better than `placement`; none if
/// there is none.
std::optional<Placement> overAllCuts(Evaluator &evaluator, const SearchOptions &options,
                                     const Placement &placement, int microBatches) {
  LabelSearch search(evaluator, options);
  search.keepOnly(microBatches);
  const Solution better = search.runFrom(placement);
  const double before = evaluator.evaluate(placement)->objective;
  const bool isBetter =
      better.placement && evaluator.evaluate(*better.placement)->objective < before;
  return isBetter ? better.placement : std::nullopt;
}

/// Improves `placement` over all cuts: with as many micro-batches as it has, and if that gains
/// something, with the next larger and smaller numbers, until two in a row are no better. All of
/// them together would take too many stages or too long.
Placement climbedOverAllCuts(Evaluator &evaluator, const SearchOptions &options,
                             Placement placement) {
  const SearchSpace &space = evaluator.space;
  if (space.stages(space.positions.size()) > size_t(options.tuning.mostStages) * timesAsMany)
    return placement;
  const std::vector<int> &numbers = space.microBatches;
  auto improves = [&](int number) {
    auto better = overAllCuts(evaluator, options, placement, number);
    if (better)
      placement = std::move(*better);
    return better.has_value();
  };
  if (!improves(placement.microBatches))
    return placement;
  for (int step : {1, -1}) {
    auto number = lower_bound(numbers, placement.microBatches) - numbers.begin();
    int worse = 0;
    while (worse < 2 && (number += step) >= 0 && number < int(numbers.size()))
      worse = improves(numbers[size_t(number)]) ? 0 : worse + 1;
  }
  return placement;
}

/// The plan of a brief search over `few` cuts, improved step by step among cuts near its own: one
/// that is close to the best saves most of the proof.
Expected<std::optional<Placement>> improved(Evaluator &evaluator, const SearchOptions &brief,
                                            ArrayRef<int> few, std::optional<Placement> placement) {
  if (!placement || !brief.uses(Method::Improvement))
    return placement;
  Evaluator near(evaluator.problem, cutsNear(*placement, few, evaluator.space.positions));
  if (brief.threads == 1)
    shareTimes(near, evaluator);
  else // which another thread may use
    near.stages.costs.times.shareCostsWith(evaluator.stages.costs.times);
  placement = improveLocally(near, brief, brief.tuning.briefShare, placement).placement;
  if (Error error = near.takeError())
    return error;
  return placement;
}

/// From what the search over `few` cuts found, until no cut near those of the plan is better.
Expected<Solution> refine(Evaluator &evaluator, const SearchOptions &options,
                          const SearchOptions &brief, const LabelSearch &coarse, ArrayRef<int> few,
                          Solution solution) {
  const std::vector<int> &all = evaluator.space.positions;
  const Problem &problem = evaluator.problem;
  size_t cuts = few.size();
  SearchOptions climbing = brief;
  climbing.without.push_back(Method::Beam); // there is a plan
  while (solution.placement) {
    auto start = improved(evaluator, brief, few, std::move(solution.placement));
    if (!start)
      return start.takeError();
    solution.placement = climbedOverAllCuts(evaluator, climbing, std::move(**start));
    Evaluator near(problem, cutsNear(*solution.placement, few, all));
    shareTimes(near, evaluator);
    double before = near.evaluate(*solution.placement)->objective;
    LabelSearch search(near, options);
    search.startFrom(coarse);
    Solution better = search.runFrom(solution.placement);
    if (Error error = near.takeError())
      return error;
    cuts = near.space.positions.size();
    solution = std::move(better);
    if (!solution.placement || near.evaluate(*solution.placement)->objective >= before)
      break;
  }
  solution.leftOut.push_back(cutsLeftOut(evaluator, cuts));
  return solution;
}

/// The plan from which `search`, over all cuts, begins: `placement` of a brief search over `few`
/// cuts. Without a gap local search improves it, as it may find a plan that is as good and costs
/// less. Beside it the first number of micro-batches is opened.
Expected<std::optional<Placement>> startOf(LabelSearch &search, Evaluator &evaluator,
                                           const SearchOptions &brief, ArrayRef<int> few,
                                           const std::optional<Placement> &placement) {
  bool isOpen = true;
  std::atomic<bool> isDone = false;
  SearchOptions meanwhile = brief;
  meanwhile.stop = &isDone;
  std::optional<Placement> better = placement;
  Error failure = Error::success();
  inParallel(2, brief.threads, [&](size_t part) {
    if (part == 0) {
      isOpen = search.boundCases(placement) || brief.gap == 0;
      isDone = !isOpen || (brief.stop && *brief.stop);
      if (!isDone && brief.threads > 1)
        search.openFirst();
    } else if (!isDone && brief.gap == 0) {
      if (auto improvement = improved(evaluator, meanwhile, few, placement))
        better = std::move(*improvement);
      else
        failure = improvement.takeError();
    }
  });
  if (failure)
    return failure;
  // For the same plan as with several threads. Local search comes first, as time may be short.
  if (!isDone && brief.threads == 1)
    search.openFirst();
  return isOpen ? better : placement;
}

/// `search`, over all cuts, from what the search over `few` found.
Expected<Solution> searchAll(LabelSearch &search, Evaluator &evaluator, const SearchOptions &brief,
                             const LabelSearch &coarse, ArrayRef<int> few,
                             const std::optional<Placement> &found) {
  search.startFrom(coarse);
  Error failure = Error::success();
  if (brief.gap > 0)
    search.improveBy([&](const std::optional<Placement> &placement) {
      auto better = improved(evaluator, brief, few, placement);
      if (!better)
        failure = joinErrors(std::move(failure), better.takeError());
      return better ? *better : placement;
    });
  auto placement = startOf(search, evaluator, brief, few, found);
  if (!placement)
    return joinErrors(placement.takeError(), std::move(failure));
  Solution solution = search.runFrom(*placement);
  if (failure)
    return failure;
  return solution;
}
} // namespace

Expected<Solution> LabelSetting::run(Evaluator &evaluator, const SearchOptions &options) {
  const std::vector<int> few = narrowCuts(evaluator.problem);
  if (few.size() >= evaluator.space.positions.size() ||
      (allFit(evaluator.space, options) && !options.uses(Method::CoarseSearch)))
    return LabelSearch(evaluator, options).run();
  const bool isWhole = options.firstLook || allFit(evaluator.space, options);
  std::optional<LabelSearch> search; // over all cuts
  if (isWhole && !options.firstLook) {
    search.emplace(evaluator, options);
    if (search->provesNone())
      return search->runFrom(std::nullopt);
  }
  SearchOptions brief = options;
  brief.workLimit = int64_t(double(brief.workLimit) * options.tuning.briefShare);
  brief.without.push_back(Method::LevelBounds); // of use to a proof alone
  Evaluator narrow(evaluator.problem, few);
  shareTimes(narrow, evaluator);
  SearchOptions quick = brief;
  if (isWhole)
    quick.deadline = options.deadline.part(coarseShare);
  if (options.firstLook)
    quick.gap = std::max(quick.gap, options.lookGap);
  LabelSearch coarse(narrow, quick);
  // A look at a large problem needs a plan: which degree is searched first matters most there.
  const bool needsPlan = options.firstLook && !allFit(evaluator.space, options);
  Solution found = needsPlan ? coarse.runFrom(greedyPlacement(narrow)) : coarse.run();
  if (!isWhole && !found.placement && !isProof(found.termination))
    found = LabelSearch(narrow, options).run(); // the first plan may take all work
  coarse.forgetCases();
  if (Error error = narrow.takeError())
    return error;
  if (options.firstLook) {
    found.leftOut.push_back(cutsLeftOut(evaluator, few.size()));
    found.isFirstLook = true;
    return found;
  }
  if (!isWhole)
    return refine(evaluator, options, brief, coarse, few, std::move(found));
  return searchAll(*search, evaluator, brief, coarse, few, found.placement);
}

} // namespace heterplan
