// The optimum with knowledge of all arrivals.
#include "search/jobs/policy/OfflineModel.h"
#include "search/jobs/policy/Policies.h"

#include "llvm/ADT/STLExtras.h"

namespace heterplan::jobs {

namespace {
/// The best schedule of the other policies: a start for the search, and the answer where it fails.
Schedule bestOfOthers(const Problem &problem, const PolicyOptions &options) {
  PolicyOptions quiet = options;
  quiet.clock = nullptr;
  quiet.progress = nullptr;
  return Auto().run(problem, quiet).schedule;
}
} // namespace

PolicyResult Offline::run(const Problem &given, const PolicyOptions &options) const {
  PolicyResult result;
  Seconds started = options.clock ? options.clock() : Seconds();
  result.schedule = bestOfOthers(given, options);
  // The model has the workers that `auto` chose: with other choices more may be possible.
  Problem problem = given;
  applyChoices(problem, result.schedule);
  bool isOpen = llvm::any_of(given.jobs(), [](const Job &job) { return job.choices.size() > 1; });
  double known = totalUtility(problem, result.schedule);
  OfflineModel model(problem);
  if (model.isSmall()) {
    OfflineModel::Answer answer = model.solve(options.nodeLimit, known);
    result.optimal = answer.proven && !isOpen;
    if (answer.schedule && totalUtility(problem, *answer.schedule) > known) {
      for (int job = 0; job < problem.size(); ++job)
        (*answer.schedule)[job].choice = result.schedule[job].choice;
      result.schedule = std::move(*answer.schedule);
    }
  }
  for (JobPlan &plan : result.schedule)
    plan.reason = plan.isAdmitted() ? "" : "others are worth more";
  if (options.clock)
    result.decisions.push_back(options.clock() - started);
  return result;
}

} // namespace heterplan::jobs
