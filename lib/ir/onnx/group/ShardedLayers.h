// The layers of one shard: what each of several devices does that divide a model among them (tensor
// parallelism), with the collectives that each layer takes.
#pragma once

#include "ir/sharding/DividedModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

namespace heterplan {

/// The layers of one of `degree` shards of `graph`, whose layers are `whole`. Their tensors stand
/// in the order of those that they are of the model. Strategies are compared on a reference device
/// of 100 TFLOP/s and 3 TB/s with links of 300 GB/s and 10 µs, for micro-batches of 8 samples.
/// Fails with InvalidLayerGraph if the shards would have other layers than the model.
llvm::Expected<ModelShard> shardLayers(const Graph &graph, const LayerGraph &whole, int degree,
                                       SequenceParallel sequence);

/// The layers of one of `degree` shards for each of `degrees`, of which stages of unequal degrees
/// are made. All shards have whole tensors at the cuts that would be missing else
/// (StageBoundaries.h). `refused` is called with a degree by which the model cannot be divided.
std::vector<ModelShard> shardLayers(const Graph &graph, const LayerGraph &whole,
                                    llvm::ArrayRef<int> degrees, SequenceParallel sequence,
                                    llvm::function_ref<void(int degree, llvm::Error)> refused);

} // namespace heterplan
