// Policies that know no future: in each slot they share the cluster among the jobs that are there.
// A job that ends before the horizon keeps what it got; one that does not is declined.
#pragma once

#include "search/jobs/SlotOptions.h"
#include "search/jobs/policy/Policy.h"

#include <map>
#include <vector>

namespace heterplan::jobs {

/// The state that a policy sees at the start of a slot.
struct SlotView {
  const Problem &problem;
  int slot;
  const std::vector<int> &active;     // arrived, not done and free to move, by arrival
  const std::vector<double> &free;    // by resource: what jobs that must not move leave
  const std::vector<double> &left;    // samples, by job
  const std::vector<double> &most;    // samples of a slot of the empty cluster, by job
  const std::vector<Rows> &previous;  // of the slot before, by job
  const std::vector<double> &weights; // cost of a unit, by resource: the share of all there is
  /// Slots in which a job had workers on a device type so far, by job and type.
  const std::vector<std::map<int, double>> &received;
};

class SlotPolicy : public Policy {
public:
  PolicyResult run(const Problem &problem, const PolicyOptions &options) const final;

protected:
  /// Fills in `rows`, by job; they are empty.
  virtual void allocate(const SlotView &view, std::vector<Rows> &rows) const = 0;
};

/// As many workers as `job` can use of what is `free`: until it is done, all that fit, or
/// `workers`, and at least its minimum or none. Takes them from `free`. Sites of less cost come
/// first: `weights`, or those of the view. A job keeps the rows of the slot before where it gains
/// nothing by others, restarts included.
Rows takeMost(const SlotView &view, int job, std::vector<double> &free,
              int64_t workers = std::numeric_limits<int64_t>::max());
Rows takeMost(const SlotView &view, int job, std::vector<double> &free,
              const std::vector<double> &weights, int64_t workers);

/// Workers of `job` that the nodes of device type `type` hold together, at most its batch a node.
int64_t workersOnType(const Problem &problem, int job, int type);
/// Samples of a worker of `job` in a slot on its fastest node of device type `type`.
double samplesOnType(const Problem &problem, int job, int type);
/// Like takeMost(), with all workers on device type `type`.
Rows takeOnType(const SlotView &view, int job, int type, int64_t workers,
                std::vector<double> &free);

/// Most samples of `job` in a slot of an empty cluster.
double mostSamples(const Problem &problem, int job, const std::vector<double> &weights);

int64_t workersOf(const Rows &rows);

/// Why a job that cannot end in time is declined.
std::string inTime(const Problem &problem, int job);

/// For each resource of a node one over what the cluster has of it (GPUs by type).
std::vector<double> shareWeights(const Problem &problem);

} // namespace heterplan::jobs
