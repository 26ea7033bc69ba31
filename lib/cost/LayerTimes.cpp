#include "cost/LayerTimes.h"

using namespace llvm;

namespace heterplan {

LayerTimes::LayerTimes(const std::vector<std::optional<LayerCost>> &costs, int64_t microBatches)
    : sums(1) {
  double added = double(microBatches - 1) / double(microBatches); // gradients, a backward pass
  for (size_t i = 0; i < costs.size(); ++i) {
    layers.push_back(costs[i].value_or(LayerCost()));
    const LayerCost &cost = layers.back();
    Sums next = sums.back();
    next.forward += cost.forward;
    next.backward += cost.backward + cost.accumulate * added;
    next.update += cost.update;
    next.unknown += !costs[i];
    sums.push_back(next);
  }
}

void LayerTimes::addByOrigin(LayerRange range, double forwardPasses, double backwardPasses,
                             double updates, SecondsByOrigin &into) const {
  for (int i = range.begin; i < range.end; ++i) {
    const LayerCost &cost = layers[i];
    double passes =
        forwardPasses == backwardPasses
            ? forwardPasses * (cost.forward + cost.backward).value()
            : forwardPasses * cost.forward.value() + backwardPasses * cost.backward.value();
    into[static_cast<size_t>(cost.provenance)] += passes + updates * cost.update.value();
  }
}

LayerTimesTable::LayerTimesTable(const LayerGraph &graph, const Cluster &cluster,
                                 const CostModel &costs, MayRun mayRun)
    : graph(graph), cluster(cluster), costs(costs), mayRun(std::move(mayRun)) {}

std::unique_ptr<LayerTimes> LayerTimesTable::ask(int type, int64_t samples, int64_t microBatches) {
  std::vector<std::optional<LayerCost>> found(graph.layers.size());
  for (int i = 0; i < graph.size(); ++i) {
    if (!mayRun(i, type)) {
      found[i] = LayerCost();
      continue;
    }
    Expected<LayerCost> cost = costs.price(graph.layers[i], cluster.types[type], Samples(samples));
    if (cost)
      found[i] = *cost;
    else if (failure) // Error's bool is true when it holds a failure
      consumeError(cost.takeError());
    else
      failure = cost.takeError();
  }
  return std::make_unique<LayerTimes>(found, microBatches);
}

Error LayerTimesTable::takeError() {
  Error result = std::move(failure);
  failure = Error::success();
  return result;
}

} // namespace heterplan
