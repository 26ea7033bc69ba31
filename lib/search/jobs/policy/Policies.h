// The policies. Policies that decide slot by slot differ in one function.
#pragma once

#include "search/jobs/policy/Policy.h"
#include "search/jobs/policy/SlotPolicy.h"

namespace heterplan::jobs {

/// The best schedule of several policies and of inserting the jobs one after another, improved by
/// taking jobs out and inserting them again. It knows all jobs.
class Auto : public Policy {
public:
  PolicyResult run(const Problem &problem, const PolicyOptions &options) const override;
};

/// Primal-dual online scheduling (Yu et al., arXiv 2108.02917): each arriving job gets the schedule
/// of least cost at the present prices, if it is worth more than that, and prices rise.
class PdOrs : public Policy {
public:
  PolicyResult run(const Problem &problem, const PolicyOptions &options) const override;
};

/// In order of arrival, each job gets as many workers as it can use.
class Fifo : public SlotPolicy {
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// The job that would be done first with the cluster to itself goes first.
class Srtf : public SlotPolicy {
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// Equal dominant shares (Ghodsi et al., NSDI 2011): counts of workers by progressive filling over
/// the cluster as a whole, then placed; what is left goes to the jobs with the smallest shares.
class Drf : public SlotPolicy {
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// Fair shares with few changes (Sun et al., Dorm, 2017): jobs keep what they have; when jobs come
/// or go, a fifth of the running ones, those farthest from their fair share, are placed anew.
class Dorm : public SlotPolicy {
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// PD-ORS without locality (Bao et al., OASiS, INFOCOM 2018): workers and servers are always spread
/// over nodes, greedily.
class Oasis : public Policy {
public:
  PolicyResult run(const Problem &problem, const PolicyOptions &options) const override;
};

/// The objectives of Gavel's linear models: the least throughput relative to an equal share, the
/// sum of throughputs relative to the fastest type, or that sum over the prices of the devices,
/// with deadlines as constraints unless they cannot all be met.
enum class GavelObjective { MaxMin, Sum, Cost };

/// Gavel (Narayanan et al., OSDI 2020) with its max-min fairness: a linear model gives each job a
/// share of time on each device type, and in each slot the jobs that are behind these shares go
/// first. A job has all of its workers on one type, or none.
class Gavel : public SlotPolicy {
public:
  explicit Gavel(GavelObjective objective = GavelObjective::MaxMin) : objective(objective) {}

private:
  GavelObjective objective;
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// Gavel with the largest sum of throughputs.
class GavelSum : public Gavel {
public:
  GavelSum() : Gavel(GavelObjective::Sum) {}
};

/// Gavel with the most throughput for the price of the devices, where jobs end by their deadlines.
class GavelCost : public Gavel {
public:
  GavelCost() : Gavel(GavelObjective::Cost) {}
};

/// Max-min fairness of throughput over device types (Narayanan et al., Gavel, OSDI 2020): a linear
/// model gives each job workers of each type; jobs that are behind their share go first.
class GavelLike : public SlotPolicy {
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// Finish-time fairness (Mahajan et al., Themis, NSDI 2020): in each slot, the fifth of the jobs
/// that are farthest behind an equal share of the cluster bid for workers; the product of their
/// finish-time fairness becomes least. The others share the rest, the worst first. Jobs
/// are taken to be honest: there are no hidden payments.
class ThemisLike : public SlotPolicy {
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// Goodput (Jayaram Subramanya et al., Sia, SOSP 2023): in each slot, an integer model chooses a
/// device type and a number of workers for each job, so that Σ (goodput / least goodput)^p with
/// p = −0.5 is least, with a penalty for jobs without workers.
class SiaLike : public SlotPolicy {
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// Fair share among queues: in each slot, each queue gets its quota as far as it can use it, and
/// then the queues of a cohort borrow. The queue with the least dominant share over its weight is
/// served first; its jobs by arrival.
class FairShareOfQueues : public SlotPolicy {
  void allocate(const SlotView &view, std::vector<Rows> &rows) const override;
};

/// The best schedule with knowledge of all arrivals: a mixed integer model, solved by Cbc from the
/// best schedule of the other policies; that one where the model is too large or ends unsolved.
class Offline : public Policy {
public:
  PolicyResult run(const Problem &problem, const PolicyOptions &options) const override;
};

} // namespace heterplan::jobs
