#include "search/verify/bound/OptimalityBound.h"

#include "search/verify/bound/CountBound.h"
#include "support/Parallel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double safety = 1 - 1e-9;
constexpr double goodEnough = 1 - 1e-3; // of the plan: gaps below that are not worth work
/// Bounds to reach, as parts of the plan: the main one, one that comes before it where it takes too
/// much work at once, and one that is tried at first and in the end, with little work.
constexpr double mainGoal = 0.991, easyGoal = 0.955, lastGoal = 0.998;
constexpr double worthTrying = 0.8; // of the plan: bounds from which on little work may suffice
/// Work for a number of micro-batches: at first, and from the next goal on.
constexpr size_t quickBranching = 2'000'000, firstBranching = 10'000'000;
/// Work for a certificate, of which so much is for the main goal at once, and for the last goal.
constexpr size_t mostBranching = 600'000'000, directBranching = 300'000'000,
                 lastBranching = 30'000'000;
constexpr double intervalRatio = 1.3;
constexpr size_t mostFirstIntervals = 24;
constexpr int firstSteps = 40, laterSteps = 12;
constexpr double shortestStride = 0.2;                       // of steps: shorter ones gain little
constexpr size_t mostCells = 96;                             // of one number of micro-batches
constexpr size_t mostWork = 100'000'000;                     // stages on paths, of a certificate
constexpr size_t countsAtOnce = 4;                           // numbers of micro-batches
constexpr size_t mostIntervals = mostCertifiedIntervals / 2; // the last split may double them
constexpr double worthSplitting = 1e-3;                      // of the iteration

/// Branches where bounds are below `goal`, a little first, until that gains nothing or `left` is no
/// work. Returns whether no bound is below.
bool reach(std::vector<std::unique_ptr<CountBound>> &counts, double goal, size_t &left) {
  bool wasCut = true, isBelow = true;
  for (size_t most = firstBranching; wasCut && left > 0; most *= 4) {
    wasCut = isBelow = false;
    for (auto &count : counts) {
      const size_t work = count->improve(goal, std::min(most, left));
      left -= std::min(left, work);
      if (count->bound() < goal * safety) {
        isBelow = true;
        wasCut |= count->isOpen();
      }
    }
  }
  return !isBelow;
}

void improve(std::vector<std::unique_ptr<CountBound>> &counts, const BoundTarget &target) {
  size_t left = mostBranching;
  for (auto &count : counts)
    if (count->bound() >= target.reached * worthTrying)
      left -= std::min(left, count->improve(target.reached * lastGoal, quickBranching));
  const size_t given = std::min(left, directBranching);
  size_t direct = given;
  const bool isReached = reach(counts, target.reached * mainGoal, direct);
  left -= given - direct;
  if (!isReached)
    for (double part : {easyGoal, mainGoal})
      if (!reach(counts, target.reached * part, left))
        return;
  left = std::min(left, lastBranching);
  reach(counts, target.reached * lastGoal, left);
}
} // namespace

