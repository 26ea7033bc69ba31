#include "search/exact/SurrogateBounds.h"

#include "search/exact/StateLoops.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-12;
} // namespace

SurrogateBounds::SurrogateBounds(const Evaluator &evaluator, const StageTable &table,
                                 bool wholeModelGroups)
    : evaluator(evaluator), microBatches(table.microBatches),
      positions(static_cast<int>(evaluator.space.positions.size())) {
  setWeights(table);
  setLevels();
  setLeastForward(table);
  fillBuckets(table, wholeModelGroups);
  solveRests();
  setThresholds(infinity, 0);
}

/// λ: how fast a type runs the whole model, so that equal work weighs about the same everywhere. A
/// type that cannot run it weighs as much as the fastest; any weights give a valid bound.
void SurrogateBounds::setWeights(const StageTable &table) {
  const SearchSpace &space = evaluator.space;
  int last = static_cast<int>(space.positions.size()) - 1;
  weights.assign(space.available.size(), 0);
  for (size_t option = 0; option < space.options.size(); ++option) {
    const DeviceGroup &group = space.options[option].group;
    double time = 0;
    for (int position = 1; position <= last; ++position) {
      const StageEntry &entry = table.at(position - 1, position, static_cast<int>(option));
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

int SurrogateBounds::levelLeft(const PartialPlacement &partial) const {
  double speed = 0;
  for (size_t type = 0; type < weights.size(); ++type)
    speed += weights[type] * (evaluator.space.available[type] - partial.used[type]);
  return std::clamp(static_cast<int>(std::ceil(speed / levelStep - 1e-9)), 0, levels);
}

/// Makes the weights integers, the largest that sum up to at most `mostLevels`, if there are any.
bool SurrogateBounds::weighInIntegers(int mostLevels) {
  constexpr int finest = 8;
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
void SurrogateBounds::setLevels() {
  if (!weighInIntegers(std::clamp(20000 / positions, 16, 256))) {
    levels = positions <= 64 ? 32 : 8;
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

void SurrogateBounds::setLeastForward(const StageTable &table) {
  leastForward.assign(positions, 0);
  for (int position = 1; position < positions; ++position) {
    double forward = infinity;
    for (size_t option = 0; option < optionLevels.size(); ++option) {
      const StageEntry &entry = table.at(position - 1, position, static_cast<int>(option));
      if (entry.estimate || entry.share > 0)
        forward = std::min(forward, entry.leastForward);
    }
    leastForward[position] =
        leastForward[position - 1] + evaluator.rules.fillWeight() * forward * safety;
  }
}

void SurrogateBounds::fillBuckets(const StageTable &table, bool wholeModelGroups) {
  std::vector<Bucket> byLevel(levels + 1);
  for (int end = 1; end < positions; ++end)
    for (int begin = 0; begin < end; ++begin) {
      for (int taken = 0; taken <= levels; ++taken)
        byLevel[taken] = {taken, infinity, infinity, infinity};
      bool whole = begin == 0 && end + 1 == positions;
      for (int option = 0; option < static_cast<int>(optionLevels.size()); ++option)
        if (!evaluator.space.options[option].wholeModelOnly || (whole && wholeModelGroups))
          addToBucket(table, begin, end, option, byLevel[optionLevels[option]]);
      firstBucket.push_back(buckets.size());
      copy_if(byLevel, std::back_inserter(buckets),
              [](const Bucket &bucket) { return std::isfinite(bucket.time); });
    }
  firstBucket.push_back(buckets.size());
}

void SurrogateBounds::addToBucket(const StageTable &table, int begin, int end, int option,
                                  Bucket &bucket) const {
  const StageEntry &entry = table.at(begin, end, option);
  bool last = end + 1 == positions;
  if (entry.mostInFlight < std::min(microBatches, last ? 1 : 2))
    return;
  double receive = begin > 0 ? table.leastReceive(begin, option, entry.share) : 0;
  double gradient = last ? 0 : table.leastReceiveGradient(end, option, entry.share);
  double time = (entry.forward + entry.backward + receive + gradient) * safety;
  bucket.time = std::min(bucket.time, time);
  bucket.sync = std::min(bucket.sync, entry.sync * safety);
  double wholeTime = microBatches * time + entry.sync * safety; // see Lagrangian.h
  bucket.paid = std::min(bucket.paid, evaluator.space.options[option].price.value() * wholeTime);
}

/// Calls `relax(begin, bucket, level)` for each last open stage [begin, position), for each
/// position in order, and each number of levels of which it takes its part and leaves some to those
/// before.
template <typename Relax> void SurrogateBounds::overLastStages(Relax relax) const {
  size_t pair = 0;
  for (int position = 1; position < positions; ++position)
    for (int begin = 0; begin < position; ++begin, ++pair)
      for (size_t i = firstBucket[pair]; i < firstBucket[pair + 1]; ++i)
        relax(position, begin, buckets[i], buckets[i].taken + (begin > 0 ? leastLevel : 0));
}

/// Its own share, and the rest before it with the levels that it leaves.
void SurrogateBounds::solveRests() {
  rests.assign(size_t(positions) * (levels + 1), {infinity, infinity});
  std::fill_n(rests.begin(), levels + 1, Rest{0, 0});
  overLastStages([&](int position, int begin, const Bucket &bucket, int fewest) {
    const Rest *before = &rests[place(begin, 0)];
    Rest *least = &rests[place(position, 0)];
    for (int level = fewest; level <= levels; ++level) {
      least[level].slowest = std::min(least[level].slowest,
                                      std::max(bucket.time, before[level - bucket.taken].slowest));
      least[level].paid =
          std::min(least[level].paid, bucket.paid + before[level - bucket.taken].paid);
    }
  });
}

/// A geometric grid from the least possible slowest stage to `longest`.
void SurrogateBounds::setThresholds(double longest, int steps) {
  thresholds.clear();
  double least = rests[place(positions - 1, levels)].slowest;
  if (microBatches > evaluator.rules.fillWeight() && std::isfinite(least) && least > 0)
    for (int step = 1; step <= steps; ++step)
      thresholds.push_back(least * std::pow(longest / least, double(step) / steps));
  thresholds.push_back(infinity);
  fills.assign(thresholds.size() * rests.size(), 0);
  for (size_t threshold = 0; threshold < thresholds.size(); ++threshold)
    solveFills(static_cast<int>(threshold));
}

/// Where (m−1)·T alone takes longer than `timeLimit`, nothing is of interest.
void SurrogateBounds::refine(double timeLimit) {
  constexpr int steps = 32, stepsWithoutLimit = 10;
  double weight = evaluator.rules.fillWeight();
  double least = rests[place(positions - 1, levels)].slowest;
  double longest = (timeLimit - leastForward[positions - 1]) / (microBatches - weight);
  if (!std::isfinite(longest))
    setThresholds(4 * least, stepsWithoutLimit);
  else if (microBatches > weight && longest > least)
    setThresholds(longest, steps);
}

void SurrogateBounds::solveFills(int threshold) {
  const double limit = thresholds[threshold], weight = evaluator.rules.fillWeight();
  double *fill = &fills[size_t(threshold) * rests.size()];
  std::fill_n(fill, rests.size(), infinity);
  std::fill_n(fill, levels + 1, 0);
  overLastStages([&](int position, int begin, const Bucket &bucket, int fewest) {
    if (bucket.time > limit)
      return;
    const double own = weight * bucket.time, sync = bucket.sync + leastForward[begin];
    const double *before = fill + place(begin, 0);
    double *least = fill + place(position, 0);
    if (fewest <= levels)
      addBehind(own, sync, before + fewest - bucket.taken, least + fewest, levels + 1 - fewest);
  });
}

double SurrogateBounds::time(const PartialPlacement &partial) const {
  const double weight = evaluator.rules.fillWeight();
  const int level = levelLeft(partial);
  if (level < leastLevel)
    return infinity;
  double behind = weight * partial.exposed + leastForward[partial.position];
  double atLeast = rests[place(partial.position, level)].slowest; // T_{k−1}
  double least = infinity;
  for (size_t k = 0; k < thresholds.size(); ++k) {
    if (thresholds[k] < atLeast)
      continue;
    double open = std::max(fillOf(static_cast<int>(k), partial.position, level), behind);
    least = std::min(least, open + (microBatches - weight) * std::max(partial.slowest, atLeast));
    atLeast = thresholds[k];
  }
  return partial.fill + least;
}

} // namespace heterplan
