#include "ir/sharding/FactorRules.h"

#include "ir/Attention.h"
#include "ir/NodeAttributes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan::sharding {

namespace {

constexpr Dim one{0, 1};

Factor emptyFactor(const RuleNode &n) {
  return {std::vector<int>(n.node.inputs.size(), -1), std::vector<int>(n.node.outputs.size(), -1)};
}

std::optional<int> positive(int64_t axis, int rank) {
  axis += axis < 0 ? rank : 0;
  return axis >= 0 && axis < rank ? std::optional(static_cast<int>(axis)) : std::nullopt;
}

/// The axis of operand `i` that lies at axis `axis` of a result of rank `rank`, to which it is
/// broadcast; -1 if it is broadcast along it.
int broadcastAxis(const RuleNode &n, size_t i, int axis, int rank) {
  int own = n.has(i) ? axis - rank + n.rank(i) : -1;
  return own >= 0 && n.shape(i)[own] != one ? own : -1;
}

/// A factor for each axis up to `end`, the same in operand 0 and in all results that are given.
Factors sameAxes(const RuleNode &n, int end) {
  Factors result;
  for (int axis = 0; n.has(0) && axis < end; ++axis) {
    Factor factor = emptyFactor(n);
    factor.operands[0] = axis;
    for (size_t i = 0; i < n.node.outputs.size(); ++i)
      factor.results[i] = n.makes(i) ? axis : -1;
    result.push_back(factor);
  }
  return result;
}

void eraseAxis(Factors &factors, int axis) {
  erase_if(factors, [&](const Factor &factor) { return factor.operands[0] == axis; });
}

} // namespace

Factors elementwise(const RuleNode &n) {
  Factors result;
  int rank = n.makes(0) ? static_cast<int>(n.result().size()) : 0;
  for (int axis = 0; axis < rank; ++axis) {
    Factor factor = emptyFactor(n);
    for (size_t i = 0; i < n.node.inputs.size(); ++i)
      factor.operands[i] = broadcastAxis(n, i, axis, rank);
    for (size_t i = 0; i < n.node.outputs.size(); ++i)
      factor.results[i] = n.makes(i) && n.result(i).size() == n.result().size() ? axis : -1;
    result.push_back(factor);
  }
  return result;
}

Factors matMul(const RuleNode &n) {
  if (!n.has(0) || !n.has(1) || !n.makes(0) || n.rank(0) < 1 || n.rank(1) < 1)
    return {};
  int first = n.rank(0), second = n.rank(1), rank = static_cast<int>(n.result().size());
  bool hasRows = first > 1, hasColumns = second > 1;
  int columnAxis = rank - 1, rowAxis = rank - (hasColumns ? 2 : 1);
  Factors result;
  Factor depth = emptyFactor(n);
  depth.operands = {first - 1, hasColumns ? second - 2 : 0};
  result.push_back(depth);
  if (hasRows)
    result.push_back({{first - 2, -1}, {rowAxis}});
  if (hasColumns)
    result.push_back({{-1, second - 1}, {columnAxis}});
  int outer = rank - (hasRows ? 1 : 0) - (hasColumns ? 1 : 0);
  for (int axis = 0; axis < outer; ++axis) { // of a product for each
    Factor factor = emptyFactor(n);
    for (size_t i : {0, 1}) {
      int own = axis - outer + std::max(0, n.rank(i) - 2);
      factor.operands[i] = own >= 0 && n.shape(i)[own] != one ? own : -1;
    }
    factor.results = {axis};
    result.push_back(factor);
  }
  return result;
}

Factors gemm(const RuleNode &n) {
  if (!n.has(0) || !n.has(1) || n.rank(0) != 2 || n.rank(1) != 2)
    return {};
  int rows = integerAttribute(n.node, "transA") ? 1 : 0;
  int columns = integerAttribute(n.node, "transB") ? 0 : 1;
  Factor row = emptyFactor(n), column = emptyFactor(n), depth = emptyFactor(n);
  row.operands[0] = rows;
  column.operands[1] = columns;
  depth.operands[0] = 1 - rows;
  depth.operands[1] = 1 - columns;
  row.results = {0};
  column.results = {1};
  if (n.has(2)) {
    row.operands[2] = broadcastAxis(n, 2, 0, 2);
    column.operands[2] = broadcastAxis(n, 2, 1, 2);
  }
  return {row, column, depth};
}

