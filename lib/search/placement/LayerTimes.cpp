#include "search/placement/LayerTimes.h"

#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
bool pinnedElsewhere(const Request &request, const Layer &layer, const std::string &type) {
  for (const Pin &pin : request.pins)
    if (pin.layer == layer.name && pin.type != type)
      return true;
  return false;
}
} // namespace

const PrefixSums &LayerTimes::at(int type, int64_t samples, int64_t microBatches) {
  std::unique_ptr<PrefixSums> &entry = tables[{type, samples, microBatches}];
  if (!entry)
    entry = price(type, samples, microBatches);
  return *entry;
}

std::unique_ptr<PrefixSums> LayerTimes::price(int type, int64_t samples, int64_t microBatches) {
  constexpr double unaffordable = std::numeric_limits<double>::max() / 1e6;
  auto sums = std::make_unique<PrefixSums>();
  size_t layers = problem.graph.layers.size();
  for (std::vector<double> *sum : {&sums->forward, &sums->backward, &sums->update})
    sum->assign(layers + 1, 0);
  double added = double(microBatches - 1) / double(microBatches); // gradients, a backward pass
  const std::string &typeName = problem.cluster.types[type].name;
  for (size_t i = 0; i < layers; ++i) {
    const Layer &layer = problem.graph.layers[i];
    if (pinnedElsewhere(problem.request, layer, typeName)) { // never runs here: no price needed
      for (std::vector<double> *sum : {&sums->forward, &sums->backward, &sums->update})
        (*sum)[i + 1] = (*sum)[i];
      continue;
    }
    Expected<LayerCost> cost =
        problem.costs->price(layer, problem.cluster.types[type], Samples(samples));
    LayerCost known{Seconds(unaffordable), Seconds(0), Seconds(0)};
    if (cost)
      known = *cost;
    else if (failure) // Error's bool is true when it holds a failure
      consumeError(cost.takeError());
    else
      failure = cost.takeError();
    known.backward += known.accumulate * added;
    sums->forward[i + 1] = sums->forward[i] + known.forward.value();
    sums->backward[i + 1] = sums->backward[i] + known.backward.value();
    sums->update[i + 1] = sums->update[i] + known.update.value();
  }
  return sums;
}

Error LayerTimes::takeError() {
  Error result = std::move(failure);
  failure = Error::success();
  return result;
}

} // namespace heterplan
