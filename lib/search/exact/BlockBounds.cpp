#include "search/exact/BlockBounds.h"
#include "search/exact/SubgradientAscent.h"

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
/// Steps of an ascent over blocks, and of each over stages.
constexpr int blockSteps = 8, stageSteps = 12;
/// Stages are listed once more where an ascent leaves at most this part of them.
constexpr double worthRepeating = 0.9;

double sumOf(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Moves `values` to the nearest ones that are at least 0 and have the sum 1.
void projectOntoSimplex(MutableArrayRef<double> values) {
  std::vector<double> sorted = values.vec();
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

} // namespace

bool BlockBound::mayHave(int begin, int end, int plain) const {
  return left.empty() || left[(size_t(begin) * positions + end) * options + plain];
}

std::vector<double> BlockMultipliers::all() const {
  std::vector<double> result = uses;
  result.insert(result.end(), seconds.begin(), seconds.end());
  return result;
}

BlockBounds::BlockBounds(const Evaluator &evaluator, const Tuning &tuning, bool wholeModelGroups)
    : evaluator(evaluator), tuning(tuning), places(evaluator.space), resources(evaluator),
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

/// By multiplier: what an ascent whose value is about `scale` counts it in, so that all matter; 0:
/// it stays as it is.
std::vector<double> BlockBounds::unitsOf(double scale) const {
  const double second = !countsMoney ? 1 : std::isfinite(longest) ? scale / longest : 0;
  std::vector<double> units(resources.count(), scale);
  units.resize(2 * resources.count() + 2, second);
  return units;
}

BlockMultipliers BlockBounds::inUnits(ArrayRef<double> values, ArrayRef<double> units) const {
  BlockMultipliers result;
  for (size_t i = 0; i < values.size(); ++i)
    (i < resources.count() ? result.uses : result.seconds).push_back(values[i] * units[i]);
  return result;
}

template <typename Paths>
double BlockBounds::ascend(const BlockNetwork &network, Paths &paths, double goal, int steps,
                           BlockMultipliers &multipliers) const {
  auto valueAt = [&](const BlockMultipliers &at) {
    return paths.solve(chargesOf(network, at)) - refund(network, at);
  };
  const double scale = std::isfinite(goal) ? goal : valueAt(multipliers);
  if (!(scale > 0) || !std::isfinite(scale))
    return scale;
  const std::vector<double> units = unitsOf(scale);
  SubgradientAscent ascent(multipliers.all(), tuning);
  for (size_t i = 0; i < units.size(); ++i)
    ascent.multipliers[i] /= units[i] > 0 ? units[i] : 1;
  for (int step = 0; step < steps; ++step) {
    const BlockMultipliers now = inUnits(ascent.multipliers, units);
    const double value = valueAt(now);
    if (!std::isfinite(value))
      return infinity;
    if (ascent.take(value))
      multipliers = now;
    std::vector<double> slope = slopeAt(network, paths.path(resources)).all();
    for (size_t i = 0; i < units.size(); ++i)
      slope[i] *= units[i];
    if (ascent.best() >= goal || !ascent.step(slope, goal))
      break;
    if (!countsMoney)
      projectOntoSimplex(MutableArrayRef(ascent.multipliers).drop_front(resources.count()));
  }
  return ascent.best();
}

} // namespace heterplan
