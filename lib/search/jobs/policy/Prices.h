// The exponential unit costs of PD-ORS: for each machine, resource and slot, by how much of it is
// taken. They tell an arriving job what it keeps others from. ("Price" is the publication's word.)
#pragma once

#include "search/jobs/Problem.h"

#include <vector>

namespace heterplan::jobs {

/// The ends between which prices rise, from the jobs that are known: of a unit (a core, a GiB, a
/// GPU) for one slot.
struct PriceLimits {
  double least = 1;                    // L
  std::array<double, resources> most{}; // U^r ≥ L
  bool operator==(const PriceLimits &) const = default;
};

/// U^r = max_i u_i(earliest) / (units·slots of r that i takes);
/// L = min_i (least positive u_i before the horizon) / (units·slots of all r that i takes), where a
/// job takes what it needs on its fastest device, alone. Jobs that cannot run are left out.
PriceLimits priceLimits(const Problem &problem, llvm::ArrayRef<int> jobs);

class Prices {
public:
  Prices(const Problem &problem, PriceLimits limits);

  /// Of a unit, by resource: L·(U^r/L)^(ρ/C); infinite where C is 0 (Yu et al., section IV).
  llvm::ArrayRef<double> inSlot(int slot) const { return prices[slot]; }
  llvm::ArrayRef<double> freeIn(int slot) const { return free[slot]; }
  /// The rows take what they need; prices rise.
  void take(int job, int slot, const Rows &rows);
  const PriceLimits &limits() const { return ends; }

private:
  void update(int slot, int resource);

  const Problem &problem;
  PriceLimits ends;
  std::vector<std::vector<double>> free, prices; // by slot and resource
};

} // namespace heterplan::jobs
