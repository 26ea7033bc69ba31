// The best schedule for jobs that are all known, within a limit on work.
#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Insertion.h"
#include "search/jobs/policy/Policies.h"

#include <algorithm>
#include <tuple>

namespace heterplan::jobs {

namespace {
/// Policies whose time grows little with jobs and nodes.
bool isCheap(llvm::StringRef name) { return name == "fifo" || name == "srtf"; }

/// Admits what fits in what is left, and lets jobs end earlier.
void finish(Insertion &insertion) {
  insertion.insertAll(1e-3);
  insertion.advanceAll();
}

class Choice {
public:
  explicit Choice(const Problem &problem) : problem(problem) {
    best.schedule.resize(problem.size());
  }

  /// Keeps `schedule` if it is worth more; of equal ones, the one with more jobs that are worth
  /// something, then with fewer that are not, then with earlier ends, then the cheaper one.
  void offer(const char *name, const Schedule &schedule) {
    double utility = totalUtility(problem, schedule);
    CompletionTimes times = completionTimes(problem, schedule);
    bool isWorthMore = utility > highest * (1 + 1e-12);
    bool isEqual = !isWorthMore && utility >= highest * (1 - 1e-12);
    int useful = 0;
    for (int job = 0; job < problem.size(); ++job)
      useful += utilityOf(problem, schedule, job) > 0;
    const std::tuple rank(-useful, times.admitted, times.mean, cost(problem, schedule));
    if (!isWorthMore && !(isEqual && rank < bestRank))
      return;
    highest = std::max(highest, utility);
    bestRank = rank;
    best.schedule = schedule;
    best.chosen = name;
  }

  PolicyResult best;
  double highest = -1;

private:
  const Problem &problem;
  std::tuple<int, int, double, Dollars> bestRank; // fewer is better
};
} // namespace

PolicyResult Auto::run(const Problem &problem, const PolicyOptions &options) const {
  Seconds started = options.clock ? options.clock() : Seconds();
  UtilityBound bound = utilityBound(problem);
  Choice choice(problem);
  PolicyOptions quiet = options;
  quiet.clock = nullptr;
  quiet.progress = nullptr;
  double size =
      double(problem.size()) * problem.slots() * double(problem.machines().sites().size());
  std::vector<PolicyInfo> tried;
  for (const PolicyInfo &policy : policies())
    if (policy.isTried && (size <= options.limits.everyPolicy || isCheap(policy.name)))
      tried.push_back(policy);
  for (size_t i = 0; i < tried.size(); ++i) {
    choice.offer(tried[i].name, makePolicy(tried[i].name)->run(problem, quiet).schedule);
    if (options.progress)
      options.progress(double(i + 1) / double(tried.size() + 2));
  }
  bool isLarge = size > options.limits.everyPolicy;
  Insertion insertion(problem, bound.costs);
  if (size <= options.limits.insertion)
    insertion.insertAll(1);
  if (!isLarge)
    finish(insertion);
  choice.offer("insertion", insertion.schedule());
  insertion.set(choice.best.schedule);
  if (!isLarge)
    finish(insertion);
  double limit = std::min(options.limits.work, options.limits.workOfJob * size);
  insertion.improve(insertion.work() + limit, bound.value * (1 - 1e-9), options.seed);
  if (!isLarge)
    finish(insertion);
  if (!isLarge)
    insertion.endEarlier(); // utilities are often flat, completion times are not
  std::string improved = choice.best.chosen + ", improved";
  choice.offer(improved.c_str(), insertion.schedule());
  PolicyResult result = std::move(choice.best);
  result.upperBound = bound.value;
  for (int job = 0; job < problem.size(); ++job)
    result.schedule[job].reason = result.schedule[job].isAdmitted() ? "" : "others are worth more";
  result.optimal = totalUtility(problem, result.schedule) >= bound.value * (1 - 1e-9);
  if (options.clock)
    result.decisions.push_back(options.clock() - started);
  return result;
}

} // namespace heterplan::jobs
