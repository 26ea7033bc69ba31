// Rules of operators that split, merge, cut or join axes, so that a sharded axis has different
// segments in operands and results.
#pragma once

#include "ir/sharding/ShardingRules.h"

namespace heterplan::sharding {

/// Reshape and its special cases, by the shapes of operand 0 and the result. An axis that is split
/// or merged stays sharded if the elements of each shard stay the same.
std::optional<ShardStrategy> reshape(const RuleNode &n, ShardPlace place, const ShardState &state);
/// The range of a Slice along an axis.
struct SliceRange {
  int64_t begin = 0, end = 0, step = 1;
};
/// The range of `n`, a Slice, along `axis` of a fixed size; all of it if the axis is not sliced.
/// Nothing if it is not known.
std::optional<SliceRange> sliceRange(const RuleNode &n, int axis);

/// A Slice along a sharded axis begins and ends where segments do.
std::optional<ShardStrategy> slice(const RuleNode &n, ShardPlace place, const ShardState &state);
/// Every result of Split holds whole segments.
std::optional<ShardStrategy> split(const RuleNode &n, ShardPlace place, const ShardState &state);
/// The segments of the result of Concat are those of its operands.
std::optional<ShardStrategy> concatenation(const RuleNode &n, ShardPlace place,
                                           const ShardState &state);

} // namespace heterplan::sharding
