// Time and memory by the size of the problem: one run at a time, on one thread.
#include "Sections.h"

#include "search/jobs/UpperBound.h"
#include "search/jobs/policy/Policy.h"
#include "support/Statistics.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heterplan::bench {

using jobs::Problem;

namespace {
/// Time of the processor: other programs may run.
Seconds ownTime() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return Seconds(double(now.tv_sec) + 1e-9 * double(now.tv_nsec));
}

struct Case {
  const char *policy;
  Setting setting;
};

void printRow(const Case &each) {
  const Setting &setting = each.setting;
  const Cluster cluster = serversOf(setting.nodes);
  Problem problem = problemOf(cluster, setting, 0);
  Seconds started = ownTime();
  jobs::PolicyOptions options;
  options.clock = ownTime;
  jobs::PolicyResult result = jobs::makePolicy(each.policy)->run(problem, options);
  Seconds ended = ownTime();
  std::vector<double> decisions;
  for (Seconds decision : result.decisions)
    decisions.push_back(1e3 * decision.value());
  std::sort(decisions.begin(), decisions.end());
  double bound = jobs::utilityUpperBound(problem);
  Seconds bounded = ownTime();
  printf("| %d | %d | %d | %s | %.1f | %.1f | %.1f | %.1f |", setting.nodes, setting.jobs,
         setting.slots, each.policy, (ended - started).value(), median(decisions), decisions.back(),
         (bounded - ended).value());
  printf(" %.2f |", totalUtility(problem, result.schedule) / bound);
}

/// A process of its own, so that its memory is that of the row.
void measure(const Case &each) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    printRow(each);
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  if (child > 0 && wait4(child, &status, 0, &usage) == child)
    printf(" %ld |\n", usage.ru_maxrss / 1024);
}
} // namespace

void printGrowth() {
  printf("\n## Growth\n\n"
         "These are seconds of one core and megabytes, for a workload of the publication. A "
         "decision is that\nabout one job (`pd-ors`), about all jobs in a slot (`fifo`), or about "
         "the whole workload (`auto`).\n\n"
         "| nodes | jobs | slots | policy | schedule (s) | median decision (ms) | longest (ms) | "
         "bound (s) | of the bound | memory (MB) |\n"
         "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (int size : {100, 200, 500, 1000})
    measure({"pd-ors", {size, size, 100}});
  for (const char *policy : {"fifo", "srtf", "drf", "auto"})
    for (int jobs : {1000, 10'000})
      measure({policy, {jobs, 1000, 1000}});
  measure({"fifo", {10'000, 1000, 4000}}); // a longer horizon
  for (const char *policy : {"fifo", "auto"})
    measure({policy, {100'000, 1000, 1000}});
}

} // namespace heterplan::bench
