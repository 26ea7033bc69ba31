#include "search/Orders.h"

#include "search/Comparison.h"
#include "search/problem/NarrowOrder.h"

#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
/// The part of the time that is left for a first look, as for degrees of tensor parallelism.
constexpr double lookShare = 0.06;

LayerGraph inOrder(const LayerGraph &graph, const NarrowOrder &order) {
  LayerGraph result = permuted(graph, order.layers);
  result.order = LayerOrder::Narrow;
  return result;
}

/// The searches for plans of a problem in the given order and in a narrow one.
class TwoOrders {
public:
  TwoOrders(const Problem &given, LayerGraph narrow, StringRef strategy,
            const SearchOptions &options)
      : problems{given, given}, strategy(strategy), options(options) {
    problems[Narrow].graph = std::move(narrow);
  }

  Expected<BestOrder> run() {
    for (Index order : {Narrow, Given})
      if (Error error = look(order))
        return error;
    const bool prefersGiven = !outcomes[Narrow].plan || isBetter(outcomes[Given], outcomes[Narrow]);
    const Index first = prefersGiven ? Given : Narrow, second = prefersGiven ? Narrow : Given;
    for (Index order : {first, second}) {
      if (Error error = finish(order))
        return error;
      if (outcomes[order].plan)
        return take(order);
    }
    return take(Given);
  }

private:
  enum Index { Given, Narrow };

  Problem problems[2];
  SearchOutcome outcomes[2];
  bool isWhole[2] = {false, false};
  StringRef strategy;
  const SearchOptions &options;
  int64_t work = 0;

  static bool isBetter(const SearchOutcome &one, const SearchOutcome &other) {
    if (!one.plan || !other.plan)
      return one.plan.has_value();
    const bool maximise = one.plan->objective == Objective::Throughput;
    const double a = one.plan->objectiveValue, b = other.plan->objectiveValue;
    return maximise ? a > b : a < b;
  }

  bool isStopped() const { return options.stop && *options.stop; }

  Error search(Index order, const SearchOptions &searching) {
    Expected<SearchOutcome> outcome = heterplan::search(problems[order], strategy, searching);
    if (!outcome)
      return outcome.takeError();
    work += outcome->work;
    outcomes[order] = std::move(*outcome);
    return Error::success();
  }

  /// Looks for a plan that is better than the one of a look before.
  Error look(Index order) {
    SearchOptions searching = options;
    searching.firstLook = true;
    searching.deadline = options.deadline.part(lookShare);
    if (const SearchOutcome &other = outcomes[1 - order]; other.plan)
      searching.toBeat = other.plan->objectiveValue;
    if (Error error = search(order, searching))
      return error;
    const Deadline &deadline = searching.deadline;
    isWhole[order] = !outcomes[order].isFirstLook && !(deadline.isLimited() && deadline.passed()) &&
                     (outcomes[order].plan || !searching.toBeat);
    return Error::success();
  }

  /// Searches an order of which there was only a look.
  Error finish(Index order) {
    const bool isEnough = isWhole[order] || (isStopped() && outcomes[order].plan);
    return isEnough ? Error::success() : search(order, options);
  }

  BestOrder take(Index order) {
    BestOrder best{std::move(outcomes[order]), std::nullopt};
    best.outcome.work = work;
    if (order == Narrow)
      best.layers = std::move(problems[Narrow].graph);
    return best;
  }
};
} // namespace

bool mayReorder(const Problem &problem) {
  const Request &request = problem.request;
  return request.schedule != ScheduleChoice::Burst && !comparesBursts(request) &&
         request.schedule != ScheduleChoice::DataParallel && problem.graph.degrees() == std::vector{1};
}

std::optional<LayerGraph> inNarrowOrder(const Problem &problem) {
  std::optional<NarrowOrder> order = narrowOrder(problem);
  if (!order)
    return std::nullopt;
  return inOrder(problem.graph, *order);
}

Expected<BestOrder> searchOrders(const Problem &problem, StringRef strategy,
                                 const SearchOptions &options) {
  const std::optional<NarrowOrder> order =
      mayReorder(problem) ? narrowOrder(problem) : std::nullopt;
  if (order && order->isMuchNarrower())
    return TwoOrders(problem, inOrder(problem.graph, *order), strategy, options).run();
  Expected<SearchOutcome> outcome = search(problem, strategy, options);
  if (!outcome)
    return outcome.takeError();
  return BestOrder{std::move(*outcome), std::nullopt};
}

} // namespace heterplan
