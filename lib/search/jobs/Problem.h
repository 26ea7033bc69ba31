// The scheduling problem: jobs on machines over slots. All facts that policies, bounds and files
// share are asked here, so that speed and capacity are stated once.
#pragma once

#include "search/jobs/Machines.h"
#include "search/jobs/Queue.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace heterplan::jobs {

/// The content of a jobs file.
struct Workload {
  Seconds slot{1};
  int slots = 1;
  std::vector<Job> jobs;
  std::vector<Queue> queues = {};
};

/// Workers and servers of one job on one site in one slot.
struct Row {
  int site = 0;
  int64_t workers = 0, servers = 0;
  bool operator==(const Row &) const = default;
};
using Rows = std::vector<Row>; // of one job and slot; a site at most once

class Problem {
public:
  /// Fails (located) when a job demands a resource that no node states, names a device type that is
  /// not declared, or has no sample time for any device; when nodes times slots are too many.
  static llvm::Expected<Problem> create(Machines machines, Workload workload);

  const Machines &machines() const { return nodes; }
  const std::vector<Job> &jobs() const { return load.jobs; }
  const std::vector<Queue> &queues() const { return load.queues; }
  /// The queue of `job`, or -1.
  int queueOf(int job) const { return queueIndices[job]; }
  /// The amounts that schedules stay within in each slot: those of Machines::capacity(), then those
  /// of the quotas.
  const std::vector<double> &capacity() const { return amounts; }
  const std::vector<Quota> &quotas() const { return limits; }
  /// The index in capacity() of the first quota.
  int firstQuota() const { return static_cast<int>(nodes.capacity().size()); }
  /// Calls `use` with the index in capacity() of each quota against which an amount of `resource`
  /// counts that `job` has at `site`.
  template <typename Use> void forQuotas(int job, int site, int resource, Use use) const {
    for (int quota : quotasOfJob[job])
      if (limits[quota].resource == resource &&
          (limits[quota].gpuType < 0 || limits[quota].gpuType == nodes.sites()[site].gpuType))
        use(firstQuota() + quota);
  }
  bool hasQuotas(int job) const { return !quotasOfJob[job].empty(); }
  const Job &job(int index) const { return load.jobs[index]; }
  int size() const { return static_cast<int>(load.jobs.size()); }
  int slots() const { return load.slots; }
  Seconds slot() const { return load.slot; }
  /// Indices of the jobs in the order in which they are decided: by release, jobs before those that
  /// wait for them, priority, order of the file.
  const std::vector<int> &arrivals() const { return order; }
  /// The arrival of `job`, or the latest of the jobs that it waits for.
  int release(int job) const { return releases[job]; }
  /// The jobs that end before `job` starts.
  const std::vector<int> &before(int job) const { return dependencies[job]; }
  /// The last slot in which `job` may end: of the horizon, or of its hard deadline.
  int lastSlot(int job) const;

  /// Computing of one sample on a worker at a site of `kind`; infinite where it cannot run.
  Seconds sampleTime(int job, int kind) const { return times[job][kind]; }
  /// Whether `job` is faster at some sites than at others.
  bool hasUnequalSites(int job) const;
  /// Samples that one worker at a site of `kind` trains in a slot over `bandwidth`:
  /// slot / (τ + γ/F·2·g/b). PD-ORS (Yu et al., arXiv 2108.02917), equation (1).
  double samplesOfWorker(int job, int kind, BytesPerSecond bandwidth) const;
  /// The bandwidth that the rows of a job in a slot see: the node's link where they are on one
  /// node, else the network of their zone, else that between zones.
  BytesPerSecond bandwidth(llvm::ArrayRef<Row> rows) const;
  /// The samples that all rows of a job in a slot train together, if the job does not restart.
  double samplesOf(int job, llvm::ArrayRef<Row> rows) const;
  /// The share of a slot that is left when the job restarts.
  double restartShare(int job) const { return 1 - load.jobs[job].restart / slot(); }
  /// Samples of a slot with `rows` after one with `previous`: unless the rows are the same, the job
  /// restarts. Rows are by site.
  double samplesIn(int job, const Rows &rows, const Rows &previous) const {
    return samplesOf(job, rows) * (rows == previous ? 1 : restartShare(job));
  }
  /// The device type of workers of `job` at `site`: equal numbers are equal types.
  int typeAt(int job, int site) const;
  /// How many types there are.
  int types(int job) const;
  /// On how many nodes `job` may be in a slot.
  int mostNodes(int job) const;

  /// Whether `job` can have workers (servers) at `site` at all, given enough of what is free there.
  bool takesWorkers(int job, int site) const;
  bool takesServers(int job, int site) const;
  /// Node `node` has nothing from here on.
  void takeDown(int node);
  /// How many kinds of workers `job` may have: see Job::choices.
  int choices(int job) const { return std::max(1, int(load.jobs[job].choices.size())); }
  /// The workers of `job` are those of `choice`.
  void setChoice(int job, int choice);
  /// The same problem with a job for each choice of each job, and the job of this problem that each
  /// is. Jobs wait for no others.
  std::pair<Problem, std::vector<int>> withChoicesApart() const;
  /// So many samples of `job` are trained already.
  void setDone(int job, double samples) { load.jobs[job].done = samples; }

  /// Takes what `rows` need from `free` (by index of capacity()), or gives it back if `sign` is -1.
  void take(int job, llvm::ArrayRef<Row> rows, std::vector<double> &free, int sign = 1) const;

private:
  Problem(Machines machines, Workload workload)
      : nodes(std::move(machines)), load(std::move(workload)) {}
  llvm::Error check(const Job &job) const;
  llvm::Error checkRules(const Job &job) const;
  void settle(Job &job) const;
  llvm::Error findQueues();
  llvm::Error addQuotas(const Queue &queue);
  void addCohorts();
  void addQuota(const Quota &quota, std::vector<int> queues);
  llvm::Error findDependencies();
  llvm::Error orderDependencies();
  void index();
  double timeAt(const Job &job, const Site &site) const;
  std::vector<Seconds> timesOf(const Job &job) const;

  Machines nodes;
  Workload load;
  std::vector<int> order, releases, depths, queueIndices;
  std::vector<double> amounts;
  std::vector<Quota> limits;
  std::vector<std::vector<int>> queuesOfQuota; // of one queue, or of all of a cohort
  std::vector<std::vector<int>> quotasOfJob;   // indices into `limits`
  std::vector<std::vector<int>> dependencies;
  std::vector<std::vector<Seconds>> times; // by job and kind
};

/// Whether `done` samples are all of `job`'s work, up to rounding.
bool isDone(const Job &job, double done);

} // namespace heterplan::jobs
