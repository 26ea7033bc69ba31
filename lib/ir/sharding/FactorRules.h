// Factors of operators. A factor is an index of the loop nest that an operator is: MatMul of [m, k]
// and [k, n] has the factors m, n and k. An operand or result has a factor along one axis or not at
// all. A factor that no result has is summed over.
#pragma once

#include "ir/sharding/ShardingRules.h"

namespace heterplan::sharding {

/// The axis of a factor in each operand and result; -1: it does not have the factor.
struct Factor {
  std::vector<int> operands, results;
};
using Factors = std::vector<Factor>;

Factors elementwise(const RuleNode &n);
Factors matMul(const RuleNode &n);
Factors gemm(const RuleNode &n);
Factors einsum(const RuleNode &n);
Factors convolution(const RuleNode &n);
/// The axis that is looked up along has no factor.
Factors gather(const RuleNode &n);
/// Without its second result: a shard computes its part of the mask of the whole tensor.
Factors dropout(const RuleNode &n);
Factors softmax(const RuleNode &n);
/// Samples, heads, queries (unless a query sees as many keys as its place tells) and columns of the
/// values, of operands [..., length, size] and results with no past.
Factors attention(const RuleNode &n);
Factors layerNormalization(const RuleNode &n);
Factors batchNormalization(const RuleNode &n);
Factors reductionFactors(const RuleNode &n, bool sums);
template <bool sums> Factors reduction(const RuleNode &n) { return reductionFactors(n, sums); }
Factors pooling(const RuleNode &n);
/// Operators of the matrices in the last two axes.
Factors matrices(const RuleNode &n);
Factors transpose(const RuleNode &n);
Factors expand(const RuleNode &n);

/// The strategy in which the factor along which `place` is sharded is divided.
std::optional<ShardStrategy> alongFactor(const RuleNode &n, const Factors &factors,
                                         ShardPlace place, const ShardState &state);

template <Factors (*list)(const RuleNode &)>
std::optional<ShardStrategy> factors(const RuleNode &n, ShardPlace place, const ShardState &state) {
  return alongFactor(n, list(n), place, state);
}

} // namespace heterplan::sharding
