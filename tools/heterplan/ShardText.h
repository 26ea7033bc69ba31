// How the layers of a shard are shown: the part of each layer that one of several devices has, and
// the collectives that it takes.
#pragma once

#include "LayerText.h"

#include "ir/onnx/group/ShardedLayers.h"

namespace heterplan {

/// Prints a row for each layer and the totals, for `batch` samples. `whole`: the layers of the
/// model.
void printShards(llvm::raw_ostream &os, const LayerGraph &whole, const ModelShard &sharded,
                 int64_t batch, Repetitions repetitions);
/// The same facts as attribute "tensorParallel" of the current object.
void writeShards(JsonWriter &json, const ModelShard &sharded, int64_t batch);

} // namespace heterplan
