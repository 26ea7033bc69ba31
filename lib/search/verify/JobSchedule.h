// A schedule of many jobs checked over exact rational numbers, from the rules of docs/schedule.md
// alone; and, for small clusters, whether any schedule at all reaches a total utility: an oracle
// for optima and bounds that shares nothing with the scheduler.
#pragma once

#include "ir/Cluster.h"
#include "search/verify/Solver.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// The jobs and the cluster of a schedule.
struct StatedJobs {
  struct Demand {
    double cores = 0;
    Bytes memory{};
    int64_t gpus = 0;
  };
  struct Job {
    std::string name;
    int arrival = 0; // slot
    int64_t batch = 1;
    double work = 0; // samples
    Demand worker, server;
    double workersPerServer = 1;
    std::optional<Seconds> sampleTime;        // on any device, or
    std::map<std::string, Seconds> typeTimes; // by device type
    Bytes gradient{};
    std::vector<double> utility;  // by delay in slots; does not rise
    int64_t minWorkers = 1;       // in a slot with any
    bool sameType = false;        // workers of a slot have one device type
    int maxNodes = 0;             // 0: any number
    Seconds restart{};            // lost in a slot whose amounts are not those of the slot before
    bool preemptible = true;      // else amounts stay the same from start to end
    std::optional<int> lastDelay; // declined if it cannot end by then
    std::vector<int> after;       // jobs that end in an earlier slot
    int queue = -1;               // index into `queues`; -1: none
    bool mustFinish = true;       // else it was dropped or stopped before its work was done
    /// Workers that the job may have in place of `worker`, by their GPUs; all of its workers are
    /// equal.
    struct Choice {
      Demand worker;
      std::map<std::string, Seconds> typeTimes;
    };
    std::vector<Choice> choices;
  };
  /// Limits in a slot; absent ones are not there.
  struct Amounts {
    std::optional<double> cores;
    std::optional<Bytes> memory;
    std::optional<int64_t> gpus;             // of all types together
    std::map<std::string, int64_t> typeGpus; // by GPU type
  };
  struct Queue {
    std::string name;
    Amounts quota;
    std::optional<double> share; // in place of `quota`
    std::string cohort;          // "": none
    Amounts borrow;
  };
  /// Slots in which a node has nothing.
  struct Outage {
    std::string node;
    int first = 0, last = 0;
  };
  Cluster cluster; // links and memories resolved
  Seconds slot{1};
  int slots = 1;
  std::vector<Job> jobs;
  std::vector<Queue> queues = {};
  std::vector<Outage> outages = {};
};

/// A row of schedule.json; `type` is empty where the node has at most one GPU type.
struct StatedRow {
  int job = 0, slot = 0;
  std::string node, type;
  int64_t workers = 0, servers = 0;
  int64_t gpus = 0; // of a worker, if the job has a choice
};

/// Rules that `rows` break, as messages; none if the schedule holds. The result names rules that
/// contradict each other, at least one if any is broken. A job without rows is declined.
llvm::Expected<std::vector<std::string>> brokenRules(const StatedJobs &stated,
                                                     llvm::ArrayRef<StatedRow> rows);

/// Whether some schedule has a total utility of at least `utility`. Unknown where Z3 gives up.
llvm::Expected<Truth> canReach(const StatedJobs &stated, double utility);

} // namespace heterplan
