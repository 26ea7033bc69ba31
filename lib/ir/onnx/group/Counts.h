// Figures by which people compare models: parameters, counted by elements whatever their type, and
// multiply-accumulate operations (MACs) of products and convolutions, as papers count them.
#pragma once

#include "ir/Graph.h"
#include "ir/LayerGraph.h"

#include <vector>

namespace heterplan {

struct LayerCounts {
  double parameters = 0; // elements that are trained; a tied one counts in its first layer
  double macs = 0;       // forward, of one sample
};

/// One for each layer. `graph` is what `layers` was grouped from; without it, bytes are taken for
/// those of float32, and half of the operations of a layer for its MACs.
std::vector<LayerCounts> countLayers(const LayerGraph &layers, const Graph *graph);

} // namespace heterplan
