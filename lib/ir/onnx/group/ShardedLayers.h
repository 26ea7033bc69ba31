// The layers of one shard: what each of several devices does that divide a model among them (tensor
// parallelism), with the collectives that each layer takes.
#pragma once

#include "ir/sharding/DividedModel.h"

#include "llvm/Support/Error.h"

namespace heterplan {

/// The layers of one of `degree` shards of `graph`, whose layers are `whole`. Their tensors stand
/// in the order of those that they are of the model. Strategies are compared on a reference device
/// of 100 TFLOP/s with links of 300 GB/s, whose collectives take no time but for their bytes, for
/// micro-batches of 8 samples. Fails with InvalidLayerGraph if the shards would have other layers
/// than the model.
llvm::Expected<ModelShard> shardLayers(const Graph &graph, const LayerGraph &whole, int degree);

} // namespace heterplan
