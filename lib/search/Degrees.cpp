#include "search/Degrees.h"

#include "support/Parallel.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {

/// Compares values of Plan::objectiveValue.
struct IsBetter {
  bool maximise;

  explicit IsBetter(Objective objective) : maximise(objective == Objective::Throughput) {}
  bool operator()(double a, double b) const { return maximise ? a > b : a < b; }
  /// Nothing is worse than any value.
  bool operator()(std::optional<double> a, std::optional<double> b) const {
    return a && (!b || (*this)(*a, *b));
  }
};

class AllDegrees {
public:
  explicit AllDegrees(Objective objective) : isBetterValue(objective) {}

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
    else if (outcome.bound)
      addBound(*outcome.bound);
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
      state(result.outcome, all);
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
    return isBetterValue(one.plan->objectiveValue, other.plan->objectiveValue);
  }

  void addBound(double own) {
    isBounded &= own > 0 && std::isfinite(own);
    bound = bound == 0 || isBetterValue(own, bound) ? own : bound;
  }

  void state(SearchOutcome &outcome, bool all) const {
    Plan &plan = *outcome.plan;
    plan.lowerBound = isBounded ? bound : 0;
    plan.gap = isBounded ? std::abs(plan.objectiveValue - bound) / plan.objectiveValue : 1;
    plan.optimal = plan.optimal && all && isBounded && plan.lowerBound == plan.objectiveValue;
    if (!plan.optimal && outcome.termination == Termination::Optimal)
      outcome.termination = Termination::Feasible;
  }

  IsBetter isBetterValue;
  std::optional<BestDegree> best;
  double bound = 0;
  bool isBounded = true; // every search has proven a bound, or that there is no plan
  bool allProven = true;
  int64_t work = 0;
};

/// The parts of the time that is left for a first look, and for the first of several whole
/// searches. The gaps of 15 slow rows of gaps.md after 1 s add up to 177, 142 and 98 % if the
/// latter is 0.7, 0.8 and 0.9.
constexpr double lookShare = 0.06, firstShare = 0.9;

class DegreeSearches {
public:
  DegreeSearches(const DegreeLimits &limits, DegreeSearch search)
      : isBetter(limits.objective), all(limits.objective), limits(limits), search(search) {}

  /// Looks at the degrees from `begin` to `end`, which leaves them to whole searches unless they
  /// are ended.
  Error look(size_t begin, size_t end) {
    std::vector<size_t> degrees;
    for (size_t degree = begin; degree < end; ++degree)
      degrees.push_back(degree);
    std::vector<Look> looks(degrees.size());
    const std::optional<double> toBeat = bestSoFar();
    Error failure = searchTogether(degrees, [&](size_t i, int threads) -> Error {
      Look &own = looks[i];
      if (stopped())
        return Error::success();
      const Deadline until = limits.deadline.part(lookShare);
      auto outcome = search(degrees[i], {until, toBeat, /*firstLook=*/true, threads});
      if (!outcome)
        return outcome.takeError();
      own.isDone = true;
      own.isCut = until.isLimited() && until.passed();
      own.outcome = std::move(*outcome);
      return Error::success();
    });
    if (failure)
      return failure;
    for (size_t i = 0; i < looks.size(); ++i)
      add(degrees[i], std::move(looks[i]));
    return Error::success();
  }

  /// Searches the degrees that wait: one with a better plan than the best so far alone, the others
  /// side by side.
  Error searchWaiting() {
    stable_sort(waiting,
                [&](const Waiting &a, const Waiting &b) { return isBetter(a.value, b.value); });
    while (!waiting.empty() && (all.isEmpty() || !stopped())) {
      const bool isAlone = !all.toBeat() || isBetter(waiting.front().value, all.toBeat());
      std::vector<size_t> next;
      for (const Waiting &each : ArrayRef(waiting).take_front(isAlone ? 1 : waiting.size()))
        next.push_back(each.degree);
      std::reverse(next.begin(), next.end()); // what the worst ones leave of their time is used
      waiting.erase(waiting.begin(), waiting.begin() + ptrdiff_t(next.size()));
      if (Error error = searchWhole(next, !waiting.empty()))
        return error;
    }
    return Error::success();
  }

