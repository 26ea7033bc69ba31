#include "search/Bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-12;
/// Balanced shares of mixed groups can be any number; up to here each one is priced.
constexpr int64_t mostSharesPriced = 128;

/// A share, and the largest share that its time is a lower bound for.
using ShareRange = std::pair<int64_t, int64_t>;

/// The shares that stages can give a device of `type` for micro-batches of `batch`.
std::vector<ShareRange> possibleShares(const SearchSpace &space, int type, int64_t batch,
                                       bool wholeModel) {
  std::set<int64_t> exact;
  bool mixed = false;
  for (const GroupOption &option : space.options) {
    if (option.group.counts.size() > 1)
      mixed |= wholeModel || !option.wholeModelOnly;
    else if (option.group.counts.front().first == type && option.group.size() <= batch)
      exact.insert((batch + option.group.size() - 1) / option.group.size());
  }
  std::vector<ShareRange> ranges;
  for (int64_t share : exact)
    ranges.push_back({share, share});
  if (mixed && space.available[type] > 0)
    for (int64_t share = 1; share <= batch;) {
      int64_t next = share < mostSharesPriced ? share + 1 : share + share / 16;
      ranges.push_back({share, std::min(next - 1, batch)}); // times never fall with the share
      share = next;
    }
  return ranges;
}
} // namespace

Bounds::Bounds(Evaluator &evaluator, int microBatches, bool wholeModelGroups)
    : evaluator(evaluator), microBatches(microBatches) {
  const Problem &problem = evaluator.problem;
  int64_t batch = problem.request.globalBatch.value() / microBatches;
  cheapest = infinity;
  for (size_t type = 0; type < problem.cluster.types.size(); ++type)
    if (evaluator.space.available[type] > 0)
      cheapest = std::min(cheapest, problem.cluster.types[type].price.value());
  std::vector<LeastTimes> layers = leastTimes(evaluator, batch, wholeModelGroups);
  setWeights(layers);
  accumulate(layers, batch);
}

std::vector<Bounds::LeastTimes> Bounds::leastTimes(Evaluator &evaluator, int64_t batch,
                                                   bool wholeModel) {
  int types = static_cast<int>(evaluator.problem.cluster.types.size());
  std::vector<LeastTimes> layers(evaluator.problem.graph.size(),
                                 {std::vector<double>(types, infinity), infinity, infinity});
  for (int type = 0; type < types; ++type)
    for (auto [share, largest] : possibleShares(evaluator.space, type, batch, wholeModel)) {
      const PrefixSums &sums = evaluator.prices().at(type, share);
      for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
        if (!evaluator.pinsAllow(i, i + 1, type))
          continue;
        double forward = sums.forwardOf(i, i + 1), total = forward + sums.backwardOf(i, i + 1);
        layers[i].unit[type] = std::min(layers[i].unit[type], total / double(largest));
        layers[i].forward = std::min(layers[i].forward, forward);
        layers[i].total = std::min(layers[i].total, total);
      }
    }
  return layers;
}

/// λ: the speed of a type on the layers that it may hold, so that equal work weighs about the same
/// everywhere. Any weights give a valid bound.
void Bounds::setWeights(const std::vector<LeastTimes> &layers) {
  weights.assign(evaluator.problem.cluster.types.size(), 0);
  for (size_t type = 0; type < weights.size(); ++type) {
    double total = 0;
    for (const LeastTimes &layer : layers)
      total += std::isfinite(layer.unit[type]) ? layer.unit[type] : 0;
    weights[type] = total > 0 ? 1 / total : 1;
  }
}

void Bounds::accumulate(const std::vector<LeastTimes> &layers, int64_t batch) {
  double fill = 0, forward = 0, slowest = 0, weighted = 0, paid = 0;
  int next = 0;
  for (int position : evaluator.space.positions) {
    for (; next < position; ++next) {
      const LeastTimes &layer = layers[next];
      fill += layer.total;
      forward += layer.forward;
      slowest = std::max(slowest, layer.total);
      double leastWork = infinity, leastCost = infinity;
      for (size_t type = 0; type < weights.size(); ++type) {
        double price = evaluator.problem.cluster.types[type].price.value();
        leastWork = std::min(leastWork, weights[type] * layer.unit[type]);
        if (std::isfinite(layer.unit[type]))
          leastCost = std::min(leastCost, price * layer.unit[type]);
      }
      weighted += leastWork * double(batch);
      paid += leastCost * double(batch) * microBatches;
    }
    leastFill.push_back(fill * safety);
    leastForward.push_back(forward * safety);
    leastSlowest.push_back(slowest * safety);
    work.push_back(weighted * safety);
    cost.push_back(paid * safety);
  }
}

double Bounds::time(const PartialPlacement &partial) const {
  int i = partial.position;
  double slowest = std::max({partial.slowest, leastSlowest[i],
                             partial.freeSpeed > 0 ? work[i] / partial.freeSpeed
                             : work[i] > 0         ? infinity
                                                   : 0});
  double rest = std::max(leastFill[i], partial.exposed + leastForward[i]);
  return partial.fill + rest + (microBatches - 1) * slowest;
}

double Bounds::objective(const PartialPlacement &partial, double timeLimit) const {
  const Request &request = evaluator.problem.request;
  double least = time(partial);
  if (!(least <= timeLimit))
    return infinity;
  double open = cost[partial.position];
  double price = partial.price + (partial.position > 0 ? cheapest : 0);
  if (request.maxCostPerHour > DollarsPerHour(0)) {
    double priceByWork = std::isfinite(timeLimit) ? partial.price + open / timeLimit : 0;
    if (std::max(price, priceByWork) > request.maxCostPerHour.value() * (1 + 1e-9))
      return infinity;
  }
  if (request.objective == Objective::Throughput)
    return least;
  double paid = std::max(price * least, partial.price * least + open);
  return paid / 3600 / double(request.globalBatch.value()) * 1e6 * safety;
}

double Bounds::root() const {
  PartialPlacement open;
  open.position = static_cast<int>(evaluator.space.positions.size()) - 1;
  for (size_t type = 0; type < weights.size(); ++type)
    open.freeSpeed += weights[type] * evaluator.space.available[type];
  double limit = infinity;
  const Request &request = evaluator.problem.request;
  if (request.minThroughput > SamplesPerSecond(0))
    limit = request.globalBatch.value() / request.minThroughput.value() * (1 + 1e-9);
  return objective(open, limit);
}

} // namespace heterplan
