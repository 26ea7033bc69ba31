#include "search/provision/Rounding.h"

#include "search/provision/TypeAssignment.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tolerance = 1e-9;
constexpr int halvings = 200;

/// The least x in [low, high] with `holds`, which is monotone and true at `high`.
template <typename Holds> double leastThat(double low, double high, Holds holds) {
  if (holds(low))
    return low;
  for (int i = 0; i < halvings && low < high; ++i) {
    double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high)
      break;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

/// The minimiser of the convex `value` in [low, high], by golden section.
template <typename Value> double minimum(double low, double high, Value value) {
  constexpr double golden = 0.6180339887498949;
  double a = high - golden * (high - low), b = low + golden * (high - low);
  double atA = value(a), atB = value(b);
  for (int i = 0; i < halvings && high - low > 1e-13 * high; ++i)
    if (atA <= atB) {
      high = b;
      b = a;
      atB = atA;
      a = high - golden * (high - low);
      atA = value(a);
    } else {
      low = a;
      a = b;
      atA = atB;
      b = low + golden * (high - low);
      atB = value(b);
    }
  double best = low + (high - low) / 2;
  for (double end : {low, high})
    if (value(end) < value(best))
      best = end;
  return best;
}
} // namespace

ContinuousSizes::ContinuousSizes(Evaluator &evaluator, const Placement &placement)
    : evaluator(evaluator), placement(placement) {
  int count = static_cast<int>(placement.stages.size());
  for (int i = 0; i < count; ++i) {
    const PlacedStage &stage = placement.stages[i];
    fewest.push_back(evaluator.stages.leastCount(
        stage.layers(), stage.group.counts.front().first, infinity, placement.microBatches,
        evaluator.problem.request.inFlight(count - i, placement.microBatches)));
  }
}

std::vector<double> ContinuousSizes::sizesAt(double limit) const {
  std::vector<double> sizes;
  for (size_t i = 0; i < fewest.size(); ++i) {
    const PlacedStage &stage = placement.stages[i];
    double units = evaluator.stages.costs.fit()->realUnitsFor(
        stage.begin, stage.end, stage.group.counts.front().first, limit);
    sizes.push_back(std::max(fewest[i], units));
  }
  return sizes;
}

std::vector<double> ContinuousSizes::ceilingsAt(double limit) const {
  std::vector<double> sizes = sizesAt(limit);
  for (double &size : sizes)
    size = std::ceil(size * (1 - 1e-12));
  return sizes;
}

/// Whether there are as many devices, samples for them, and the budget for them.
bool ContinuousSizes::within(ArrayRef<double> sizes) const {
  const Request &request = evaluator.problem.request;
  double batch = double(evaluator.stages.fullSize(placement.microBatches));
  std::vector<double> left(evaluator.space.available.begin(), evaluator.space.available.end());
  double price = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int type = placement.stages[i].group.counts.front().first;
    left[type] -= sizes[i];
    if (sizes[i] > batch || left[type] < -tolerance * sizes[i])
      return false;
    price += sizes[i] * evaluator.problem.cluster.types[type].price.value();
  }
  return request.maxCostPerHour == DollarsPerHour(0) ||
         price <= request.maxCostPerHour.value() * (1 + tolerance);
}

double ContinuousSizes::objectiveAt(double limit) const {
  std::vector<double> sizes = sizesAt(limit);
  double price = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    price +=
        sizes[i] * evaluator.problem.cluster.types[placement.stages[i].group.counts.front().first]
                       .price.value();
  return evaluator.objectiveOf(Seconds(limit * placement.microBatches), DollarsPerHour(price));
}

