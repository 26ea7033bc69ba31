#include "search/exact/BlockBounds.h"
#include "search/exact/SubgradientAscent.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-9;
/// Steps of an ascent over blocks, and of each over stages.
constexpr int blockSteps = 8, firstStageSteps = 5, stageSteps = 12;
/// Stages are listed once more where an ascent leaves at most this part of them.
constexpr double worthRepeating = 0.9;
/// The ratio of the iterations of a range, and the most ranges.
constexpr double rangeRatio = 1.3;
constexpr int mostRanges = 5;
/// The part of the goal that a first ascent over all iterations has to reach, or they are bounded
/// by ranges at once.
constexpr double closeToGoal = 0.95;

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
  result.push_back(whole);
  return result;
}

BlockBounds::BlockBounds(const Evaluator &evaluator, const Tuning &tuning, bool wholeModelGroups)
    : BlockBounds(evaluator, tuning, wholeModelGroups,
                  evaluator.problem.request.objective == Objective::Cost) {}

BlockBounds::BlockBounds(const Evaluator &evaluator, const Tuning &tuning, bool wholeModelGroups,
                         bool paysMoney)
    : evaluator(evaluator), tuning(tuning), places(evaluator.space), resources(evaluator),
      lanes(lanesOf(evaluator, places, wholeModelGroups)), countsMoney(paysMoney),
      longest(evaluator.problem.request.longestIteration().value() * (1 + 1e-9)),
      ofTime(paysMoney && std::isfinite(longest)
                 ? new BlockBounds(evaluator, tuning, wholeModelGroups, /*paysMoney=*/false)
                 : nullptr),
      perObjective(countsMoney ? 3600 * double(evaluator.problem.request.globalBatch.value()) / 1e6
                               : 1) {}

double BlockBounds::longestStage(const BlockNetwork &network, double goal) const {
  return std::min(network.mostIteration, countsMoney ? infinity : goal) / network.microBatches *
         (1 + 1e-9);
}

void BlockBounds::start(BlockMultipliers &multipliers) const {
  const size_t count = resources.count() + 2;
  multipliers.uses.assign(resources.count(), 0);
  multipliers.seconds.assign(count, countsMoney ? 0 : 1 / double(count));
}

/// By what the limit on it allows; infinite if nothing does.
double BlockBounds::leastIteration(const BlockNetwork &network, BlockPaths &paths) const {
  BlockMultipliers multipliers;
  start(multipliers);
  const double least = ascend(network, paths, longest / safety, blockSteps, multipliers) * safety;
  return least > longest ? infinity : std::max(0.0, least);
}

/// The iterations, in seconds, at which ranges of it begin, and where the last one ends.
std::vector<double> BlockBounds::rangesOf(double least) const {
  const double ratio = least > 0 ? longest / least : 1;
  const int needed = int(std::ceil(std::log(ratio) / std::log(rangeRatio)));
  const int count = std::clamp(needed, 1, mostRanges);
  std::vector<double> ends{least};
  for (int i = 1; i < count; ++i)
    ends.push_back(least * std::pow(ratio, double(i) / count));
  ends.push_back(longest);
  return ends;
}

BlockBound BlockBounds::bound(Evaluator &own, int microBatches, double limit, bool listsStages,
                              BlockStarts &begin) const {
  BlockBound result;
  if (own.stages.costs.fit() || own.rules.slowestDecides())
    return result;
  BlockNetwork network(own, places, lanes, microBatches);
  if (network.lanes.empty())
    return {infinity};
  BlockPaths paths(network);
  network.mostIteration = longest;
  network.leastIteration = ofTime ? ofTime->leastIteration(network, paths) : 0;
  if (std::isinf(network.leastIteration))
    return {infinity};
  const BlockGoal goal{limit * perObjective / safety, listsStages};
  const double value = boundByRanges(network, paths, goal, begin, result.left);
  result.positions = size_t(network.blocks) + 1;
  result.options = evaluator.space.options.size();
  result.objective = std::max(0.0, value) * safety / perObjective;
  if (!countsMoney && result.objective > longest)
    result.objective = infinity;
  return result;
}

/// Money is paid for a whole iteration, so that a bound on cost knows more of a short range of it.
/// All iterations at once come first, as that often suffices, unless it did not where `begin` is
/// from: then there are starts of ranges.
double BlockBounds::boundByRanges(BlockNetwork &network, BlockPaths &paths, const BlockGoal &goal,
                                  BlockStarts &begin, std::vector<bool> &left) const {
  const std::vector<double> ends = rangesOf(network.leastIteration);
  const bool hasRanges = ends.size() > 2 && goal.listsStages;
  if (begin.empty())
    begin.emplace_back();
  double value = 0;
  if (!hasRanges || begin.size() == 1) {
    BlockGoal ofAll = goal;
    ofAll.worthGoingOn = hasRanges ? goal.value * closeToGoal : 0;
    value = boundRange(network, paths, ofAll, begin[0], left);
    if (!hasRanges || value >= goal.value)
      return value;
  }
  begin.resize(std::max(begin.size(), ends.size()), BlockStart(begin[0]));
  double least = infinity;
  left.clear();
  for (size_t range = 1; range < ends.size(); ++range) {
    network.leastIteration = ends[range - 1];
    network.mostIteration = ends[range];
    least = std::min(least, boundRange(network, paths, goal, begin[range], left));
  }
  return std::max(value, least);
}

