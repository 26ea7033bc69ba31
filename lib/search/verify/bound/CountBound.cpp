#include "search/verify/bound/CountBound.h"

#include "search/verify/bound/StateBound.h"

#include "llvm/ADT/ArrayRef.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largestMultiplier = 1e100; // sums of larger ones might be infinite

/// The cells of a number of micro-batches with their multipliers: intervals of iterations, and in
/// each of them intervals of the slowest stage. They cover everything from `slowest` seconds on.
class Cells {
public:
  Cells(ArrayRef<CertifiedInterval> intervals, const StageList &list, const BoundTarget &target,
        size_t types)
      : types(types) {
    std::map<double, std::map<double, std::vector<double>>> sorted;
    sorted[0];
    for (const CertifiedInterval &each : intervals)
      if (isAmount(each.iterationAbove) && isAmount(each.slowestAbove))
        sorted[each.iterationAbove][each.slowestAbove] = multipliersOf(each);
    for (auto slab = sorted.begin(); slab != sorted.end(); ++slab) {
      auto next = std::next(slab);
      const double most = next == sorted.end() ? infinity : next->first;
      auto &rows = slab->second;
      rows.try_emplace(0, std::vector<double>(types + 2, 0));
      for (auto row = rows.begin(); row != rows.end(); ++row) {
        auto above = std::next(row);
        const double high = above == rows.end() ? infinity : above->first;
        if (high <= list.slowest)
          continue;
        cells.push_back({row->first, high, slab->first, std::min(most, target.limits.iteration)});
        multipliers.push_back(row->second);
      }
    }
  }

  std::vector<BoundCell> cells;
  std::vector<std::vector<double>> multipliers;

private:
  static bool isAmount(double value) { return value >= 0 && std::isfinite(value); }
  /// Multipliers that make no sense are 0.
  std::vector<double> multipliersOf(const CertifiedInterval &interval) const {
    std::vector<double> result(types + 2, 0);
    for (size_t type = 0; type < std::min(types, interval.devices.size()); ++type)
      result[type] = interval.devices[type];
    result[types] = interval.budget;
    result[types + 1] = interval.seconds;
    for (double &each : result)
      if (!isAmount(each) || each > largestMultiplier)
        each = 0;
    return result;
  }
  size_t types;
};

/// Branches on the slowest stage and the iteration where the bound of a cell is weak.
class CellTree {
public:
  CellTree(const StageList &list, const BoundTarget &target, double goal, size_t most)
      : list(list), target(target), goal(goal), most(most) {}

  /// A lower bound of the cell's plans, or the goal if that is less. `least`: another bound.
  double bound(NeighbourBound &&paths, double least) {
    if (work >= most)
      return least;
    const CellHalves halves(paths.ofCell(), list, target);
    least = std::max(least, paths.improve(halves.widest() > wide ? fewSteps : manySteps, work));
    const bool isNarrow = !(halves.widest() > worthHalving);
    least = std::max(least, byStates(paths, least, isNarrow));
    if (least >= goal || isNarrow)
      return least;
    BoundCell lower = paths.ofCell(), upper = lower;
    if (halves.byTime > halves.bySlowest)
      lower.most = upper.least = halves.time;
    else
      lower.high = upper.low = halves.slowest;
    double both = goal;
    for (BoundCell part : {lower, upper}) {
      part = tightened(part, list);
      if (!isBeyond(part, list, target))
        both = std::min(both, bound(NeighbourBound(paths, part), least));
    }
    return both;
  }
  size_t worked() const { return work; }

private:
  static constexpr double wide = 0.03, worthHalving = 4e-3, near = 0.985, farthest = 0.9;
  static constexpr int fewSteps = 16, manySteps = 32;
  static constexpr size_t fewStates = 256, manyStates = 2048;

  /// States cost more than halving the cell: they are worth it near the goal, or in the end.
  double byStates(const NeighbourBound &paths, double least, bool isNarrow) {
    if (least >= goal || least < goal * (isNarrow ? farthest : near))
      return least;
    const StateBound states(paths);
    least = std::max(least, states.value(fewStates, most, work));
    if (least < goal && isNarrow)
      least = std::max(least, states.value(manyStates, most, work));
    return least;
  }

  const StageList &list;
  const BoundTarget &target;
  const double goal;
  const size_t most;
  size_t work = 0;
};

StageList listOf(int microBatches, StageBounds &bounds, const BoundTarget &target, double enough) {
  StageList list = bounds.begin(microBatches);
  if (target.ofBlocks(list) < enough)
    bounds.addStages(list, target.limits);
  return list;
}
} // namespace

CountBound::CountBound(int microBatches, const Certificate &certificate, StageBounds &bounds,
                       const BoundTarget &target, double enough)
    : bounds(bounds), target(target), list(listOf(microBatches, bounds, target, enough)),
      blocks(target.ofBlocks(list)) {
  if (blocks >= enough)
    return;
  std::vector<CertifiedInterval> intervals;
  for (const CertifiedInterval &each : certificate.intervals)
    if (each.microBatches == microBatches)
      intervals.push_back(each);
  PathBound paths(bounds, list, target.paysMoney);
  Cells all(intervals, list, target, bounds.ofCluster().types.size());
  for (size_t i = 0; i < all.cells.size(); ++i) {
    const BoundCell cell = tightened(all.cells[i], list);
    if (isBeyond(cell, list, target))
      continue;
    keepLimited(paths, cell, all.multipliers[i]);
    cells.push_back({cell, paths.value(cell, all.multipliers[i]), all.multipliers[i]});
  }
}

double CountBound::bound() const {
  double least = infinity;
  for (const Cell &each : cells)
    least = std::min(least, each.bound);
  return std::min(target.alone(list), std::max(blocks, least));
}

size_t CountBound::improve(double goal, size_t most) {
  goal = std::min(goal, target.alone(list));
  if (bound() >= goal)
    return 0;
  CellTree tree(list, target, goal, most);
  for (Cell &each : cells)
    if (each.bound < goal && tree.worked() < most)
      each.bound = tree.bound(
          NeighbourBound(bounds, list, target.paysMoney, each.cell, each.multipliers, goal),
          each.bound);
  return tree.worked();
}

} // namespace heterplan
