#include "ScheduleText.h"

#include "Table.h"

#include "support/JsonWriter.h"
#include "support/Statistics.h"
#include "support/Text.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

using namespace jobs;

namespace {
int64_t mostWorkers(const JobPlan &plan) {
  int64_t most = 0;
  for (const auto &[slot, rows] : plan.slots) {
    int64_t workers = 0;
    for (const Row &row : rows)
      workers += row.workers;
    most = std::max(most, workers);
  }
  return most;
}

/// Names of the nodes that it has in any slot, in their order.
std::string nodesOf(const Problem &problem, const JobPlan &plan) {
  std::vector<bool> used(problem.machines().nodes().size());
  for (const auto &[slot, rows] : plan.slots)
    for (const Row &row : rows)
      used[problem.machines().sites()[row.site].node] = true;
  std::string names;
  for (size_t node = 0; node < used.size(); ++node)
    if (used[node])
      names += (names.empty() ? "" : " ") + problem.machines().nodes()[node].name;
  return shortened(names, 40);
}

void printJobs(raw_ostream &os, const Problem &problem, const Schedule &schedule) {
  Table table({"job", ">arrival", ">start", ">end", ">utility", ">most workers", "nodes"});
  for (int job = 0; job < problem.size(); ++job) {
    const JobPlan &plan = schedule[job];
    std::string name = shortened(problem.job(job).name);
    std::string arrival = std::to_string(problem.job(job).arrival);
    if (plan.isAdmitted())
      table.row({name, arrival, std::to_string(plan.start()), std::to_string(plan.completion()),
                 plain(utilityOf(problem, schedule, job)), std::to_string(mostWorkers(plan)),
                 nodesOf(problem, plan)});
    else
      table.row({name, arrival, "-", "-", "0", "-", "declined: " + plan.reason});
  }
  table.print(os);
}
} // namespace

void printSchedule(raw_ostream &os, const Problem &problem, const Schedule &schedule,
                   const RunFacts &facts) {
  printJobs(os, problem, schedule);
  double total = totalUtility(problem, schedule);
  CompletionTimes times = completionTimes(problem, schedule);
  std::array<double, resources> shares = utilisation(problem, schedule);
  os << "\npolicy       " << facts.policy << (facts.chosen.empty() ? "" : " (" + facts.chosen + ")")
     << '\n'
     << "utility      " << plain(total) << " of at most " << plain(facts.upperBound)
     << (facts.optimal ? " (this is the optimum)\n" : "\n") << "admitted     " << times.admitted
     << " of " << problem.size() << " jobs\n"
     << "makespan     " << makespan(schedule) << " slots of " << readable(problem.slot()) << '\n';
  if (times.admitted > 0)
    os << "completion   " << plain(times.mean) << " slots on average, " << plain(times.median)
       << " in the median, " << plain(times.p99) << " at the 99th percentile\n";
  if (Fairness fair = fairness(problem, schedule); times.admitted > 0) {
    os << "fairness     " << plain(fair.mean) << " on average, " << plain(fair.worst)
       << " at worst (time over that with an equal share)\n";
    if (fair.deadlineMisses > 0)
      os << "deadlines    " << fair.deadlineMisses << " missed\n";
  }
  if (Dollars dollars = cost(problem, schedule); dollars > Dollars())
    os << "cost         $" << fixed(dollars.value(), 2) << '\n';
  os << "utilisation ";
  for (Resource resource : {Gpu, Cpu, Memory})
    os << ' ' << nameOf(resource) << ' ' << percent(shares[resource]);
  os << '\n';
}

void printDecisions(raw_ostream &os, const PolicyResult &result, bool asJson) {
  std::vector<double> seconds;
  for (Seconds decision : result.decisions)
    seconds.push_back(decision.value());
  if (asJson) {
    JsonWriter json(os);
    json.object([&] {
      json.attributeArray("decisionSeconds", [&] {
        for (double each : seconds)
          json.value(each);
      });
    });
    return;
  }
  if (!seconds.empty())
    os << seconds.size() << " decisions, " << readable(Seconds(median(seconds)))
       << " in the median, " << readable(Seconds(*std::max_element(seconds.begin(), seconds.end())))
       << " at most\n";
}

} // namespace heterplan