Factors einsum(const RuleNode &n) {
  const auto *equation = findAttribute<std::string>(n.node, "equation");
  if (!equation)
    return {};
  std::string text = *equation;
  erase_if(text, [](char c) { return c == ' '; });
  auto [left, right] = StringRef(text).split("->");
  SmallVector<StringRef, 4> terms;
  left.split(terms, ',');
  if (!StringRef(text).contains("->") || StringRef(text).contains('.') ||
      terms.size() != n.node.inputs.size())
    return {};
  std::map<char, Factor> byLetter;
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t axis = 0; axis < terms[i].size(); ++axis) {
      Factor &factor = byLetter.try_emplace(terms[i][axis], emptyFactor(n)).first->second;
      if (factor.operands[i] >= 0) // a diagonal
        return {};
      factor.operands[i] = static_cast<int>(axis);
    }
  for (size_t axis = 0; axis < right.size(); ++axis)
    if (auto found = byLetter.find(right[axis]); found != byLetter.end())
      found->second.results[0] = static_cast<int>(axis);
  Factors result;
  for (auto &[letter, factor] : byLetter)
    result.push_back(std::move(factor));
  return result;
}

Factors convolution(const RuleNode &n) {
  if (!n.has(0) || !n.has(1) || n.rank(0) < 3 || n.rank(1) != n.rank(0))
    return {};
  int64_t groups = integerAttribute(n.node, "group", 1);
  Dim in = n.shape(0)[1], out = n.shape(1)[0];
  Factor samples = emptyFactor(n), outputs = emptyFactor(n), inputs = emptyFactor(n);
  samples.operands[0] = samples.results[0] = 0;
  outputs.operands[1] = 0;
  outputs.results[0] = 1;
  if (n.has(2))
    outputs.operands[2] = 0;
  if (groups == 1) {
    inputs.operands[0] = inputs.operands[1] = 1;
    return {samples, outputs, inputs};
  }
  if (in != Dim{0, groups} || out != in)
    return {samples};
  outputs.operands[0] = 1; // depthwise: each channel by itself
  return {samples, outputs};
}

Factors gather(const RuleNode &n) {
  if (!n.has(0) || !n.has(1) || !n.makes(0))
    return {};
  auto looked = positive(integerAttribute(n.node, "axis", 0), n.rank(0));
  if (!looked)
    return {};
  Factors result;
  for (int axis = 0; axis < n.rank(0); ++axis) {
    if (axis == *looked)
      continue;
    Factor factor = emptyFactor(n);
    factor.operands[0] = axis;
    factor.results[0] = axis < *looked ? axis : axis - 1 + n.rank(1);
    result.push_back(factor);
  }
  for (int axis = 0; axis < n.rank(1); ++axis) {
    Factor factor = emptyFactor(n);
    factor.operands[1] = axis;
    factor.results[0] = *looked + axis;
    result.push_back(factor);
  }
  return result;
}

Factors dropout(const RuleNode &n) { return n.makes(1) ? Factors() : elementwise(n); }

Factors softmax(const RuleNode &n) {
  Factors result = sameAxes(n, n.rank(0));
  auto axis = positive(integerAttribute(n.node, "axis", -1), n.rank(0));
  if (!axis)
    return {};
  for (int whole = *axis; whole < n.rank(0); ++whole)
    if (whole == *axis || integerAttribute(n.node, "flattened"))
      eraseAxis(result, whole);
  return result;
}

Factors attention(const RuleNode &n) {
  const int rank = n.rank(0);
  const bool isPlain = isPlainAttention(n.graph, n.node) && rank >= 3 && n.rank(1) == rank &&
                       n.rank(2) == rank && n.makes(0) && !integerAttribute(n.node, "q_num_heads");
  if (!isPlain)
    return {};
  Factors result;
  for (int axis = 0; axis < rank - 2; ++axis) {
    if (n.shape(0)[axis] != n.shape(1)[axis]) // heads that share keys
      continue;
    Factor factor = emptyFactor(n);
    for (size_t i : {0, 1, 2})
      factor.operands[i] = axis;
    factor.results[0] = axis;
    result.push_back(factor);
  }
  if (!integerAttribute(n.node, "is_causal")) {
    Factor queries = emptyFactor(n);
    queries.operands[0] = queries.results[0] = rank - 2;
    result.push_back(queries);
  }
  for (Factor &factor : result)
    if (n.has(3))
      factor.operands[3] = broadcastAxis(n, 3, factor.results[0], rank);
  Factor columns = emptyFactor(n);
  columns.operands[2] = columns.results[0] = rank - 1;
  result.push_back(columns);
  return result;
}