VerifiedBound OptimalityBound::verify(const Certificate &certificate) {
  const Plan &plan = bounds.ofPlan();
  const BoundTarget target(plan, bounds);
  double least = target.reached;
  std::vector<std::unique_ptr<CountBound>> weak;
  for (int microBatches : bounds.microBatches()) {
    auto count = std::make_unique<CountBound>(microBatches, certificate, bounds, target, least);
    if (count->bound() < target.reached * lastGoal)
      weak.push_back(std::move(count));
    else
      least = std::min(least, count->bound());
  }
  improve(weak, target);
  for (const auto &count : weak)
    least = std::min(least, count->bound());
  least = std::max(0.0, least);
  VerifiedBound result;
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
  /// With at most `cells` intervals, and about `most` work: stages that paths look at. `goal`: a
  /// bound that suffices.
  Certifier(const StageList &list, const StageBounds &bounds, const BoundTarget &target,
            double goal, size_t most, size_t cells)
      : list(list), target(target), goal(goal), types(bounds.ofCluster().types.size()), most(most),
        cells(cells), paths(bounds, list, target.paysMoney) {}

  /// Appends the intervals, ascending. Returns the work that it took.
  size_t run(std::vector<CertifiedInterval> &intervals) {
    startCells();
    while (open.size() < cells && work < most) {
      auto deciding = std::min_element(
          open.begin(), open.end(), [](const Open &a, const Open &b) { return a.bound < b.bound; });
      if (deciding->bound >= goal || !split(size_t(deciding - open.begin())))
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
      if (best >= goal)
        break;
      if (stalled >= 3) {
        stride /= 2;
        stalled = 0;
      }
      if (stride < shortestStride)
        break;
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
    const CellHalves halves(cell, list, target);
    if (!(halves.widest() > worthSplitting))
      return false;
    if (halves.byTime > halves.bySlowest) {
      splitIterations(open[index].cell.least, halves.time);
      return true;
    }
    Open upper = open[index];
    upper.cell.low = open[index].cell.high = halves.slowest;
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
          if (half->bound < goal)
            ascend(*half, laterSteps);
        all.push_back(std::move(upper));
      }
    }
    open.insert(open.end(), all.begin(), all.end());
  }

  const StageList &list;
  const BoundTarget &target;
  const double goal;
  const size_t types, most, cells;
  PathBound paths;
  std::vector<Open> open;
  size_t work = 0;
};
/// The bound that a certificate is for, in the units of `target`: no more than the plan states.
double certifiedGoal(const Plan &plan, const BoundTarget &target) {
  const double stated = target.paysMoney ? 1 - plan.gap : 1 / (1 + plan.gap);
  return target.reached * std::min(goodEnough, stated);
}

/// The StageBounds of threads, each of which a thread has for itself while it uses it.
class SpareBounds {
public:
  using Maker = function_ref<std::unique_ptr<StageBounds>()>;
  explicit SpareBounds(Maker make) : make(make) {}

  std::unique_ptr<StageBounds> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!spare.empty())
        return spare.pop_back_val();
    }
    return make();
  }
  void give(std::unique_ptr<StageBounds> bounds) {
    const std::lock_guard<std::mutex> lock(mutex);
    spare.push_back(std::move(bounds));
  }

private:
  const Maker make;
  std::mutex mutex;
  SmallVector<std::unique_ptr<StageBounds>, 4> spare;
};

/// The certificate of one number of micro-batches.
struct CertifiedCount {
  std::vector<CertifiedInterval> intervals;
  size_t work = 0;
};

/// Work for one number of micro-batches: its share of what is left.
struct CertifierLimits {
  double goal;
  size_t work, cells;
};

CertifiedCount certifyCount(int microBatches, StageBounds &bounds, const BoundTarget &target,
                            const CertifierLimits &limits) {
  CertifiedCount result;
  StageList list = bounds.begin(microBatches);
  if (limits.cells == 0 || target.ofBlocks(list) >= limits.goal)
    return result;
  bounds.addStages(list, target.limits);
  result.work =
      Certifier(list, bounds, target, limits.goal, limits.work, limits.cells).run(result.intervals);
  return result;
}
} // namespace

Certificate OptimalityBound::certify(int threads) {
  Certificate certificate;
  certificate.modelFingerprint = plan.modelFingerprint;
  certificate.clusterFingerprint = plan.clusterFingerprint;
  for (const DeviceType &type : cluster.types)
    certificate.deviceTypes.push_back(type.name);
  const BoundTarget target(plan, bounds);
  const double goal = certifiedGoal(plan, target);
  auto make = [&] { return std::make_unique<StageBounds>(plan, graph, cluster, costs); };
  SpareBounds spare(make);
  size_t work = mostWork;
  for (ArrayRef<int> left = bounds.microBatches(); !left.empty();) {
    const ArrayRef<int> together = left.take_front(countsAtOnce);
    const size_t intervals = std::min(mostIntervals, certificate.intervals.size());
    const CertifierLimits limits{goal, work / left.size(),
                                 std::min(mostCells, (mostIntervals - intervals) / left.size())};
    std::vector<CertifiedCount> parts(together.size());
    inParallel(together.size(), threads, [&](size_t i) {
      std::unique_ptr<StageBounds> own = spare.take();
      parts[i] = certifyCount(together[i], *own, target, limits);
      spare.give(std::move(own));
    });
    for (const CertifiedCount &part : parts) {
      certificate.intervals.insert(certificate.intervals.end(), part.intervals.begin(),
                                   part.intervals.end());
      work -= part.work;
    }
    left = left.drop_front(together.size());
  }
  return certificate;
}

} // namespace heterplan
