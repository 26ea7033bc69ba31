#include "search/verify/bound/OptimalityBound.h"

#include "search/verify/bound/PathBound.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double safety = 1 - 1e-9;
constexpr double goodEnough = 1 - 1e-3; // of the plan: gaps below that are not worth work
constexpr double intervalRatio = 1.3;
constexpr size_t mostFirstIntervals = 24;
constexpr int firstSteps = 40, laterSteps = 12;
constexpr size_t mostCells = 96;                             // of one number of micro-batches
constexpr size_t mostWork = 100'000'000;                     // stages on paths, of a certificate
constexpr size_t mostIntervals = mostCertifiedIntervals / 2; // the last split may double them
constexpr double worthSplitting = 1e-3;                      // of the iteration

/// The figures that bounds are compared with, in the units of PathBound.
struct Target {
  bool paysMoney = false;
  double reached = 0; // by the plan
  BoundLimits limits;

  Target(const Plan &plan, const StageBounds &bounds) {
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
  double alone(const StageList &list) const {
    return paysMoney ? list.leastAlonePaid : list.leastAloneIteration;
  }
  /// A bound from blocks of layers alone, of stages with one device type.
  double ofBlocks(const StageList &list) const {
    const double time = list.timeBefore.back() + (list.microBatches - 1) * list.slowest;
    if (time * safety > limits.iteration)
      return infinity;
    return (paysMoney ? list.paidBefore.back() : time) * safety;
  }
};

/// The cells of a number of micro-batches with their multipliers: intervals of iterations, and in
/// each of them intervals of the slowest stage. They cover everything from `slowest` seconds on.
class Cells {
public:
  Cells(ArrayRef<CertifiedInterval> intervals, const StageList &list, const Target &target,
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
      if (!isAmount(each))
        each = 0;
    return result;
  }
  size_t types;
};

/// Multipliers of resources without a limit count nothing.
void keepLimited(const PathBound &paths, const BoundCell &cell, std::vector<double> &multipliers) {
  for (size_t i = 0; i < multipliers.size(); ++i)
    if (!paths.isLimited(i, cell))
      multipliers[i] = 0;
}

/// An iteration fills the pipeline once, and goes m − 1 times through the slowest stage.
BoundCell tightened(BoundCell cell, const StageList &list) {
  cell.low = std::max(cell.low, list.slowest);
  cell.least =
      std::max(cell.least, (list.timeBefore.back() + (list.microBatches - 1) * cell.low) * safety);
  return cell;
}

/// The cell has no plan below the limits.
bool isBeyond(const BoundCell &cell, const StageList &list, const Target &target) {
  return cell.least * safety > std::min(cell.most, target.limits.iteration) ||
         cell.low > cell.high || (list.microBatches - 1) * cell.low >= cell.most;
}

/// A lower bound of the plans with so many micro-batches; at least `enough` if there is no need for
/// a better one.
double boundOf(int microBatches, const Certificate &certificate, StageBounds &bounds,
               const Target &target, double enough) {
  StageList list = bounds.begin(microBatches);
  const double blocks = target.ofBlocks(list);
  if (blocks >= enough)
    return std::min(blocks, target.alone(list));
  bounds.addStages(list, target.limits);
  std::vector<CertifiedInterval> intervals;
  for (const CertifiedInterval &each : certificate.intervals)
    if (each.microBatches == microBatches)
      intervals.push_back(each);
  PathBound paths(bounds, list, target.paysMoney);
  Cells cells(intervals, list, target, bounds.ofCluster().types.size());
  double least = infinity;
  for (size_t i = 0; i < cells.cells.size(); ++i) {
    const BoundCell cell = tightened(cells.cells[i], list);
    if (isBeyond(cell, list, target))
      continue;
    keepLimited(paths, cell, cells.multipliers[i]);
    least = std::min(least, paths.value(cell, cells.multipliers[i]));
  }
  return std::min(target.alone(list), std::max(blocks, least));
}
} // namespace

VerifiedBound OptimalityBound::verify(const Certificate &certificate) {
  const Plan &plan = bounds.ofPlan();
  VerifiedBound result;
  const Target target(plan, bounds);
  double least = target.reached;
  for (int microBatches : bounds.microBatches())
    least = std::min(least, boundOf(microBatches, certificate, bounds, target, least));
  least = std::max(0.0, least);
  if (target.paysMoney)
    result.bound = least / 3600 / double(plan.globalBatch.value()) * 1e6;
  else
    result.bound = double(plan.globalBatch.value()) / least;
  result.gap = std::abs(plan.objectiveValue - result.bound) / std::abs(plan.objectiveValue);
  return result;
}

namespace {
/// Finds multipliers for the cells of one number of micro-batches.
class Certifier {
public:
  /// With at most `cells` intervals, and about `most` work: stages that paths look at.
  Certifier(const StageList &list, const StageBounds &bounds, const Target &target, size_t most,
            size_t cells)
      : list(list), target(target), types(bounds.ofCluster().types.size()), most(most),
        cells(cells), paths(bounds, list, target.paysMoney) {}

  /// Appends the intervals, ascending. Returns the work that it took.
  size_t run(std::vector<CertifiedInterval> &intervals) {
    startCells();
    while (open.size() < cells && work < most) {
      auto deciding = std::min_element(
          open.begin(), open.end(), [](const Open &a, const Open &b) { return a.bound < b.bound; });
      if (deciding->bound >= goal() || !split(size_t(deciding - open.begin())))
        break;
    }
    llvm::sort(open, [](const Open &a, const Open &b) {
      return std::tie(a.cell.least, a.cell.low) < std::tie(b.cell.least, b.cell.low);
    });
    for (const Open &each : open)
      intervals.push_back(
          {list.microBatches, each.cell.least, each.cell.low,
           std::vector<double>(each.multipliers.begin(), each.multipliers.begin() + long(types)),
           each.multipliers[types], each.multipliers[types + 1]});
    return std::min(work, most);
  }

private:
  struct Open {
    BoundCell cell;
    double bound = 0;
    std::vector<double> multipliers;
  };

