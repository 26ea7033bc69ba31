// The collectives that the shards of a replica take within a layer.
#pragma once

#include "support/Units.h"

#include <cstdint>

namespace heterplan {

enum class ShardCollective : int { None, AllReduce, AllGather, ReduceScatter };
constexpr int shardCollectiveCount = 4;
/// "all-reduce", "all-gather", "reduce-scatter"; "none" for None.
const char *nameOf(ShardCollective collective);

/// Collectives of one kind that a layer takes in one pass, one after another.
struct LayerCollective {
  ShardCollective collective = ShardCollective::None;
  bool backward = false;
  int64_t count = 0;
  Bytes bytesPerSample{}, fixedBytes{}; // of the whole tensors, all together
  bool operator==(const LayerCollective &) const = default;

  Bytes bytes(Samples batch) const { return bytesPerSample * double(batch.value()) + fixedBytes; }
};

} // namespace heterplan
