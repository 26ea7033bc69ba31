// The policies. Those that decide slot by slot differ in one function.
#pragma once

#include "search/jobs/policy/Policy.h"
#include "search/jobs/policy/SlotPolicy.h"

namespace heterplan::jobs {

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

} // namespace heterplan::jobs
