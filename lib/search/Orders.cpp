#include "search/Orders.h"

#include "search/Comparison.h"
#include "search/problem/LayerOrders.h"

#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
/// The part of the time that is left for a first look, as for degrees of tensor parallelism, and
/// the gap that it leaves.
constexpr double lookShare = 0.06, lookGap = 0.005;
/// By how much the plan of another order than the given one must be better.
constexpr double leastGain = 0.005;
/// Most looks at orders that fit the best plan so far.
constexpr int mostFittings = 4;

LayerGraph inOrder(const LayerGraph &graph, ArrayRef<int> order) {
  LayerGraph result = permuted(graph, order);
  result.order = LayerOrder::Narrow;
  return result;
}

/// The searches for plans of a problem in several orders.
class OrderSearches {
public:
  OrderSearches(const Problem &given, StringRef strategy, const SearchOptions &common)
      : given(given), strategy(strategy), options(common) {
    options.memory = nullptr; // of one problem
  }

  Expected<BestOrder> run(const LayerOrders &orders, const std::vector<int> &narrowest) {
    if (Error error = lookAtOthers(orders, narrowest))
      return error;
    if (Error error = look(given, leastGain))
      return error;
    return best ? finish() : searchWithoutLook(narrowest);
  }

private:
  /// A plan that a look has found, and its order.
  struct Look {
    Problem problem;
    SearchOutcome outcome;
    bool isWhole; // the look was a search to the end
  };

  const Problem &given;
  StringRef strategy;
  SearchOptions options;
  std::optional<Look> best;
  int looksThatHelped = 0;
  int64_t work = 0;

  bool isStopped() const { return options.stop && *options.stop; }

  Problem reordered(ArrayRef<int> order) const {
    Problem problem = given;
    problem.graph = inOrder(given.graph, order);
    return problem;
  }

  Expected<SearchOutcome> searched(const Problem &problem, const SearchOptions &searching) {
    Expected<SearchOutcome> outcome = search(problem, strategy, searching);
    if (outcome)
      work += outcome->work;
    return outcome;
  }

  /// Looks at the narrowest order, and at orders that fit the best plan so far while that helps.
  Error lookAtOthers(const LayerOrders &orders, ArrayRef<int> narrowest) {
    std::optional<std::vector<int>> order = narrowest.vec();
    for (int i = 0; i <= mostFittings && order && !isStopped(); ++i) {
      const int before = looksThatHelped;
      if (Error error = look(reordered(*order), 0))
        return error;
      order = looksThatHelped > before ? orders.fitting(*best->outcome.plan) : std::nullopt;
    }
    return Error::success();
  }

  /// Looks for a plan that is better than the best one so far, or worse by less than the part
  /// `tolerance`.
  Error look(Problem problem, double tolerance) {
    SearchOptions searching = options;
    searching.firstLook = true;
    searching.lookGap = lookGap;
    searching.deadline = options.deadline.part(lookShare);
    if (best)
      searching.toBeat = worsened(best->outcome.plan->objectiveValue, tolerance);
    Expected<SearchOutcome> outcome = searched(problem, searching);
    if (!outcome)
      return outcome.takeError();
    const Deadline &deadline = searching.deadline;
    const bool isWhole = !outcome->isFirstLook && !(deadline.isLimited() && deadline.passed());
    if (outcome->plan && (!best || isBetter(outcome->plan->objectiveValue, *searching.toBeat))) {
      best = Look{std::move(problem), std::move(*outcome), isWhole};
      ++looksThatHelped;
    }
    return Error::success();
  }

  bool maximises() const { return given.request.objective == Objective::Throughput; }
  bool isBetter(double one, double other) const { return maximises() ? one > other : one < other; }
  double worsened(double value, double part) const {
    return maximises() ? value * (1 - part) : value * (1 + part);
  }

  /// Searches the order of the best look.
  Expected<BestOrder> finish() {
    if (best->isWhole || isStopped())
      return result(std::move(best->problem), std::move(best->outcome));
    Expected<SearchOutcome> outcome = searched(best->problem, options);
    if (!outcome)
      return outcome.takeError();
    return result(std::move(best->problem), std::move(*outcome));
  }

  /// Searches the given order, and the narrowest one if that has no plan.
  Expected<BestOrder> searchWithoutLook(ArrayRef<int> narrowest) {
    Expected<SearchOutcome> outcome = searched(given, options);
    if (!outcome)
      return outcome.takeError();
    if (outcome->plan || isStopped())
      return result(given, std::move(*outcome));
    Problem narrow = reordered(narrowest);
    Expected<SearchOutcome> other = searched(narrow, options);
    if (!other)
      return other.takeError();
    return other->plan ? result(std::move(narrow), std::move(*other))
                       : result(given, std::move(*outcome));
  }

  BestOrder result(Problem problem, SearchOutcome outcome) const {
    outcome.work = work;
    if (problem.graph.order == given.graph.order)
      return {std::move(outcome), std::nullopt};
    return {std::move(outcome), std::move(problem.graph)};
  }
};
} // namespace

bool mayReorder(const Problem &problem) {
  const Request &request = problem.request;
  return request.schedule != ScheduleChoice::Burst && !comparesBursts(request) &&
         request.schedule != ScheduleChoice::DataParallel &&
         problem.graph.degrees() == std::vector{1};
}

std::optional<LayerGraph> inNarrowOrder(const Problem &problem) {
  std::optional<std::vector<int>> order = LayerOrders(problem).narrowest();
  if (!order)
    return std::nullopt;
  return inOrder(problem.graph, *order);
}

Expected<BestOrder> searchOrders(const Problem &problem, StringRef strategy,
                                 const SearchOptions &options) {
  if (mayReorder(problem)) {
    const LayerOrders orders(problem);
    if (std::optional<std::vector<int>> narrowest = orders.narrowest())
      return OrderSearches(problem, strategy, options).run(orders, *narrowest);
  }
  Expected<SearchOutcome> outcome = search(problem, strategy, options);
  if (!outcome)
    return outcome.takeError();
  return BestOrder{std::move(*outcome), std::nullopt};
}

} // namespace heterplan