/// Between `fastest`, where devices or the budget end, and `slowest`, where the floor on throughput
/// does or where the fewest devices are fast enough.
bool ContinuousSizes::bottleneckLimits() {
  const Request &request = evaluator.problem.request;
  for (size_t i = 0; i < fewest.size(); ++i) {
    const PlacedStage &stage = placement.stages[i];
    int type = stage.group.counts.front().first;
    if (fewest[i] == 0)
      return false;
    slowest = std::max(slowest, evaluator.stages.costs.fit()->stageTime(stage.begin, stage.end,
                                                                        type, int(fewest[i])));
    fastest = std::max(fastest, evaluator.stages.costs.fit()->stageTime(
                                    stage.begin, stage.end, type, evaluator.space.available[type]));
  }
  slowest = std::min(slowest,
                     request.longestIteration().value() / placement.microBatches * (1 + tolerance));
  if (!within(sizesAt(slowest)))
    return false;
  fastest = leastThat(std::min(fastest, slowest), slowest,
                      [&](double limit) { return within(sizesAt(limit)); });
  return true;
}

bool ContinuousSizes::solve() {
  if (!bottleneckLimits())
    return false;
  bool fast = evaluator.problem.request.objective == Objective::Throughput;
  bottleneck =
      fast ? fastest : minimum(fastest, slowest, [&](double limit) { return objectiveAt(limit); });
  least = objectiveAt(bottleneck) * (1 - tolerance);
  return true;
}

std::optional<ContinuousSizes> ContinuousSizes::of(Evaluator &evaluator,
                                                   const Placement &placement) {
  if (!evaluator.stages.costs.fit())
    return std::nullopt;
  ContinuousSizes sizes(evaluator, placement);
  if (!sizes.solve())
    return std::nullopt;
  return sizes;
}

/// `counts` with more for stages that are too slow for the floor, and where devices or the budget
/// do not suffice, less for the stage that is the fastest with one device less.
std::optional<std::vector<double>> ContinuousSizes::repaired(std::vector<double> counts) const {
  std::vector<double> needed = ceilingsAt(slowest);
  if (!within(needed))
    return std::nullopt;
  for (size_t i = 0; i < counts.size(); ++i)
    counts[i] = std::max(counts[i], needed[i]);
  auto timeWithout = [&](size_t i) {
    const PlacedStage &stage = placement.stages[i];
    return evaluator.stages.costs.fit()->stageTime(
        stage.begin, stage.end, stage.group.counts.front().first, int(counts[i]) - 1);
  };
  while (!within(counts)) {
    double quickest = infinity;
    size_t chosen = 0;
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i] > needed[i] && timeWithout(i) < quickest) {
        quickest = timeWithout(i);
        chosen = i;
      }
    --counts[chosen];
  }
  return counts;
}

Placement ContinuousSizes::placementOf(ArrayRef<double> counts) const {
  Placement result = placement;
  for (size_t i = 0; i < counts.size(); ++i)
    result.stages[i].group.counts.front().second = static_cast<int>(counts[i]);
  return result;
}

std::optional<Placement> ContinuousSizes::round(RoundingMethod method, uint64_t seed) const {
  constexpr int tries = 16;
  if (method == RoundingMethod::Ceiling) {
    if (!within(ceilingsAt(slowest)))
      return std::nullopt;
    double limit =
        leastThat(bottleneck, slowest, [&](double at) { return within(ceilingsAt(at)); });
    return placementOf(ceilingsAt(limit));
  }
  std::mt19937_64 random(seed);
  std::optional<Placement> best;
  double bestObjective = infinity;
  for (int i = 0; i < (method == RoundingMethod::Randomised ? tries : 1); ++i) {
    std::vector<double> counts = sizesAt(bottleneck);
    for (double &count : counts) {
      double down = std::floor(count * (1 + 1e-12));
      bool up = method == RoundingMethod::Randomised && drawReal(random) < count - down;
      count = down + up;
    }
    std::optional<std::vector<double>> whole = repaired(std::move(counts));
    if (!whole)
      return std::nullopt;
    Placement candidate = placementOf(*whole);
    std::optional<Evaluation> evaluation = evaluator.evaluate(candidate);
    if (evaluation && evaluation->objective < bestObjective) {
      bestObjective = evaluation->objective;
      best = std::move(candidate);
    }
  }
  return best;
}

} // namespace heterplan
