// The policies that decide slot by slot.
#include "search/jobs/policy/Policies.h"

namespace heterplan::jobs {

void Fifo::allocate(const SlotView &view, std::vector<Rows> &rows) const {
  std::vector<double> free = view.problem.machines().capacity();
  for (int job : view.active)
    rows[job] = takeMost(view, job, free);
}

} // namespace heterplan::jobs
