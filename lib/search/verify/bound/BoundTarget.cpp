#include "search/verify/bound/BoundTarget.h"

#include <algorithm>
#include <limits>

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double safety = 1 - 1e-9;
} // namespace

BoundTarget::BoundTarget(const Plan &plan, const StageBounds &bounds) {
  paysMoney = plan.objective == Objective::Cost;
  limits.iteration = bounds.longestIteration();
  if (paysMoney) {
    reached = plan.objectiveValue * 3600 * double(plan.globalBatch.value()) / 1e6;
    limits.paid = reached;
    double cheapest = infinity; // a device
    for (int type = 0; type < int(bounds.ofCluster().types.size()); ++type)
      if (bounds.available(type) > 0)
        cheapest = std::min(cheapest, bounds.ofCluster().types[size_t(type)].price.value());
    if (cheapest > 0)
      limits.iteration = std::min(limits.iteration, reached / cheapest);
  } else {
    reached = double(plan.globalBatch.value()) / plan.objectiveValue;
    limits.iteration = std::min(limits.iteration, reached);
  }
}

double BoundTarget::ofBlocks(const StageList &list) const {
  const double time = list.timeBefore.back() + (list.microBatches - 1) * list.slowest;
  if (time * safety > limits.iteration)
    return infinity;
  return (paysMoney ? list.paidBefore.back() : time) * safety;
}

BoundCell tightened(BoundCell cell, const StageList &list) {
  cell.low = std::max(cell.low, list.slowest);
  cell.least =
      std::max(cell.least, (list.timeBefore.back() + (list.microBatches - 1) * cell.low) * safety);
  return cell;
}

bool isBeyond(const BoundCell &cell, const StageList &list, const BoundTarget &target) {
  return cell.least * safety > std::min(cell.most, target.limits.iteration) ||
         cell.low > cell.high || (list.microBatches - 1) * cell.low >= cell.most;
}

void keepLimited(const PathBound &paths, const BoundCell &cell, std::vector<double> &multipliers) {
  for (size_t i = 0; i < multipliers.size(); ++i)
    if (!paths.isLimited(i, cell))
      multipliers[i] = 0;
}

CellHalves::CellHalves(const BoundCell &cell, const StageList &list, const BoundTarget &target) {
  const int m = list.microBatches;
  double high = cell.high;
  if (m > 1) {
    high = std::min({high, cell.most / m, (cell.most - list.timeBefore.back()) / (m - 1)});
    bySlowest = (m - 1) * (high - cell.low) / cell.most;
  }
  if (target.paysMoney)
    byTime = (cell.most - cell.least) / cell.most;
  slowest = (cell.low + high) / 2;
  time = (cell.least + cell.most) / 2;
}

} // namespace heterplan
