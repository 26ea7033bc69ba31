// The exponential unit costs of PD-ORS: for each machine, resource and slot, by how much of it is
// taken. They tell an arriving job what it keeps others from. ("Price" is the publication's word.)
#pragma once

#include "search/jobs/AlikeSites.h"
#include "search/jobs/Problem.h"

#include <optional>
#include <vector>

namespace heterplan::jobs {

/// μ = 5.
constexpr double usualPriceScale = 0.1;

/// The ends between which prices rise, from the jobs that are known: of a unit (a core, a GiB, a
/// GPU) for one slot.
struct PriceLimits {
  double least = 1;                     // L
  std::array<double, resources> most{}; // U^r ≥ L
  bool operator==(const PriceLimits &) const = default;
};

/// U^r = max_i u_i(earliest) / (units·slots of r that i takes);
/// L = scale·min_i u_i(earliest) / (units·slots of all r that i takes), where a job takes what it
/// needs on its fastest device and has the cluster to itself. Jobs that cannot end before the
/// horizon, or are worth nothing then, are left out. `scale` is 1/(2μ) of section IV: an empty
/// cluster charges a job at least that part of what it is worth.
PriceLimits priceLimits(const Problem &problem, llvm::ArrayRef<int> jobs,
                        double scale = usualPriceScale);

/// How far the limits of loadPriceLimits() are from those of the jobs.
struct LoadShares {
  double ofMarginal = 0.3, ofMost = 0.03;
};

/// Limits from the load that is seen, which no proof covers. The jobs of most utility per unit are
/// counted until they ask for half of what the cluster has over all slots: L is at least
/// `ofMarginal` of the utility per unit of the last of them, so that jobs that are worth much less
/// are declined at once. U^r is `ofMost` times that of priceLimits(): one job of great worth does
/// not make the rest of a node dear.
PriceLimits loadPriceLimits(const Problem &problem, llvm::ArrayRef<int> jobs,
                            double scale = usualPriceScale, const LoadShares &shares = {});

/// The delay at which half of the jobs have lost half of their utility, in slots; at least 1 and at
/// most the horizon.
int patienceOf(const Problem &problem, llvm::ArrayRef<int> jobs);

class Prices {
public:
  Prices(const Problem &problem, PriceLimits limits);

  /// Costs of a unit by slot and resource, which stay as they are whatever is taken.
  Prices(const Problem &problem, std::vector<std::vector<double>> costs);

  /// The price of a unit, by resource: L·(U^r/L)^(ρ/C); infinite where C is 0 (Yu et al., section
  /// IV).
  llvm::ArrayRef<double> inSlot(int slot) const { return prices[slot]; }
  llvm::ArrayRef<double> freeIn(int slot) const { return free[slot]; }
  /// How they rise: an amount a more makes them e^(growth·a) times as high, in every slot.
  llvm::ArrayRef<double> growth() const { return rises; }
  /// All of the above. Costs less where the slot is as it was at the last call.
  SlotState stateOf(int slot) const;
  /// It is slot `now`: prices of the next `slots` slots fall, to a twentieth in slot `now` itself,
  /// since few jobs are still to come that could use them. Each slot has its full price again if it
  /// is farther away.
  void discountFrom(int now, int slots);
  /// Whether anything was taken in `slot`, or its prices were discounted: slots that are not
  /// touched are alike.
  bool isTouched(int slot) const { return touched[slot]; }
  /// The rows take what they need; prices rise.
  void take(int job, int slot, const Rows &rows);
  /// The rows give back what they took.
  void giveBack(int job, int slot, const Rows &rows);
  const PriceLimits &limits() const { return ends; }
  /// A lower bound on the price of a unit in any slot that is not past.
  double least() const { return lowest * ends.least; }

private:
  void update(int slot, int resource);
  void changed(int slot, const Rows &rows);

  const Problem &problem;
  PriceLimits ends;
  std::vector<std::vector<double>> free, prices; // by slot and resource
  std::vector<double> rises;                     // by resource
  std::vector<bool> touched;                     // by slot
  double lowest = 1;                             // of the discounts
  std::vector<double> discounts;                 // by slot: factors on prices; empty: 1
  bool isFixed = false;
  mutable std::vector<std::optional<AlikeSites>> alike; // by slot; none where it has changed
};

} // namespace heterplan::jobs
