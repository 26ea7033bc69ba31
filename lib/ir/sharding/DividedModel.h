// A model that several devices share layer by layer: the graph of a shard beside that of the whole
// model, for one degree or several.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/sharding/LocalGraph.h"

#include <vector>

namespace heterplan {

/// The part of a model that each of `local.degree` devices computes.
struct ModelShard {
  LocalGraph local;
  LayerGraph layers; // of `local`; they have the names of those of the whole model
};

struct DividedModel {
  std::vector<ModelShard> shards; // by degree, ascending; degree 1 has none
  LayerGraph wholeLayers;

  /// Null for degree 1, and for one that the model is not divided by.
  const ModelShard *find(int degree) const;
};

/// `whole` with the figures of each of `shards`. A stage begins only where every shard has whole
/// tensors, which are those that cross in the model, with whole gradients: so that stages of
/// unequal degrees can send them to each other.
LayerGraph withShards(LayerGraph whole, const std::vector<ModelShard> &shards);

} // namespace heterplan