  double goal() const { return target.reached * goodEnough; }

  /// A geometric grid over the slowest stage.
  void startCells() {
    const double slowest = paths.leastSlowest();
    std::vector<double> lows{0};
    double low = std::isfinite(slowest) ? slowest : list.slowest;
    while (list.microBatches > 1 && low > 0 && lows.size() < mostFirstIntervals &&
           lows.size() < cells) {
      if ((list.microBatches - 1) * low + list.timeBefore.back() >= target.limits.iteration)
        break;
      lows.push_back(low);
      low *= intervalRatio;
    }
    std::vector<double> start(types + 2, 0);
    for (size_t i = lows.size(); i-- > 0;) {
      const double high = i + 1 < lows.size() ? lows[i + 1] : infinity;
      open.push_back({{lows[i], high, 0, target.limits.iteration}, 0, start});
      ascend(open.back(), firstSteps);
      start = open.back().multipliers;
    }
  }

  /// Polyak's steps towards the plan.
  void ascend(Open &of, int steps) {
    const BoundCell cell = tightened(of.cell, list);
    if (isBeyond(cell, list, target)) {
      of.bound = infinity;
      return;
    }
    std::vector<double> now = of.multipliers;
    keepLimited(paths, cell, now);
    double best = -infinity, stride = 1;
    int stalled = 0;
    for (int step = 0; step < steps && (step == 0 || work < most); ++step) {
      work += paths.work();
      const PathValue value = paths.solve(cell, now);
      stalled = value.bound > best + 1e-4 * target.reached ? 0 : stalled + 1;
      if (value.bound > best) {
        best = value.bound;
        of.multipliers = now;
      }
      if (best >= goal())
        break;
      if (stalled >= 3) {
        stride /= 2;
        stalled = 0;
      }
      if (!advance(cell, value, stride, now))
        break;
    }
    of.bound = best;
  }

  bool advance(const BoundCell &cell, const PathValue &value, double stride,
               std::vector<double> &now) const {
    double norm = 0;
    for (size_t i = 0; i < now.size(); ++i)
      if (paths.isLimited(i, cell) && (now[i] > 0 || value.surplus[i] > 0))
        norm += value.surplus[i] * value.surplus[i];
    if (!(norm > 1e-18))
      return false;
    const double length = stride * (target.reached * 1.001 - value.bound) / norm;
    for (size_t i = 0; i < now.size(); ++i)
      if (paths.isLimited(i, cell))
        now[i] = std::max(0.0, now[i] + length * value.surplus[i]);
    return true;
  }

  /// Halves a cell by the slowest stage, or all cells of its iterations; false if neither is worth
  /// it.
  bool split(size_t index) {
    const BoundCell cell = tightened(open[index].cell, list);
    const int m = list.microBatches;
    double high = cell.high;
    if (m > 1)
      high = std::min({high, cell.most / m, (cell.most - list.timeBefore.back()) / (m - 1)});
    const double bySlowest = m > 1 ? (m - 1) * (high - cell.low) / cell.most : 0;
    const double byTime = target.paysMoney ? (cell.most - cell.least) / cell.most : 0;
    if (!(std::max(bySlowest, byTime) > worthSplitting))
      return false;
    if (byTime > bySlowest) {
      splitIterations(open[index].cell.least, (cell.least + cell.most) / 2);
      return true;
    }
    Open upper = open[index];
    upper.cell.low = open[index].cell.high = (cell.low + high) / 2;
    ascend(open[index], laterSteps);
    ascend(upper, laterSteps);
    open.push_back(std::move(upper));
    return true;
  }

  /// All cells of the iterations that take more than `least`.
  void splitIterations(double least, double at) {
    std::vector<Open> all;
    for (Open &each : open) {
      if (each.cell.least == least) {
        Open upper = each;
        upper.cell.least = each.cell.most = at;
        for (Open *half : {&each, &upper})
          if (half->bound < goal())
            ascend(*half, laterSteps);
        all.push_back(std::move(upper));
      }
    }
    open.insert(open.end(), all.begin(), all.end());
  }

  const StageList &list;
  const Target &target;
  const size_t types, most, cells;
  PathBound paths;
  std::vector<Open> open;
  size_t work = 0;
};
} // namespace

Certificate OptimalityBound::certify() {
  const Plan &plan = bounds.ofPlan();
  Certificate certificate;
  certificate.modelFingerprint = plan.modelFingerprint;
  certificate.clusterFingerprint = plan.clusterFingerprint;
  for (const DeviceType &type : bounds.ofCluster().types)
    certificate.deviceTypes.push_back(type.name);
  const Target target(plan, bounds);
  size_t left = bounds.microBatches().size(), work = mostWork;
  for (int microBatches : bounds.microBatches()) {
    StageList list = bounds.begin(microBatches);
    const size_t cells = std::min(
        mostCells, (mostIntervals - std::min(mostIntervals, certificate.intervals.size())) / left);
    if (cells > 0 && target.ofBlocks(list) < target.reached * goodEnough) {
      bounds.addStages(list, target.limits);
      work -= Certifier(list, bounds, target, work / left, cells).run(certificate.intervals);
    }
    --left;
  }
  return certificate;
}

} // namespace heterplan
