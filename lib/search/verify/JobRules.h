// The rules of a schedule of jobs as formulas, about amounts that are known or to be found.
#pragma once

#include "search/verify/JobSchedule.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <functional>

namespace heterplan {

/// A node and, of its GPUs, one type.
struct JobPlace {
  int node = 0;
  std::string gpuType; // "": the node has no GPUs
  int64_t gpus = 0;
  bool isFirst = true; // of its node: where work without GPUs is counted
};

struct JobNode {
  std::string name;
  const NodeGroup *group = nullptr;
  int zone = -1;
  double cores = 0, memory = 0;
  std::vector<std::string> cpuTypes;
  bool hasSeveralTypes = false;
};

/// Workers (or servers) of a job in a slot at a place.
using JobAmount = std::function<Formula(int job, int slot, int place, bool servers)>;

/// The rules of docs/schedule.md about amounts that are either known or to be found.
class JobRules {
public:
  static constexpr double workRounding = 1e-9, ratioRounding = 1e-12;

  explicit JobRules(const StatedJobs &stated) : stated(stated) {
    for (const NodeGroup &group : stated.cluster.nodes)
      for (int i = 0; i < group.count; ++i)
        addNode(group, i);
  }

  const std::vector<JobPlace> &places() const { return all; }
  /// The place that a row names, or -1.
  int placeOf(const StatedRow &row) const {
    for (int place = 0; place < int(all.size()); ++place) {
      const JobNode &node = nodes[all[place].node];
      if (node.name == row.node && row.type == (node.hasSeveralTypes ? all[place].gpuType : ""))
        return place;
    }
    return -1;
  }
  bool canWorkAt(int job, int place) const { return timeAt(job, place).has_value(); }

  /// Samples of `job` in `slot`: a variable, which locality() defines.
  Formula samples(int job, int slot) const {
    return Formula::real("samples of job " + std::to_string(job) + " in " + std::to_string(slot));
  }
  Formula samplesUpTo(int job, int slot) const {
    std::vector<Formula> terms{Formula::integer(0)};
    for (int each = stated.jobs[job].arrival; each <= std::min(slot, stated.slots - 1); ++each)
      terms.push_back(samples(job, each));
    return Formula::sum(std::move(terms));
  }
  Formula isDone(int job, int slot) const {
    return Formula::atMost(
        Formula::product(Formula::number(stated.jobs[job].work), Formula::number(1 - workRounding)),
        samplesUpTo(job, slot));
  }

  Formula locality(int job, int slot, const JobAmount &amount) const;
  /// The rules of `job` in `slot` beside counts and capacities: device types, nodes, moves, and the
  /// jobs that it waits for.
  std::vector<Part> rules(int job, int slot, const JobAmount &amount) const;
  std::vector<Part> capacities(const JobAmount &amount) const;
  /// The quotas of queues and of cohorts in every slot.
  std::vector<Part> quotas(const JobAmount &amount) const;
  Part counts(int job, int slot, const JobAmount &amount) const;
  Formula workers(int job, int slot, const JobAmount &amount, bool servers = false) const {
    std::vector<Formula> terms{Formula::integer(0)};
    for (int place = 0; place < int(all.size()); ++place)
      terms.push_back(amount(job, slot, place, servers));
    return Formula::sum(std::move(terms));
  }

private:
  void addNode(const NodeGroup &group, int index);
  std::optional<Seconds> timeAt(int job, int place) const;
  Formula worked(int job, int slot, const JobAmount &amount, BytesPerSecond bandwidth) const;
  Formula within(int job, int slot, const JobAmount &amount,
                 llvm::function_ref<bool(const JobNode &)> inside) const;
  Formula sameAsBefore(int job, int slot, const JobAmount &amount) const;
  Formula oneType(int job, int slot, const JobAmount &amount) const;
  Formula fewNodes(int job, int slot, const JobAmount &amount) const;
  Formula taken(int slot, const JobAmount &amount, int node,
                llvm::function_ref<double(const StatedJobs::Demand &)> demand, int place) const;
  bool isDown(const JobNode &node, int slot) const;
  /// Limits by resource: "gpu", "cpu" (thousandths of a core), "memory", "type NAME".
  using Limits = std::map<std::string, double>;
  static Limits limitsOf(const StatedJobs::Amounts &amounts);
  Limits quotaOf(const StatedJobs::Queue &queue) const;
  Formula takenBy(int queue, const std::string &what, int slot, const JobAmount &amount) const;
  void addQueue(int queue, std::vector<Part> &parts, const JobAmount &amount) const;

  const StatedJobs &stated;
  std::vector<JobNode> nodes;
  std::vector<JobPlace> all;
};

} // namespace heterplan