Factors layerNormalization(const RuleNode &n) {
  auto axis = positive(integerAttribute(n.node, "axis", -1), n.rank(0));
  return axis ? sameAxes(n, *axis) : Factors();
}

Factors batchNormalization(const RuleNode &n) {
  if (n.rank(0) < 2 || !n.makes(0))
    return {};
  Factor channels = emptyFactor(n);
  channels.operands.assign(n.node.inputs.size(), 0);
  channels.operands[0] = 1;
  for (size_t i = 0; i < n.node.outputs.size(); ++i)
    channels.results[i] = n.makes(i) ? (i ? 0 : 1) : -1;
  return {channels};
}

Factors reductionFactors(const RuleNode &n, bool sums) {
  if (!n.has(0) || !n.makes(0))
    return {};
  std::vector<bool> reduced(n.rank(0),
                            !n.has(1) && !integerAttribute(n.node, "noop_with_empty_axes"));
  if (n.has(1)) {
    auto axes = n.integers(1);
    if (!axes || axes->empty())
      return {};
    for (int64_t axis : *axes)
      if (auto own = positive(axis, n.rank(0)))
        reduced[*own] = true;
  }
  bool keeps = integerAttribute(n.node, "keepdims", 1);
  Factors result;
  int next = 0;
  for (int axis = 0; axis < n.rank(0); ++axis) {
    Factor factor = emptyFactor(n);
    factor.operands[0] = axis;
    if (!reduced[axis])
      factor.results[0] = next;
    next += !reduced[axis] || keeps;
    if (!reduced[axis] || sums)
      result.push_back(factor);
  }
  return result;
}

Factors pooling(const RuleNode &n) { return sameAxes(n, std::min(2, n.rank(0))); }

Factors matrices(const RuleNode &n) { return sameAxes(n, n.rank(0) - 2); }

Factors transpose(const RuleNode &n) {
  const auto *order = findAttribute<std::vector<int64_t>>(n.node, "perm");
  int rank = n.rank(0);
  if (order && static_cast<int>(order->size()) != rank)
    return {};
  Factors result;
  for (int axis = 0; axis < rank; ++axis) {
    Factor factor = emptyFactor(n);
    factor.operands[0] = order ? static_cast<int>((*order)[axis]) : rank - 1 - axis;
    factor.results[0] = axis;
    result.push_back(factor);
  }
  return result;
}

Factors expand(const RuleNode &n) {
  Factors result = elementwise(n);
  for (Factor &factor : result) // the shape is no operand that is broadcast
    if (factor.operands.size() > 1)
      factor.operands[1] = -1;
  return result;
}

std::optional<ShardStrategy> alongFactor(const RuleNode &n, const Factors &factors,
                                         ShardPlace place, const ShardState &state) {
  auto found = find_if(factors, [&](const Factor &factor) {
    return (place.isResult ? factor.results : factor.operands)[place.index] == state.axis;
  });
  if (found == factors.end())
    return std::nullopt;
  ShardStrategy strategy = replicatedStrategy(n.node);
  strategy.divided = true;
  bool summed = all_of(found->results, [](int axis) { return axis < 0; });
  for (size_t i = 0; i < n.node.inputs.size(); ++i) {
    if (found->operands[i] >= 0)
      strategy.operands[i] = ShardState::along(found->operands[i], state.pattern);
    else if (summed && n.has(i) && isFloating(n.tensor({false, i}).type))
      strategy.operands[i] = ShardState::partial(); // it is added once, not once a shard
  }
  for (size_t i = 0; i < n.node.outputs.size(); ++i) {
    if (found->results[i] >= 0)
      strategy.results[i] = ShardState::along(found->results[i], state.pattern);
    else if (n.makes(i))
      strategy.results[i] = ShardState::partial();
    if (n.makes(i) && !summed && !strategy.results[i].isSharded())
      return std::nullopt;
  }
  return strategy;
}

} // namespace heterplan::sharding