/// A bound of the iterations that `network` states. Adds to `left` what is left of the stages, if
/// they are listed.
double BlockBounds::boundRange(const BlockNetwork &network, BlockPaths &paths,
                               const BlockGoal &goal, BlockStart &begin,
                               std::vector<bool> &left) const {
  if (begin.blocks.uses.empty())
    start(begin.blocks);
  double value = ascend(network, paths, goal.value, blockSteps, begin.blocks);
  if (goal.listsStages && value < goal.value && std::isfinite(goal.value))
    value = std::max(value, boundByStages(network, paths, goal, begin, left));
  return value;
}

/// From the better of `begin.stages`, if they are known, and of what is best over blocks.
void BlockBounds::startStages(const BlockNetwork &network, BlockStages &stages,
                              BlockStart &begin) const {
  auto valueAt = [&](const BlockMultipliers &at) {
    return stages.solve(chargesOf(network, at)) - refund(network, at);
  };
  BlockMultipliers other = begin.blocks;
  if (!countsMoney) { // a good start for stages, which BlockPaths does not know
    std::fill(other.seconds.begin(), other.seconds.end(), 0);
    other.seconds.back() = 1;
  }
  if (begin.stages.uses.empty() || valueAt(other) > valueAt(begin.stages))
    begin.stages = std::move(other);
}

/// At most the goal, as stages that only worse placements have are not listed. Adds those that
/// others may have to `left`.
double BlockBounds::boundByStages(const BlockNetwork &network, BlockPaths &paths,
                                  const BlockGoal &goal, BlockStart &begin,
                                  std::vector<bool> &left) const {
  auto mostAt = [&](const BlockMultipliers &at) {
    return goal.value * (1 + 1e-9) + refund(network, at);
  };
  BlockCharges charges = chargesOf(network, begin.blocks);
  paths.solve(charges);
  BlockStages stages(network, paths, charges, mostAt(begin.blocks),
                     longestStage(network, goal.value));
  startStages(network, stages, begin);
  double best = 0;
  size_t before = 0;
  bool isFirst = true; // a short ascent rules most of them out
  do {
    before = stages.size();
    const double value =
        ascend(network, stages, goal.value, isFirst ? firstStageSteps : stageSteps, begin.stages);
    best = std::max(best, std::min(goal.value, value));
    if (best >= goal.value || best < goal.worthGoingOn)
      return best;
    charges = chargesOf(network, begin.stages);
    stages.solve(charges);
    stages.fix(charges, mostAt(begin.stages));
  } while (std::exchange(isFirst, false) ||
           double(stages.size()) < worthRepeating * double(before));
  const std::vector<bool> more = stages.left(evaluator.space.options);
  left.resize(more.size());
  std::transform(more.begin(), more.end(), left.begin(), left.begin(), std::logical_or<>());
  return best;
}

BlockCharges BlockBounds::chargesOf(const BlockNetwork &network,
                                    const BlockMultipliers &multipliers) const {
  const size_t count = network.lanes.size();
  const double passes = network.microBatches - 1;
  BlockCharges charges{
      sumOf(multipliers.seconds), passes * multipliers.seconds.back(), std::vector<double>(count),
      std::vector<double>(count), std::vector<double>(count),          network.leastIteration,
      multipliers.whole,          double(network.microBatches),        {}};
  for (size_t lane = 0; lane < count; ++lane) {
    const BlockLane &of = *network.lanes[lane];
    for (size_t resource = 0; resource < resources.count(); ++resource) {
      charges.stage[lane] += multipliers.uses[resource] * resources.use(of.option, resource);
      charges.busy[lane] +=
          passes * multipliers.seconds[resource] * resources.use(of.option, resource);
    }
    if (countsMoney) { // a stage is paid for an iteration, m·τ + sync at least
      const double price = resources.price(of.option), part = 1 - multipliers.whole;
      charges.price.push_back(price);
      charges.stage[lane] += multipliers.whole * price * network.leastIteration;
      charges.busy[lane] += part * price * network.microBatches;
      charges.summed[lane] = part * price;
    }
  }
  return charges;
}

/// The part of what is bounded that paths within all limits do not pay.
double BlockBounds::refund(const BlockNetwork &network, const BlockMultipliers &multipliers) const {
  const double second = sumOf(multipliers.seconds);
  const double ofBlock = multipliers.seconds[resources.count()];
  return sumOf(multipliers.uses) - (network.microBatches - 1) * ofBlock * network.slowestBlock +
         (countsMoney && second > 0 ? second * network.mostIteration : 0);
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
    second +=
        countsMoney ? path.fill - network.mostIteration : -mean; // their sum may change, or not
  slope.whole = path.idle;
  return slope;
}

/// By multiplier: what an ascent whose value is about `scale` counts it in, so that all matter; 0:
/// it stays as it is.
std::vector<double> BlockBounds::unitsOf(double scale) const {
  const double second = !countsMoney ? 1 : std::isfinite(longest) ? scale / longest : 0;
  std::vector<double> units(resources.count(), scale);
  units.resize(2 * resources.count() + 2, second);
  units.push_back(1);
  return units;
}

BlockMultipliers BlockBounds::inUnits(ArrayRef<double> values, ArrayRef<double> units) const {
  BlockMultipliers result;
  for (size_t i = 0; i + 1 < values.size(); ++i)
    (i < resources.count() ? result.uses : result.seconds).push_back(values[i] * units[i]);
  result.whole = std::min(values.back(), 1.0);
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
    std::vector<double> slope =
        slopeAt(network, paths.path(resources, chargesOf(network, now))).all();
    for (size_t i = 0; i < units.size(); ++i)
      slope[i] *= units[i];
    if (ascent.best() >= goal || !ascent.step(slope, goal))
      break;
    if (!countsMoney)
      projectOntoSimplex(
          MutableArrayRef(ascent.multipliers).drop_front(resources.count()).drop_back());
  }
  return ascent.best();
}

} // namespace heterplan
