#include "search/exact/BlockBounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-9;
/// Steps of an ascent over blocks, and of each over stages; steps without progress after which
/// steps are halved.
constexpr int blockSteps = 8, stageSteps = 12, patience = 2;
/// Stages are listed once more where an ascent leaves at most this part of them.
constexpr double worthRepeating = 0.9;

double sumOf(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Moves `values` to the nearest ones that are at least 0 and have the sum 1.
void projectOntoSimplex(std::vector<double> &values) {
  std::vector<double> sorted = values;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0, shift = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    const double now = (sum - 1) / double(i + 1);
    shift = sorted[i] > now ? now : shift;
  }
  for (double &value : values)
    value = std::max(0.0, value - shift);
}

/// The squared length of the part of a slope that can be followed, in units of `scale`.
double normOf(const std::vector<double> &slope, const std::vector<double> &at, double scale) {
  double norm = 0;
  for (size_t i = 0; i < slope.size(); ++i)
    if (at[i] > 0 || slope[i] > 0)
      norm += slope[i] * slope[i] * scale * scale;
  return norm;
}

void move(std::vector<double> &at, const std::vector<double> &slope, double length) {
  for (size_t i = 0; i < at.size(); ++i)
    at[i] += length * slope[i];
}

void takePositive(std::vector<double> &values) {
  for (double &value : values)
    value = std::max(0.0, value);
}
} // namespace

bool BlockBound::mayHave(int begin, int end, int plain) const {
  return left.empty() || left[(size_t(begin) * positions + end) * options + plain];
}

BlockBounds::BlockBounds(const Evaluator &evaluator, bool wholeModelGroups)
    : evaluator(evaluator), places(evaluator.space), resources(evaluator),
      lanes(lanesOf(evaluator, places, wholeModelGroups)),
      countsMoney(evaluator.problem.request.objective == Objective::Cost),
      longest(evaluator.problem.request.longestIteration().value() * (1 + 1e-9)),
      perObjective(countsMoney ? 3600 * double(evaluator.problem.request.globalBatch.value()) / 1e6
                               : 1) {}

double BlockBounds::longestStage(int microBatches, double goal) const {
  return std::min(longest, countsMoney ? infinity : goal) / microBatches * (1 + 1e-9);
}

void BlockBounds::start(BlockMultipliers &multipliers) const {
  const size_t count = resources.count() + 2;
  multipliers.uses.assign(resources.count(), 0);
  multipliers.seconds.assign(count, countsMoney ? 0 : 1 / double(count));
}

BlockBound BlockBounds::bound(Evaluator &own, int microBatches, double limit, bool listsStages,
                              BlockMultipliers &multipliers) const {
  BlockBound result;
  if (own.stages.costs.fit() || own.rules.slowestDecides())
    return result;
  const BlockNetwork network(own, places, lanes, microBatches);
  if (network.lanes.empty())
    return {infinity};
  if (multipliers.uses.empty())
    start(multipliers);
  const double goal = limit * perObjective / safety;
  BlockPaths paths(network);
  double value = ascend(network, paths, goal, blockSteps, multipliers);
  if (listsStages && value < goal && std::isfinite(goal)) {
    value = std::max(value, boundByStages(network, paths, goal, multipliers, result.left));
    result.positions = size_t(network.blocks) + 1;
    result.options = evaluator.space.options.size();
  }
  result.objective = std::max(0.0, value) * safety / perObjective;
  if (!countsMoney && result.objective > longest)
    result.objective = infinity;
  return result;
}

/// At most `goal`, as stages that only worse placements have are not listed. `left`: those that
/// others may have, if any.
double BlockBounds::boundByStages(const BlockNetwork &network, BlockPaths &paths, double goal,
                                  BlockMultipliers &multipliers, std::vector<bool> &left) const {
  auto most = [&] { return goal * (1 + 1e-9) + refund(network, multipliers); };
  BlockCharges charges = chargesOf(network, multipliers);
  paths.solve(charges);
  BlockStages stages(network, paths, charges, most(), longestStage(network.microBatches, goal));
  if (!countsMoney) { // a good start for stages, which BlockPaths does not know
    std::fill(multipliers.seconds.begin(), multipliers.seconds.end(), 0);
    multipliers.seconds.back() = 1;
  }
  double best = 0;
  for (double before = infinity; double(stages.size()) < worthRepeating * before;) {
    before = double(stages.size());
    best = std::max(best, std::min(goal, ascend(network, stages, goal, stageSteps, multipliers)));
    if (best >= goal)
      return best;
    charges = chargesOf(network, multipliers);
    stages.solve(charges);
    stages.fix(charges, most());
  }
  left = stages.left(evaluator.space.options);
  return best;
}

