#include "search/Degrees.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {

class AllDegrees {
public:
  explicit AllDegrees(Objective objective) : maximise(objective == Objective::Throughput) {}

  bool isEmpty() const { return !best; }
  /// The best value so far.
  std::optional<double> toBeat() const {
    return best && best->outcome.plan ? std::optional(best->outcome.plan->objectiveValue)
                                      : std::nullopt;
  }

  void add(size_t index, SearchOutcome outcome) {
    allProven &= outcome.isProven();
    work += outcome.work;
    if (outcome.plan)
      addBound(outcome.plan->lowerBound);
    else
      isBounded &= outcome.isProven();
    if (!best || isBetter(outcome, best->outcome))
      best = BestDegree{index, std::move(outcome)};
  }

  /// `all`: every degree that has plans was searched, and none was interrupted.
  BestDegree take(bool all) {
    BestDegree result = std::move(*best);
    result.outcome.work = work;
    if (result.outcome.plan)
      state(result.outcome, all && isBounded);
    else if (!all)
      result.outcome.termination = Termination::Interrupted;
    else if (!allProven)
      result.outcome.termination = Termination::Limit;
    return result;
  }

private:
  /// If neither has a plan, one without a proof of that counts as better: its space is to be
  /// explained.
  bool isBetter(const SearchOutcome &one, const SearchOutcome &other) const {
    if (!one.plan && !other.plan)
      return other.isProven() && !one.isProven();
    if (!one.plan || !other.plan)
      return one.plan.has_value();
    double own = one.plan->objectiveValue, known = other.plan->objectiveValue;
    return maximise ? own > known : own < known;
  }

  void addBound(double own) {
    isBounded &= own > 0;
    bound = bound == 0 ? own : maximise ? std::max(bound, own) : std::min(bound, own);
  }

  void state(SearchOutcome &outcome, bool bounded) const {
    Plan &plan = *outcome.plan;
    plan.lowerBound = bounded ? bound : 0;
    plan.gap = bounded ? std::abs(plan.objectiveValue - bound) / plan.objectiveValue : 1;
    plan.optimal = plan.optimal && bounded && plan.lowerBound == plan.objectiveValue;
    if (!plan.optimal && outcome.termination == Termination::Optimal)
      outcome.termination = Termination::Feasible;
  }

  bool maximise;
  std::optional<BestDegree> best;
  double bound = 0;
  bool isBounded = true; // every search has proven a bound, or that there is no plan
  bool allProven = true;
  int64_t work = 0;
};

} // namespace

Expected<BestDegree> bestOfDegrees(size_t degrees, Objective objective, const Deadline &deadline,
                                   const std::atomic<bool> *stop, DegreeSearch search) {
  AllDegrees all(objective);
  auto stopped = [&] { return stop && *stop; };
  for (size_t next = 0; next < degrees && (all.isEmpty() || !stopped()); ++next) {
    Expected<std::optional<SearchOutcome>> outcome =
        search(next, deadline.part(1.0 / double(degrees - next)), all.toBeat());
    if (!outcome)
      return outcome.takeError();
    if (*outcome)
      all.add(next, std::move(**outcome));
  }
  return all.take(!stopped());
}

} // namespace heterplan
