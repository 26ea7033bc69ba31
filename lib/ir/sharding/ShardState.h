// The states that a tensor can have among the shards of a stage. The devices that divide the layers
// of a stage (tensor parallelism) hold a tensor as a whole each, a slice of it each, or a summand
// of it each.
#pragma once

#include "ir/Graph.h"

#include <compare>
#include <string>
#include <vector>

namespace heterplan {

/// Lengths of consecutive segments of an axis, repeated to its end. Each segment is divided evenly:
/// of a fused matrix [queries, keys, values] a shard holds a part of each, not a part of the
/// queries alone. Patterns are canonical: no shorter one repeats to the same segments.
using ShardPattern = std::vector<int64_t>;

struct ShardState {
  enum Kind {
    Replicated, // every shard holds the whole tensor
    Sharded,    // every shard holds its part of each segment of an axis
    Partial,    // every shard holds a summand; the tensor is their sum
  } kind = Replicated;
  int axis = 0;         // of a sharded tensor
  ShardPattern pattern; // of a sharded tensor

  static ShardState replicated() { return {}; }
  static ShardState partial() { return {Partial, 0, {}}; }
  /// The tensor is sharded along `axis`; `segments` need not be canonical.
  static ShardState along(int axis, ShardPattern segments);

  bool isSharded() const { return kind == Sharded; }
  auto operator<=>(const ShardState &) const = default;
};

/// "replicated", "partial", "axis 1", or "axis 1 in segments of 768".
std::string toText(const ShardState &state);

/// Whether `degree` shards can hold a tensor of shape `shape` in `state`: the axis exists, consists
/// of whole patterns, and each segment is divisible.
bool canShard(llvm::ArrayRef<Dim> shape, const ShardState &state, int degree);

/// The shape of what one shard holds. `state` is one that canShard() accepts.
Shape localShape(llvm::ArrayRef<Dim> shape, const ShardState &state, int degree);

} // namespace heterplan