BlockCharges BlockBounds::chargesOf(const BlockNetwork &network,
                                    const BlockMultipliers &multipliers) const {
  const size_t count = network.lanes.size();
  const double passes = network.microBatches - 1;
  BlockCharges charges{sumOf(multipliers.seconds), passes * multipliers.seconds.back(),
                       std::vector<double>(count), std::vector<double>(count),
                       std::vector<double>(count)};
  for (size_t lane = 0; lane < count; ++lane) {
    const BlockLane &of = *network.lanes[lane];
    for (size_t resource = 0; resource < resources.count(); ++resource) {
      charges.stage[lane] += multipliers.uses[resource] * resources.use(of.option, resource);
      charges.busy[lane] +=
          passes * multipliers.seconds[resource] * resources.use(of.option, resource);
    }
    if (countsMoney) { // a stage is paid for an iteration, m·τ + sync at least
      charges.busy[lane] += resources.price(of.option) * network.microBatches;
      charges.summed[lane] = resources.price(of.option);
    }
  }
  return charges;
}

/// The part of what is bounded that paths within all limits do not pay.
double BlockBounds::refund(const BlockNetwork &network, const BlockMultipliers &multipliers) const {
  const double second = sumOf(multipliers.seconds);
  const double ofBlock = multipliers.seconds[resources.count()];
  return sumOf(multipliers.uses) - (network.microBatches - 1) * ofBlock * network.slowestBlock +
         (countsMoney && second > 0 ? second * longest : 0);
}

/// Without what does not depend on the path.
BlockMultipliers BlockBounds::slopeAt(const BlockNetwork &network,
                                      const BlockPathSums &path) const {
  BlockMultipliers slope;
  for (double use : path.uses)
    slope.uses.push_back(use - 1);
  slope.seconds = path.work;
  slope.seconds.push_back(network.slowestBlock);
  slope.seconds.push_back(path.spread);
  for (double &second : slope.seconds)
    second *= network.microBatches - 1;
  const double mean = sumOf(slope.seconds) / double(slope.seconds.size());
  for (double &second : slope.seconds)
    second += countsMoney ? path.fill - longest : -mean; // their sum may change, or not
  return slope;
}

/// The weight of a second in an ascent whose value is about `scale`.
double BlockBounds::ofSeconds(double scale) const {
  return !countsMoney ? 1 : std::isfinite(longest) ? scale / longest : 0;
}

/// The squared length of a slope along which the multipliers can move.
double BlockBounds::lengthOf(const BlockMultipliers &slope, const BlockMultipliers &at,
                             double scale) const {
  return normOf(slope.uses, at.uses, scale) + normOf(slope.seconds, at.seconds, ofSeconds(scale));
}

void BlockBounds::step(const BlockMultipliers &slope, double length, double scale,
                       BlockMultipliers &multipliers) const {
  const double second = ofSeconds(scale);
  move(multipliers.uses, slope.uses, length * scale * scale);
  takePositive(multipliers.uses);
  if (second > 0)
    move(multipliers.seconds, slope.seconds, length * second * second);
  if (countsMoney)
    takePositive(multipliers.seconds);
  else
    projectOntoSimplex(multipliers.seconds);
}

/// Polyak's steps towards `goal`, which are halved when they do not help.
template <typename Paths>
double BlockBounds::ascend(const BlockNetwork &network, Paths &paths, double goal, int steps,
                           BlockMultipliers &multipliers) const {
  double best = -infinity, stride = 1;
  int stalled = 0;
  BlockMultipliers now = multipliers;
  for (int i = 0; i < steps; ++i) {
    const double value = paths.solve(chargesOf(network, now)) - refund(network, now);
    if (!std::isfinite(value))
      return infinity;
    stalled = value > best + 1e-3 * std::abs(best) ? 0 : stalled + 1;
    if (stalled == patience) {
      stride /= 2;
      stalled = 0;
    }
    if (value > best) {
      best = value;
      multipliers = now;
    }
    const BlockMultipliers slope = slopeAt(network, paths.path(resources));
    const double scale = std::max(std::abs(best), 1e-12);
    const double length = lengthOf(slope, now, scale);
    if (best >= goal || !(length > 0))
      break;
    const double reach = std::isfinite(goal) ? goal - value : scale / 2;
    step(slope, stride * reach / length, scale, now);
  }
  return best;
}

} // namespace heterplan
