#include "search/verify/bound/CountBound.h"

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
  for (const RootCell &each : cells)
    least = std::min(least, each.bound);
  return std::min(target.alone(list), std::max(blocks, std::max(least, reached)));
}

size_t CountBound::improve(double goal, size_t most) {
  goal = std::min(goal, target.alone(list));
  mayImprove = bound() < goal;
  if (!mayImprove)
    return 0;
  if (!tree || tree->ofGoal() != goal)
    tree = std::make_unique<CellTree>(bounds, list, target, cells, goal);
  const size_t work = tree->improve(most);
  reached = std::max(reached, tree->bound());
  mayImprove = tree->isOpen();
  if (!mayImprove)
    tree.reset();
  return work;
}

} // namespace heterplan
