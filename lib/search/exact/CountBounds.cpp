#include "search/exact/CountBounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-9;
} // namespace

CountBounds::CountBounds(Evaluator &evaluator, bool wholeModelGroups) : evaluator(evaluator) {
  for (const GroupOption &option : evaluator.space.options)
    if (option.group.counts.size() == 1)
      alone.push_back(&option);
    else if (wholeModelGroups || !option.wholeModelOnly)
      mixed.push_back(&option);
}

/// The weight of a type is how fast a device of it runs the whole model, so that equal work weighs
/// about the same everywhere.
void CountBounds::listGroups(int microBatches) {
  int64_t batch = evaluator.stages.fullSize(microBatches);
  LayerRange all{0, evaluator.problem.graph.size()};
  groups.clear();
  weights.assign(evaluator.space.available.size(), 0);
  for (const GroupOption *option : alone) {
    auto [type, count] = option->group.counts.front();
    if (!evaluator.space.isUseful(*option, batch))
      continue;
    const LayerTimes &times =
        evaluator.stages.timesOf(type, (batch + count - 1) / count, microBatches);
    groups.push_back({option, type, count, &times});
    const TypeRoom &room = evaluator.space.rooms[type];
    double work = (times.forward(all) + times.backward(all)).value() * count * room.shards;
    if (work > 0)
      weights[room.pool] = std::max(weights[room.pool], 1 / work);
  }
  double fastest = *std::max_element(weights.begin(), weights.end());
  for (double &weight : weights)
    if (weight == 0)
      weight = fastest > 0 ? fastest : 1;
  devices = 0;
  for (size_t type = 0; type < weights.size(); ++type)
    if (evaluator.space.rooms[type].pool == int(type))
      devices += weights[type] * evaluator.space.available[type];
  passes = microBatches - evaluator.rules.fillWeight();
}

void CountBounds::lower(Least &least, double time, double weight, double price) const {
  least.work = std::min(least.work, weight * time);
  least.time = std::min(least.time, time);
  least.price = std::min(least.price, price * time);
  const double budget = evaluator.problem.request.maxCostPerHour.value() * (1 + 1e-9); // 0: none
  const double ofDevices = weight / devices, ofMoney = budget > 0 ? price / budget : 0;
  for (int mean = 0; mean < (budget > 0 ? means : 1); ++mean) {
    const double part = ofDevices + (ofMoney - ofDevices) * mean / (means - 1);
    least.whole[mean] =
        std::min(least.whole[mean], time * (evaluator.rules.fillWeight() + passes * part));
  }
}

void CountBounds::addMixed(int block, const LeastMixedTimes &together, Least &least) const {
  for (const GroupOption *option : mixed) {
    double time = together.seconds(option->group, block, block + 1), weight = 0;
    for (auto [type, count] : option->group.counts) {
      const int pool = evaluator.space.rooms[type].pool;
      weight += weights[pool] * option->slots[pool];
    }
    lower(least, time, weight, option->price.value());
  }
}

/// `block`: the layers from this position to the next.
CountBounds::Least CountBounds::leastOf(int block, const LeastMixedTimes &together) const {
  const std::vector<int> &positions = evaluator.space.positions;
  LayerRange layers{positions[block], positions[block + 1]};
  Least least{infinity, infinity, infinity};
  least.whole.fill(infinity);
  for (const Group &group : groups) {
    if (!evaluator.stages.mayRun(layers, group.type) || !group.times->known(layers))
      continue;
    double time = (group.times->forward(layers) + group.times->backward(layers)).value();
    const int pool = evaluator.space.rooms[group.type].pool;
    lower(least, time, weights[pool] * group.option->slots[pool], group.option->price.value());
  }
  addMixed(block, together, least);
  return least;
}

double CountBounds::objective(int microBatches) {
  const Request &request = evaluator.problem.request;
  if (evaluator.stages.costs.fit()) // of stages, not of layers
    return 0;
  listGroups(microBatches);
  const LeastMixedTimes together(evaluator.stages, evaluator.space, microBatches);
  Least all{0, 0, 0};
  double slowest = 0;
  for (int i = 0; i + 1 < int(evaluator.space.positions.size()); ++i) {
    Least block = leastOf(i, together);
    all.work += block.work;
    all.time += block.time;
    all.price += block.price;
    for (int mean = 0; mean < means; ++mean)
      all.whole[mean] += std::isfinite(block.whole[mean]) ? block.whole[mean] : 0;
    slowest = std::max(slowest, block.time);
  }
  slowest = std::max(slowest, all.work / devices);
  const double weight = evaluator.rules.fillWeight();
  double time = (weight * all.time + (microBatches - weight) * slowest) * safety;
  for (double whole : all.whole)
    time = std::max(time, whole * safety);
  if (!(time <= request.longestIteration().value() * (1 + 1e-9)))
    return infinity;
  if (request.objective == Objective::Throughput)
    return time;
  return all.price * microBatches * safety / 3600 / double(request.globalBatch.value()) * 1e6;
}

std::vector<double> CountBounds::timesBefore(int microBatches) {
  std::vector<double> before(evaluator.space.positions.size());
  if (evaluator.stages.costs.fit())
    return before;
  listGroups(microBatches);
  const LeastMixedTimes together(evaluator.stages, evaluator.space, microBatches);
  const double weight = evaluator.rules.fillWeight() * safety;
  for (size_t i = 0; i + 1 < before.size(); ++i)
    before[i + 1] = before[i] + weight * leastOf(int(i), together).time;
  return before;
}

std::vector<std::pair<double, int>> CountBounds::inOrder() {
  std::vector<std::pair<double, int>> order;
  order.reserve(evaluator.space.microBatches.size());
  for (int choice = 0; choice < int(evaluator.space.microBatches.size()); ++choice)
    order.push_back({objective(evaluator.space.microBatches[choice]), choice});
  std::sort(order.begin(), order.end());
  return order;
}

} // namespace heterplan
