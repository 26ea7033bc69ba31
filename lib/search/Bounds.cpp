#include "search/Bounds.h"

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
    : evaluator(evaluator), microBatches(table.microBatches) {
  const Problem &problem = evaluator.problem;
  cheapest = infinity;
  for (size_t type = 0; type < problem.cluster.types.size(); ++type)
    if (evaluator.space.available[type] > 0)
      cheapest = std::min(cheapest, problem.cluster.types[type].price.value());
  setWeights(table);
  solve(table, wholeModelGroups);
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

/// Level l stands for at most (l+1)·levelStep of speed.
void Bounds::solve(const StageTable &table, bool wholeModelGroups) {
  const SearchSpace &space = evaluator.space;
  int count = static_cast<int>(space.positions.size());
  double total = 0;
  for (size_t type = 0; type < weights.size(); ++type)
    total += weights[type] * space.available[type];
  levelStep = total / levels;
  for (const GroupOption &option : space.options) {
    double speed = 0;
    for (size_t type = 0; type < weights.size(); ++type)
      speed += weights[type] * option.slots[type];
    optionLevels.push_back(static_cast<int>(std::floor(speed / levelStep + 1e-9)));
  }
  leastForward.assign(count, 0);
  rests.assign(size_t(count) * levels, {0, 0, 0});
  for (int position = 1; position < count; ++position) {
    double forward = infinity;
    for (size_t option = 0; option < space.options.size(); ++option) {
      const StageEntry &entry = table.at(position - 1, position, static_cast<int>(option));
      if (entry.estimate)
        forward = 0; // in another place its balance may be another
      else if (entry.share > 0)
        forward = std::min(forward, entry.forward);
    }
    leastForward[position] = leastForward[position - 1] + forward * safety;
    for (int level = 0; level < levels; ++level)
      rests[position * levels + level] = leastRest(table, position, level, wholeModelGroups);
  }
}

/// Over the last open stage [begin, position) on some option: its own share, and the rest before it
/// with the speed that it leaves.
Bounds::Rest Bounds::leastRest(const StageTable &table, int position, int level,
                               bool wholeModelGroups) const {
  const SearchSpace &space = evaluator.space;
  bool last = position + 1 == static_cast<int>(space.positions.size());
  int inFlight = std::min(microBatches, last ? 1 : 2);
  Rest least{infinity, infinity, infinity};
  for (int option = 0; option < static_cast<int>(space.options.size()); ++option) {
    if (optionLevels[option] > level + 1)
      continue;
    bool whole = space.options[option].wholeModelOnly;
    if (whole && (!last || !wholeModelGroups))
      continue;
    double price = space.options[option].price.value();
    for (int begin = whole ? 0 : position - 1; begin >= 0; --begin) {
      const StageEntry &entry = table.at(begin, position, option);
      if (entry.mostInFlight < inFlight)
        continue;
      double receive = begin > 0 ? table.leastReceive(begin, option, entry.share) : 0;
      double gradient = last ? 0 : table.leastReceiveGradient(position, option, entry.share);
      double time = (entry.forward + entry.backward + receive + gradient) * safety;
      Rest before{0, 0, 0};
      int left = level - optionLevels[option];
      if (begin > 0)
        before = left >= 0 ? rest(begin, left) : Rest{infinity, infinity, infinity};
      double behind = std::max(before.fill, entry.sync * safety + leastForward[begin]);
      least.fill = std::min(least.fill, time + behind);
      least.slowest = std::min(least.slowest, std::max(time, before.slowest));
      least.paid = std::min(least.paid, price * microBatches * time + before.paid);
    }
  }
  return least;
}

double Bounds::time(const PartialPlacement &partial) const {
  if (partial.position == 0)
    return partial.fill + partial.exposed + (microBatches - 1) * partial.slowest;
  int level = levelOf(partial.freeSpeed);
  if (level < 0)
    return infinity;
  const Rest &open = rest(partial.position, level);
  double behind = std::max(open.fill, partial.exposed + leastForward[partial.position]);
  return partial.fill + behind + (microBatches - 1) * std::max(partial.slowest, open.slowest);
}

double Bounds::objective(const PartialPlacement &partial, double timeLimit) const {
  const Request &request = evaluator.problem.request;
  double least = time(partial);
  if (!(least <= timeLimit))
    return infinity;
  double paid = partial.position > 0 ? rest(partial.position, levelOf(partial.freeSpeed)).paid : 0;
  double price = partial.price + (partial.position > 0 ? cheapest : 0);
  if (request.maxCostPerHour > DollarsPerHour(0)) {
    double priceByWork = std::isfinite(timeLimit) ? partial.price + paid / timeLimit : 0;
    if (std::max(price, priceByWork) > request.maxCostPerHour.value() * (1 + 1e-9))
      return infinity;
  }
  if (request.objective == Objective::Throughput)
    return least;
  double cost = std::max(price * least, partial.price * least + paid);
  return cost / 3600 / double(request.globalBatch.value()) * 1e6 * safety;
}

double Bounds::root() const {
  PartialPlacement open;
  open.position = static_cast<int>(evaluator.space.positions.size()) - 1;
  for (size_t type = 0; type < weights.size(); ++type)
    open.freeSpeed += weights[type] * evaluator.space.available[type];
  double limit = infinity;
  const Request &request = evaluator.problem.request;
  if (request.minThroughput > SamplesPerSecond(0))
    limit = double(request.globalBatch.value()) / request.minThroughput.value() * (1 + 1e-9);
  return objective(open, limit);
}

} // namespace heterplan
