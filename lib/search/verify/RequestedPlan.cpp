#include "search/verify/RequestedPlan.h"

#include "ir/MicroBatches.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

Bytes roomForTensors(const RequestedPlan &requested, size_t type, double fraction) {
  const DeviceType &device = requested.cluster.types[type];
  double part = std::min(fraction, 1 - requested.request.memoryHeadroom.value_or(0));
  Bytes left = device.memory * part - device.overhead.constant;
  return std::max(Bytes(), left / device.overhead.factor);
}

std::pair<int, int> extentOf(const LayerGraph &graph, const LayerSet &layers) {
  int first = graph.size(), last = 0;
  for (const std::string &layer : layers) {
    first = std::min(first, graph.find(layer));
    last = std::max(last, graph.find(layer));
  }
  return {first, last};
}

LayerGraph withSumsOf(LayerGraph graph, BatchNorm scope) {
  for (Layer &layer : graph.layers)
    if (scope == BatchNorm::Local) {
      layer.inPassAllReduces = 0;
      layer.inPassAllReduceBytes = Bytes();
    }
  return graph;
}

Expected<HeterPsModel> heterPsModelOf(const RequestedPlan &requested, int microBatches) {
  Error failure = Error::success();
  auto price = [&](int layer, int type, Samples samples) {
    if (failure)
      return LayerCost{};
    auto cost = requested.costs.price(requested.graph.layers[layer], requested.cluster.types[type],
                                      samples);
    if (!cost)
      failure = cost.takeError();
    return cost ? *cost : LayerCost{};
  };
  HeterPsModel model(withSumsOf(requested.graph, requested.request.batchNorm), requested.cluster,
                     Samples(MicroBatches{requested.request.globalBatch, microBatches}.fullSize()),
                     microBatches, price);
  if (failure)
    return failure;
  return model;
}

} // namespace heterplan
