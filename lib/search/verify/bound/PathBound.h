// The Lagrangian relaxation that a certificate rests on: a shortest path over the cuts, on which
// stages pay for devices, money and seconds. Any multipliers that are not negative give a lower
// bound (Geoffrion, 1974), so that a wrong certificate cannot make a false one.
#pragma once

#include "search/verify/bound/StageBounds.h"

#include <vector>

namespace heterplan {

/// Pipelines whose slowest stage takes more than `low` and at most `high` seconds, and whose
/// iteration more than `least` and at most `most`.
struct BoundCell {
  double low = 0, high = 0, least = 0, most = 0;
};

/// The value of a relaxation, and how far its path exceeds each limit, relative: a subgradient.
struct PathValue {
  double bound = 0;
  std::vector<double> surplus; // by multiplier
};

class PathBound {
public:
  /// Both outlive this. `paysMoney`: bounds are on price per hour times iteration, else on the
  /// iteration.
  PathBound(const StageBounds &bounds, const StageList &list, bool paysMoney);

  /// Multipliers: one for each device type, one for the budget, one for seconds.
  size_t multipliers() const { return resources + 1; }
  /// Whether the multiplier of a resource may be positive: there is some of it, and a limit.
  bool isLimited(size_t multiplier, const BoundCell &cell) const;
  /// A lower bound on what each plan of the cell takes; infinite if it has no plan.
  double value(const BoundCell &cell, const std::vector<double> &multipliers);
  /// The same with the path.
  PathValue solve(const BoundCell &cell, const std::vector<double> &multipliers);
  /// The least slowest stage of any path.
  double leastSlowest() const;
  size_t work() const { return list.stages.size(); }

private:
  struct Reached {
    double least = 0;
    int stage = -1;         // index into the list
    bool isForward = false; // whether the stage before is where forward times are least
  };
  double own(const StageBound &stage, const BoundCell &cell) const;
  void reach(const BoundCell &cell, const std::vector<double> &multipliers);
  std::vector<double> surplusOf(const BoundCell &cell) const;
  double secondsOf(const BoundCell &cell) const;

  const StageBounds &bounds;
  const StageList &list;
  const bool paysMoney;
  const size_t resources;             // device types and the budget
  std::vector<double> shares;         // by choice and resource
  std::vector<double> charges;        // by choice
  std::vector<Reached> fill, forward; // by cut
};

} // namespace heterplan
