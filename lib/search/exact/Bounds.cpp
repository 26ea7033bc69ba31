#include "search/exact/Bounds.h"

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

Bounds::Bounds(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups)
    : evaluator(evaluator), microBatches(table.microBatches),
      positions(static_cast<int>(evaluator.space.positions.size())),
      lagrangian(evaluator, table, wholeModelGroups) {
  const Problem &problem = evaluator.problem;
  cheapest = infinity;
  for (size_t type = 0; type < problem.cluster.types.size(); ++type)
    if (evaluator.space.available[type] > 0)
      cheapest = std::min(cheapest, problem.cluster.types[type].price.value());
  setWeights(table);
  setLevels();
  setLeastForward(table);
  fillBuckets(table, wholeModelGroups);
  solveRests();
  setThresholds();
  fills.assign(thresholds.size() * rests.size(), 0);
  for (size_t threshold = 0; threshold < thresholds.size(); ++threshold)
    solveFills(static_cast<int>(threshold));
  bucketTable = {}; // only needed above
}

/// λ: how fast a type runs the whole model, so that equal work weighs about the same everywhere. A
/// type that cannot run it weighs as much as the fastest; any weights give a valid bound.
void Bounds::setWeights(const StageTable &table) {
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

int Bounds::levelOf(double speed) const {
  return std::clamp(static_cast<int>(std::ceil(speed / levelStep - 1e-9)) - 1, -1, levels - 1);
}

int Bounds::levelLeft(const PartialPlacement &partial) const {
  double speed = 0;
  for (size_t type = 0; type < weights.size(); ++type)
    speed += weights[type] * (evaluator.space.available[type] - partial.used[type]);
  return levelOf(speed);
}

/// Level l stands for at most (l+1)·levelStep of speed.
void Bounds::setLevels() {
  double total = 0;
  for (size_t type = 0; type < weights.size(); ++type)
    total += weights[type] * evaluator.space.available[type];
  levelStep = total / levels;
  for (const GroupOption &option : evaluator.space.options) {
    double speed = 0;
    for (size_t type = 0; type < weights.size(); ++type)
      speed += weights[type] * option.slots[type];
    int level = static_cast<int>(std::floor(speed / levelStep + 1e-9));
    optionLevels.push_back(std::min(level, levels));
  }
}

void Bounds::setLeastForward(const StageTable &table) {
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

void Bounds::fillBuckets(const StageTable &table, bool wholeModelGroups) {
  bucketTable.assign(size_t(positions) * (positions - 1) / 2 * (levels + 1),
                     {infinity, infinity, infinity});
  for (int end = 1; end < positions; ++end)
    for (int begin = 0; begin < end; ++begin)
      for (int option = 0; option < static_cast<int>(optionLevels.size()); ++option) {
        bool whole = begin == 0 && end + 1 == positions;
        if (!evaluator.space.options[option].wholeModelOnly || (whole && wholeModelGroups))
          addToBucket(table, begin, end, option);
      }
}

void Bounds::addToBucket(const StageTable &table, int begin, int end, int option) {
  const StageEntry &entry = table.at(begin, end, option);
  bool last = end + 1 == positions;
  if (entry.mostInFlight < std::min(microBatches, last ? 1 : 2))
    return;
  double receive = begin > 0 ? table.leastReceive(begin, option, entry.share) : 0;
  double gradient = last ? 0 : table.leastReceiveGradient(end, option, entry.share);
  double time = (entry.forward + entry.backward + receive + gradient) * safety;
  Bucket &bucket = buckets(begin, end)[optionLevels[option]];
  bucket.time = std::min(bucket.time, time);
  bucket.sync = std::min(bucket.sync, entry.sync * safety);
  double wholeTime = microBatches * time + entry.sync * safety; // see Lagrangian.h
  bucket.paid = std::min(bucket.paid, evaluator.space.options[option].price.value() * wholeTime);
}

/// Over the last open stage [begin, position) and the levels it takes: its own share, and the rest
/// before it with the levels that it leaves. A stage that takes all levels leaves no device.
void Bounds::solveRests() {
  rests.assign(size_t(positions) * levels, {0, 0});
  for (int position = 1; position < positions; ++position)
    for (int level = 0; level < levels; ++level) {
      Rest least{infinity, infinity};
      for (int begin = 0; begin < position; ++begin)
        for (int taken = 0; taken <= level + (begin == 0); ++taken) {
          const Bucket &bucket = buckets(begin, position)[taken];
          Rest before = begin > 0 ? rests[place(begin, level - taken)] : Rest{0, 0};
          least.slowest = std::min(least.slowest, std::max(bucket.time, before.slowest));
          least.paid = std::min(least.paid, bucket.paid + before.paid);
        }
      rests[place(position, level)] = least;
    }
}

/// A geometric grid from the least possible slowest stage.
void Bounds::setThresholds() {
  constexpr int steps = 10;
  constexpr double ratio = 1.15;
  double least = rests[place(positions - 1, levels - 1)].slowest;
  if (microBatches > evaluator.rules.fillWeight() && std::isfinite(least) && least > 0)
    for (int step = 1; step <= steps; ++step)
      thresholds.push_back(least * std::pow(ratio, step));
  thresholds.push_back(infinity);
}

void Bounds::solveFills(int threshold) {
  double limit = thresholds[threshold];
  double *fill = &fills[size_t(threshold) * rests.size()];
  for (int position = 1; position < positions; ++position)
    for (int level = 0; level < levels; ++level) {
      double least = infinity;
      for (int begin = 0; begin < position; ++begin)
        for (int taken = 0; taken <= level + (begin == 0); ++taken) {
          const Bucket &bucket = buckets(begin, position)[taken];
          if (bucket.time > limit || evaluator.rules.fillWeight() * bucket.time >= least)
            continue;
          double before = begin > 0 ? fill[place(begin, level - taken)] : 0;
          double behind = std::max(before, bucket.sync + leastForward[begin]);
          least = std::min(least, evaluator.rules.fillWeight() * bucket.time + behind);
        }
      fill[place(position, level)] = least;
    }
}

double Bounds::time(const PartialPlacement &partial) const {
  double weight = evaluator.rules.fillWeight();
  if (partial.position == 0)
    return partial.fill + weight * partial.exposed + (microBatches - weight) * partial.slowest;
  int level = levelLeft(partial);
  if (level < 0)
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
  return std::max(partial.fill + least, lagrangian.time(partial));
}

double Bounds::objective(const PartialPlacement &partial, double timeLimit) const {
  const Request &request = evaluator.problem.request;
  double least = time(partial);
  if (!(least <= timeLimit))
    return infinity;
  double paid = 0;
  if (partial.position > 0)
    paid = rests[place(partial.position, levelLeft(partial))].paid;
  double price = partial.price + (partial.position > 0 ? cheapest : 0);
  if (request.maxCostPerHour > DollarsPerHour(0)) {
    double priceByWork = std::isfinite(timeLimit) ? partial.price + paid / timeLimit : 0;
    if (std::max(price, priceByWork) > request.maxCostPerHour.value() * (1 + 1e-9))
      return infinity;
  }
  bool maximise = request.objective == Objective::Throughput;
  double cost = std::max(price * least, partial.price * least + paid);
  if (!maximise)
    cost = std::max(cost, lagrangian.cost(partial));
  if (cost * safety > request.highestCost().value() * 3600 * (1 + 1e-9))
    return infinity;
  if (maximise)
    return least;
  return cost / 3600 / double(request.globalBatch.value()) * 1e6 * safety;
}

void Bounds::tighten(double timeLimit, double best) {
  if (evaluator.rules.slowestDecides()) // no fill to bound
    return;
  lagrangian.tighten(timeLimit, costOf(best));
}

double Bounds::costOf(double objective) const {
  const Request &request = evaluator.problem.request;
  if (request.objective == Objective::Throughput)
    return infinity;
  return objective * 3600 * double(request.globalBatch.value()) / 1e6;
}

bool Bounds::listExtensions(const PartialPlacement &partial, double timeLimit, double best,
                            SmallVectorImpl<Lagrangian::Extension> &found) {
  if (!lagrangian.isTight())
    return false;
  lagrangian.listExtensions(partial, timeLimit, costOf(best), found);
  return true;
}

/// All layers open; `none` becomes the devices that are used.
PartialPlacement Bounds::rootPlacement(std::vector<int> &none) const {
  PartialPlacement open;
  open.position = positions - 1;
  none.assign(weights.size(), 0);
  open.used = none;
  return open;
}

double Bounds::rootTime() const {
  std::vector<int> none;
  return time(rootPlacement(none));
}

double Bounds::root() const {
  double limit = evaluator.problem.request.longestIteration().value() * (1 + 1e-9);
  std::vector<int> none;
  return objective(rootPlacement(none), limit);
}

} // namespace heterplan
