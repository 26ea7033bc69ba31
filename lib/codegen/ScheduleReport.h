// report.html of a schedule of jobs: what was decided, who works when, and how full the cluster is.
#pragma once

#include "support/Units.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heterplan {

/// The facts that the page shows.
struct ScheduleFigures {
  /// Slots in which a job has the same workers and servers, both ends included.
  struct Stretch {
    int first = 0, last = 0;
    int64_t workers = 0, servers = 0;
  };
  struct Job {
    std::string name;
    int arrival = 0;
    double utility = 0;
    std::string reason;             // of the decision
    std::vector<Stretch> stretches; // none: it was declined
  };
  struct Use {
    std::string resource;
    double mean = 0;
    std::vector<double> shares; // of the whole cluster, by slot
  };

  std::string cluster, policy;
  uint64_t seed = 0;
  Seconds slot{};
  int makespan = 0;
  double utility = 0, upperBound = 0;
  bool optimal = false;
  double meanCompletion = 0, medianCompletion = 0, p99Completion = 0; // slots
  std::vector<Job> jobs;
  std::vector<Use> uses;
};

/// A self-contained page with a table, a Gantt chart of the jobs and a chart of each resource's
/// use, as inline SVG. Every name is escaped. If there are more than a few hundred jobs, the chart
/// shows the first ones and states how many are left out.
std::string emitScheduleReport(const ScheduleFigures &figures);

} // namespace heterplan
