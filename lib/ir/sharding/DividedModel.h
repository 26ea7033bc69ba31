// A model that several devices share layer by layer: the graph of a shard beside that of the whole
// model.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/sharding/LocalGraph.h"

namespace heterplan {

struct DividedModel {
  LocalGraph local;
  LayerGraph wholeLayers; // of the whole model; a shard has layers of the same names
};

} // namespace heterplan
