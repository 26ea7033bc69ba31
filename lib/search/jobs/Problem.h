// What is to be scheduled: jobs on machines over slots. All facts that policies, bounds and files
// share are asked here, so that speed and capacity are stated once.
#pragma once

#include "search/jobs/Machines.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace heterplan::jobs {

/// What a jobs file holds.
struct Workload {
  Seconds slot{1};
  int slots = 1;
  std::vector<Job> jobs;
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
  const Job &job(int index) const { return load.jobs[index]; }
  int size() const { return static_cast<int>(load.jobs.size()); }
  int slots() const { return load.slots; }
  Seconds slot() const { return load.slot; }
  /// Indices of the jobs as they arrive: by slot, priority, order of the file.
  const std::vector<int> &arrivals() const { return order; }

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
  /// What all rows of a job in a slot train together.
  double samplesOf(int job, llvm::ArrayRef<Row> rows) const;

  /// Whether `job` can have workers (servers) at `site` at all, given enough of what is free there.
  bool takesWorkers(int job, int site) const;
  bool takesServers(int job, int site) const;
  /// Node `node` has nothing from here on.
  void takeDown(int node) { nodes.takeDown(node); }
  /// So many samples of `job` are trained already.
  void setDone(int job, double samples) { load.jobs[job].done = samples; }

  /// Takes what `rows` need from `free` (by resource), or gives it back if `sign` is -1.
  void take(int job, llvm::ArrayRef<Row> rows, std::vector<double> &free, int sign = 1) const;

private:
  Problem(Machines machines, Workload workload)
      : nodes(std::move(machines)), load(std::move(workload)) {}
  llvm::Error check(const Job &job) const;
  void index();
  double timeAt(const Job &job, const Site &site) const;

  Machines nodes;
  Workload load;
  std::vector<int> order;
  std::vector<std::vector<Seconds>> times; // by job and kind
};

/// Whether `done` samples are all of `job`'s work, up to rounding.
bool isDone(const Job &job, double done);

} // namespace heterplan::jobs