  /// Searches all plans of each of `degrees`. `others`: whether more degrees wait.
  Error searchWhole(ArrayRef<size_t> degrees, bool others) {
    std::vector<std::optional<SearchOutcome>> outcomes(degrees.size());
    std::vector<char> isSkipped(degrees.size());
    const std::optional<double> toBeat = all.toBeat();
    const size_t lanes = std::min(degrees.size(), size_t(limits.threads));
    Error failure = searchTogether(degrees, [&](size_t i, int threads) -> Error {
      isSkipped[i] = i > 0 && stopped();
      if (isSkipped[i])
        return Error::success();
      const double share = others ? firstShare : double(lanes) / double(degrees.size() - i);
      auto outcome = search(degrees[i], {limits.deadline.part(std::min(share, 1.0)), toBeat,
                                         /*firstLook=*/false, threads});
      if (!outcome)
        return outcome.takeError();
      outcomes[i] = std::move(*outcome);
      return Error::success();
    });
    if (failure)
      return failure;
    for (size_t i = 0; i < degrees.size(); ++i)
      if (outcomes[i])
        all.add(degrees[i], std::move(*outcomes[i]));
      else if (isSkipped[i])
        skipped.push_back(degrees[i]);
    return Error::success();
  }

  BestDegree take() {
    for (const Waiting &each : waiting)
      skipped.push_back(each.degree);
    sort(skipped);
    BestDegree result = all.take(!stopped());
    result.unsearched = std::move(skipped);
    return result;
  }

private:
  struct Waiting {
    size_t degree;
    std::optional<double> value; // of the plan that a first look found
  };
  struct Look {
    bool isDone = false, isCut = false; // by its part of the time
    std::optional<SearchOutcome> outcome;
  };

  bool stopped() const { return limits.stop && *limits.stop; }

  /// Calls `work` for the index of each of `degrees` and its number of threads.
  Error searchTogether(ArrayRef<size_t> degrees, function_ref<Error(size_t, int)> work) {
    const int threads = std::max(1, limits.threads / std::max(1, int(degrees.size())));
    return tryInParallel(degrees.size(), limits.threads,
                         [&](size_t i) { return work(i, threads); });
  }

  void add(size_t degree, Look look) {
    if (!look.isDone) {
      waiting.push_back({degree, std::nullopt});
      return;
    }
    if (!look.outcome)
      return;
    const std::optional<Plan> &plan = look.outcome->plan;
    if (!look.outcome->isFirstLook && !look.isCut)
      all.add(degree, std::move(*look.outcome));
    else
      waiting.push_back({degree, plan ? std::optional(plan->objectiveValue) : std::nullopt});
  }

  /// The best value that a whole search or a first look has found.
  std::optional<double> bestSoFar() const {
    std::optional<double> best = all.toBeat();
    for (const Waiting &each : waiting)
      if (isBetter(each.value, best))
        best = each.value;
    return best;
  }

  IsBetter isBetter;
  AllDegrees all;
  std::vector<Waiting> waiting;
  std::vector<size_t> skipped;
  const DegreeLimits &limits;
  DegreeSearch search;
};

} // namespace

Expected<BestDegree> bestOfDegrees(size_t degrees, bool firstIsWhole, const DegreeLimits &limits,
                                   DegreeSearch search) {
  DegreeSearches searches(limits, search);
  Error failure = firstIsWhole ? searches.searchWhole({0}, degrees > 1) : searches.look(0, 1);
  if (!failure)
    failure = searches.look(1, degrees);
  if (!failure)
    failure = searches.searchWaiting();
  if (failure)
    return failure;
  return searches.take();
}

} // namespace heterplan
