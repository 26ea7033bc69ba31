#include "search/exact/steady/SteadyBounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-12;
/// The largest integer that weighs a type; the fewest levels.
constexpr int finest = 8;
} // namespace

SteadyBounds::SteadyBounds(const Evaluator &evaluator, const StageTable &table,
                           bool wholeModelGroups, const Tuning &tuning)
    : evaluator(evaluator), microBatches(table.microBatches),
      positions(static_cast<int>(evaluator.space.positions.size())) {
  setWeights(table);
  setLevels(tuning);
  solve(table, wholeModelGroups);
}

/// λ: how fast a type runs the whole model, so that equal work weighs about the same everywhere. A
/// type that cannot run it weighs as much as the fastest; any weights give a valid bound.
void SteadyBounds::setWeights(const StageTable &table) {
  const SearchSpace &space = evaluator.space;
  int last = static_cast<int>(space.positions.size()) - 1;
  weights.assign(space.available.size(), 0);
  for (size_t option = 0; option < space.options.size(); ++option) {
    const DeviceGroup &group = space.options[option].group;
    double time = 0;
    for (int position = 1; position <= last; ++position) {
      const StageTimes &entry = table.at(position - 1, position, static_cast<int>(option));
      time += entry.forward + entry.backward;
    }
    if (group.counts.size() == 1 && time > 0) {
      double &weight = weights[group.counts.front().first];
      weight = std::max(weight, 1 / (time * group.counts.front().second));
    }
  }
  double fastest = *std::max_element(weights.begin(), weights.end());
  for (double &weight : weights)
    if (weight == 0)
      weight = fastest > 0 ? fastest : 1;
}

int SteadyBounds::levelLeft(const PartialPlacement &partial) const {
  double speed = 0;
  for (size_t type = 0; type < weights.size(); ++type)
    speed += weights[type] * (evaluator.space.available[type] - partial.used[type]);
  return std::clamp(static_cast<int>(std::ceil(speed / levelStep - 1e-9)), 0, levels);
}

/// Makes the weights integers, the largest that sum up to at most `mostLevels`, if there are any.
bool SteadyBounds::weighInIntegers(int mostLevels) {
  double largest = *std::max_element(weights.begin(), weights.end());
  for (int scale = finest; scale > 0; --scale) {
    std::vector<double> rounded;
    double total = 0;
    for (size_t type = 0; type < weights.size(); ++type) {
      rounded.push_back(std::round(scale * weights[type] / largest));
      total += rounded.back() * evaluator.space.available[type];
      if (rounded.back() == 0 && evaluator.space.available[type] > 0)
        leastLevel = 0;
    }
    if (total <= mostLevels) {
      weights = std::move(rounded);
      levels = static_cast<int>(total);
      return true;
    }
    leastLevel = 1;
  }
  return false;
}

/// The time grows with the square of cuts and levels. n levels stand for a weight of at most
/// n·levelStep.
void SteadyBounds::setLevels(const Tuning &tuning) {
  const int mostLevels = tuning.steadyLevels / positions;
  if (!weighInIntegers(mostLevels)) {
    levels = std::max(mostLevels / finest, finest);
    double total = 0;
    for (size_t type = 0; type < weights.size(); ++type)
      total += weights[type] * evaluator.space.available[type];
    levelStep = total / levels;
  }
  for (const GroupOption &option : evaluator.space.options) {
    double speed = 0;
    for (size_t type = 0; type < weights.size(); ++type)
      speed += weights[type] * option.slots[type];
    int level = static_cast<int>(std::floor(speed / levelStep + 1e-9));
    optionLevels.push_back(std::min(level, levels));
  }
}

/// The stages between two positions, by the levels that they take.
std::vector<SteadyBounds::Least> SteadyBounds::leastByLevel(const StageTable &table,
                                                            bool wholeModelGroups, int begin,
                                                            int end) const {
  std::vector<Least> least(levels + 1, {infinity, infinity});
  const bool isLast = end + 1 == positions, isWhole = begin == 0 && isLast;
  for (int option = 0; option < static_cast<int>(optionLevels.size()); ++option) {
    const GroupOption &group = evaluator.space.options[option];
    const StageTimes &entry = table.at(begin, end, option);
    if ((group.wholeModelOnly && !(isWhole && wholeModelGroups)) ||
        entry.mostInFlight < std::min(microBatches, isLast ? 1 : 2))
      continue;
    const double time = (entry.forward + entry.backward) * safety;
    Least &own = least[optionLevels[option]];
    own.slowest = std::min(own.slowest, time);
    own.paid = std::min(own.paid, group.price.value() * microBatches * time);
  }
  return least;
}

void SteadyBounds::solve(const StageTable &table, bool wholeModelGroups) {
  rests.assign(size_t(positions) * (levels + 1), {infinity, infinity});
  std::fill_n(rests.begin(), levels + 1, Least{0, 0});
  for (int end = 1; end < positions; ++end)
    for (int begin = 0; begin < end; ++begin) {
      const std::vector<Least> stages = leastByLevel(table, wholeModelGroups, begin, end);
      for (int taken = 0; taken <= levels; ++taken)
        if (std::isfinite(stages[taken].slowest))
          addLastStage(begin, end, taken, stages[taken]);
    }
}

/// Puts a stage behind what is before it, for each number of levels that leaves enough to that.
void SteadyBounds::addLastStage(int begin, int end, int taken, Least own) {
  const Least *before = &rests[place(begin, 0)];
  Least *least = &rests[place(end, 0)];
  for (int level = taken + (begin > 0 ? leastLevel : 0); level <= levels; ++level) {
    const Least &rest = before[level - taken];
    least[level].slowest = std::min(least[level].slowest, std::max(own.slowest, rest.slowest));
    least[level].paid = std::min(least[level].paid, own.paid + rest.paid);
  }
}

double SteadyBounds::time(const PartialPlacement &partial) const {
  const int level = levelLeft(partial);
  if (level < leastLevel)
    return infinity;
  return microBatches * std::max(partial.slowest, rests[place(partial.position, level)].slowest);
}

} // namespace heterplan
