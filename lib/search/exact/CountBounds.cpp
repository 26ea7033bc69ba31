#include "search/exact/CountBounds.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-9;
/// Shares of groups of several types are looked at up to this one; beyond it nothing is known.
constexpr int64_t mostMixedSamples = 512;
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
    double work = (times.forward(all) + times.backward(all)).value() * count;
    if (work > 0)
      weights[type] = std::max(weights[type], 1 / work);
  }
  double fastest = *std::max_element(weights.begin(), weights.end());
  for (double &weight : weights)
    if (weight == 0)
      weight = fastest > 0 ? fastest : 1;
}

/// On one device of `type`, any number of samples at a time.
double CountBounds::leastOfSample(LayerRange block, int type, int microBatches) {
  double least = infinity;
  for (int64_t share = 1; share <= evaluator.stages.fullSize(microBatches); ++share) {
    const LayerTimes &times = evaluator.stages.timesOf(type, share, microBatches);
    if (times.known(block))
      least = std::min(least, (times.forward(block) + times.backward(block)).value() / share);
  }
  return least;
}

void CountBounds::addMixed(LayerRange block, int microBatches, Least &least) {
  int64_t batch = evaluator.stages.fullSize(microBatches);
  if (batch > mostMixedSamples) {
    least = {0, 0, 0};
    return;
  }
  std::vector<double> samples(weights.size(), -1); // by type; negative: not known yet
  for (const GroupOption *option : mixed) {
    double samplesPerSecond = 0, weight = 0;
    for (auto [type, count] : option->group.counts) {
      if (samples[type] < 0)
        samples[type] = leastOfSample(block, type, microBatches);
      samplesPerSecond += count / samples[type];
      weight += weights[type] * option->slots[type];
    }
    double time = double(batch) / samplesPerSecond;
    least.work = std::min(least.work, weight * time);
    least.time = std::min(least.time, time);
    least.price = std::min(least.price, option->price.value() * time);
  }
}

CountBounds::Least CountBounds::leastOf(LayerRange block, int microBatches) {
  Least least{infinity, infinity, infinity};
  for (const Group &group : groups) {
    if (!evaluator.stages.mayRun(block, group.type) || !group.times->known(block))
      continue;
    double time = (group.times->forward(block) + group.times->backward(block)).value();
    least.work = std::min(least.work, weights[group.type] * group.option->slots[group.type] * time);
    least.time = std::min(least.time, time);
    least.price = std::min(least.price, group.option->price.value() * time);
  }
  if (!mixed.empty())
    addMixed(block, microBatches, least);
  return least;
}

double CountBounds::objective(int microBatches) {
  const Request &request = evaluator.problem.request;
  if (evaluator.stages.costs.fit()) // of stages, not of layers
    return 0;
  listGroups(microBatches);
  Least all{0, 0, 0};
  const std::vector<int> &positions = evaluator.space.positions;
  for (size_t i = 1; i < positions.size(); ++i) {
    Least block = leastOf({positions[i - 1], positions[i]}, microBatches);
    all.work += block.work;
    all.time += block.time;
    all.price += block.price;
  }
  double devices = 0;
  for (size_t type = 0; type < weights.size(); ++type)
    devices += weights[type] * evaluator.space.available[type];
  double slowest = all.work / devices, weight = evaluator.rules.fillWeight();
  double time = (weight * all.time + (microBatches - weight) * slowest) * safety;
  if (!(time <= request.longestIteration().value() * (1 + 1e-9)))
    return infinity;
  if (request.objective == Objective::Throughput)
    return time;
  return all.price * microBatches * safety / 3600 / double(request.globalBatch.value()) * 1e6;
}

std::vector<std::pair<double, int>> CountBounds::inOrder() {
  std::vector<std::pair<double, int>> order;
  for (int choice = 0; choice < int(evaluator.space.microBatches.size()); ++choice)
    order.push_back({objective(evaluator.space.microBatches[choice]), choice});
  std::sort(order.begin(), order.end());
  return order;
}

} // namespace heterplan
