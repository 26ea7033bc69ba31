#include "ir/sharding/MovementRules.h"

#include "ir/NodeAttributes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace heterplan::sharding {

namespace {

/// Patterns of more segments are not followed.
constexpr size_t longestPattern = 64;

/// Number of elements as `count`·Nᵖᵒʷᵉʳ, N being the batch.
struct BatchProduct {
  int64_t count = 1;
  int power = 0;
  bool operator==(const BatchProduct &) const = default;
  bool operator<(const BatchProduct &other) const {
    return power != other.power ? power < other.power : count < other.count;
  }
};

/// Multiplies by `dim`; false if it is a sum or too large.
bool multiply(BatchProduct &product, Dim dim) {
  if ((dim.perSample && dim.fixed) || dim.perSample < 0 || dim.fixed < 0)
    return false;
  int64_t factor = dim.perSample ? dim.perSample : dim.fixed;
  product.power += dim.perSample ? 1 : 0;
  return !__builtin_mul_overflow(product.count, factor, &product.count);
}

/// Consecutive axes of one shape that hold the elements of consecutive axes of another one.
struct AxisGroup {
  int begin[2], end[2];
};

/// The smallest groups; nothing if the shapes do not fit each other.
std::optional<std::vector<AxisGroup>> groupsOf(ArrayRef<Dim> first, ArrayRef<Dim> second) {
  ArrayRef<Dim> shapes[] = {first, second};
  std::vector<AxisGroup> groups;
  int next[] = {0, 0};
  auto left = [&](int side) { return next[side] < static_cast<int>(shapes[side].size()); };
  while (left(0) && left(1)) {
    AxisGroup group{{next[0], next[1]}, {}};
    BatchProduct products[2];
    for (int side : {0, 1})
      if (!multiply(products[side], shapes[side][next[side]++]))
        return std::nullopt;
    while (products[0] != products[1]) {
      int side = products[1] < products[0] ? 1 : 0;
      if (!left(side) || !multiply(products[side], shapes[side][next[side]++]))
        return std::nullopt;
    }
    group.end[0] = next[0];
    group.end[1] = next[1];
    groups.push_back(group);
  }
  for (int side : {0, 1})
    for (; left(side); ++next[side])
      if (shapes[side][next[side]] != Dim{0, 1})
        return std::nullopt;
  return groups;
}

/// Elements between neighbours along `axis` within axes up to `end`; 0 if the batch decides.
int64_t strideWithin(ArrayRef<Dim> shape, int axis, int end) {
  BatchProduct product;
  for (int i = axis + 1; i < end; ++i)
    if (!multiply(product, shape[i]))
      return 0;
  return product.power ? 0 : product.count;
}

/// The axis among `begin` to `end` of `shape` that segments of `flat` elements divide.
std::optional<ShardState> stateOfSegments(ArrayRef<Dim> shape, int begin, int end,
                                          const ShardPattern &flat, int degree) {
  for (int axis = begin; axis < end; ++axis) {
    int64_t stride = strideWithin(shape, axis, end);
    if (!stride || any_of(flat, [&](int64_t length) { return length % stride; }))
      continue;
    ShardPattern segments = flat;
    for (int64_t &length : segments)
      length /= stride;
    ShardState state = ShardState::along(axis, std::move(segments));
    if (canShard(shape, state, degree))
      return state;
  }
  return std::nullopt;
}

/// The state along another shape of what `state` is along `from`.
std::optional<ShardState> moved(ArrayRef<Dim> from, ArrayRef<Dim> to, const ShardState &state,
                                int degree) {
  auto groups = groupsOf(from, to);
  if (!groups)
    return std::nullopt;
  for (const AxisGroup &group : *groups) {
    if (state.axis < group.begin[0] || state.axis >= group.end[0])
      continue;
    int64_t stride = strideWithin(from, state.axis, group.end[0]);
    if (!stride)
      return std::nullopt;
    ShardPattern flat = state.pattern;
    for (int64_t &length : flat)
      if (__builtin_mul_overflow(length, stride, &length))
        return std::nullopt;
    return stateOfSegments(to, group.begin[1], group.end[1], flat, degree);
  }
  return std::nullopt;
}

/// The axis of Split or Concat.
int axisOf(const RuleNode &n) {
  int64_t axis = integerAttribute(n.node, "axis", 0);
  return static_cast<int>(axis < 0 ? axis + n.rank(0) : axis);
}

/// The segments of a whole axis of `size`.
std::optional<ShardPattern> unrolled(const ShardState &state, int64_t size) {
  int64_t period = std::accumulate(state.pattern.begin(), state.pattern.end(), int64_t(0));
  int64_t times = period ? size / period : 0;
  if (times < 1 || times * period != size ||
      times * static_cast<int64_t>(state.pattern.size()) > static_cast<int64_t>(longestPattern))
    return std::nullopt;
  ShardPattern result;
  for (int64_t i = 0; i < times; ++i)
    result.insert(result.end(), state.pattern.begin(), state.pattern.end());
  return result;
}

/// Parts of an axis of `whole`: results of Split, or operands of Concat.
struct AxisParts {
  ArrayRef<Dim> whole;
  std::vector<const GraphTensor *> parts;
  int axis;

  int64_t size(size_t part) const { return parts[part]->shape[axis].fixed; }
};

/// The states of the parts where the whole has `state`; each part holds whole segments.
std::optional<std::vector<ShardState>> statesOfParts(const AxisParts &axis,
                                                     const ShardState &state) {
  auto segments = unrolled(state, axis.whole[axis.axis].fixed);
  if (!segments)
    return std::nullopt;
  std::vector<ShardState> result;
  size_t next = 0;
  for (size_t i = 0; i < axis.parts.size(); ++i) {
    ShardPattern own;
    int64_t left = axis.size(i);
    for (; left > 0 && next < segments->size(); ++next) {
      own.push_back((*segments)[next]);
      left -= own.back();
    }
    if (left != 0 || own.empty())
      return std::nullopt;
    result.push_back(ShardState::along(axis.axis, std::move(own)));
  }
  return result;
}

/// The state of the whole where one part has `state`: parts of the same size have the same state,
/// and others are one segment.
std::optional<ShardState> stateOfWhole(const AxisParts &axis, size_t part,
                                       const ShardState &state) {
  ShardPattern all;
  for (size_t i = 0; i < axis.parts.size(); ++i) {
    if (axis.size(i) != axis.size(part)) {
      all.push_back(axis.size(i));
      continue;
    }
    auto own = unrolled(state, axis.size(i));
    if (!own)
      return std::nullopt;
    all.insert(all.end(), own->begin(), own->end());
  }
  if (all.size() > longestPattern)
    return std::nullopt;
  return ShardState::along(axis.axis, std::move(all));
}

/// The states of a whole and its parts where `part` of them, or the whole if -1, has `state`.
struct WholeAndParts {
  ShardState whole;
  std::vector<ShardState> parts;
};
std::optional<WholeAndParts> alongParts(const AxisParts &axis, int part, const ShardState &state) {
  if (state.axis != axis.axis)
    return WholeAndParts{state, std::vector<ShardState>(axis.parts.size(), state)};
  for (const GraphTensor *tensor : axis.parts)
    if (tensor->shape.size() != axis.whole.size() || tensor->shape[axis.axis].perSample)
      return std::nullopt;
  if (axis.whole[axis.axis].perSample)
    return std::nullopt;
  auto whole = part < 0 ? std::optional(state) : stateOfWhole(axis, part, state);
  if (!whole)
    return std::nullopt;
  auto parts = statesOfParts(axis, *whole);
  return parts ? std::optional(WholeAndParts{*whole, *parts}) : std::nullopt;
}

/// The segments of `range` among those of an axis of `size`.
std::optional<ShardState> stateOfRange(const ShardState &state, int64_t size, SliceRange range) {
  auto segments = unrolled(state, size);
  if (!segments)
    return std::nullopt;
  ShardPattern own;
  int64_t begin = 0;
  for (int64_t length : *segments) {
    bool inside = begin >= range.begin && begin + length <= range.end;
    if (!inside && begin < range.end && begin + length > range.begin)
      return std::nullopt; // a segment that is cut
    if (inside)
      own.push_back(length);
    begin += length;
  }
  return own.empty() ? std::nullopt : std::optional(ShardState::along(state.axis, std::move(own)));
}

/// The segments of an axis of `size` of which `range` has `state`: ranges of the same size all
/// along it have the same state, if there are such; otherwise what is beside it is one segment
/// each.
std::optional<ShardState> stateAroundRange(const ShardState &state, int64_t size,
                                           SliceRange range) {
  int64_t length = range.end - range.begin;
  if (length <= 0)
    return std::nullopt;
  auto own = unrolled(state, length);
  if (!own)
    return std::nullopt;
  if (size % length == 0 && range.begin % length == 0)
    return ShardState::along(state.axis, std::move(*own));
  ShardPattern all;
  if (range.begin)
    all.push_back(range.begin);
  all.insert(all.end(), own->begin(), own->end());
  if (size > range.end)
    all.push_back(size - range.end);
  return ShardState::along(state.axis, std::move(all));
}

} // namespace

std::optional<SliceRange> sliceRange(const RuleNode &n, int axis) {
  int64_t size = n.shape(0)[axis].fixed;
  auto starts = n.integers(1), ends = n.integers(2), axes = n.integers(3), steps = n.integers(4);
  if ((n.has(3) && !axes) || (!axes && !starts))
    return std::nullopt;
  for (size_t i = 0; i < (axes ? axes->size() : starts->size()); ++i) {
    int64_t own = axes ? (*axes)[i] : static_cast<int64_t>(i);
    if (own != axis && own != axis - n.rank(0))
      continue;
    if (!starts || !ends || i >= starts->size() || i >= ends->size() ||
        (n.has(4) && (!steps || i >= steps->size())))
      return std::nullopt;
    auto clipped = [&](int64_t place) {
      return std::clamp<int64_t>(place < 0 ? place + size : place, 0, size);
    };
    return SliceRange{clipped((*starts)[i]), clipped((*ends)[i]), steps ? (*steps)[i] : 1};
  }
  return SliceRange{0, size, 1};
}

/// The strategy of an operator with one operand and one result, of which one has `state` at `place`
/// and the other one `other`; none where it cannot.
std::optional<ShardStrategy> withOther(const RuleNode &n, ShardPlace place, const ShardState &state,
                                       const std::optional<ShardState> &other) {
  if (!other)
    return std::nullopt;
  ShardStrategy strategy = replicatedStrategy(n.node);
  strategy.operands[0] = place.isResult ? *other : state;
  strategy.results[0] = place.isResult ? state : *other;
  strategy.divided = true;
  return strategy;
}

std::optional<ShardStrategy> slice(const RuleNode &n, ShardPlace place, const ShardState &state) {
  if (place.index != 0 || !n.has(0) || !n.makes(0) || n.result().size() != n.shape(0).size() ||
      state.axis >= n.rank(0))
    return std::nullopt;
  Dim whole = n.shape(0)[state.axis], part = n.result()[state.axis];
  std::optional<ShardState> other = state;
  if (whole != part) {
    auto range = sliceRange(n, state.axis);
    if (!range || range->step != 1 || whole.perSample || part.perSample)
      return std::nullopt;
    other = place.isResult ? stateAroundRange(state, whole.fixed, *range)
                           : stateOfRange(state, whole.fixed, *range);
  } else if (auto range = sliceRange(n, state.axis); !range || range->step != 1) {
    return std::nullopt; // it may turn the axis around
  }
  return withOther(n, place, state, other);
}

std::optional<ShardStrategy> reshape(const RuleNode &n, ShardPlace place, const ShardState &state) {
  if (place.index != 0 || !n.has(0) || !n.makes(0))
    return std::nullopt;
  ArrayRef<Dim> from = n.shape(0), to = n.result();
  auto other = place.isResult ? moved(to, from, state, n.degree) : moved(from, to, state, n.degree);
  return withOther(n, place, state, other);
}

std::optional<ShardStrategy> split(const RuleNode &n, ShardPlace place, const ShardState &state) {
  if (!n.has(0) || (!place.isResult && place.index != 0))
    return std::nullopt;
  AxisParts axis{n.shape(0), {}, axisOf(n)};
  for (size_t i = 0; i < n.node.outputs.size(); ++i) {
    if (!n.makes(i))
      return std::nullopt;
    axis.parts.push_back(&n.tensor({true, i}));
  }
  auto states = alongParts(axis, place.isResult ? static_cast<int>(place.index) : -1, state);
  if (!states)
    return std::nullopt;
  ShardStrategy strategy = replicatedStrategy(n.node);
  strategy.operands[0] = states->whole;
  strategy.results = std::move(states->parts);
  strategy.divided = true;
  return strategy;
}

std::optional<ShardStrategy> concatenation(const RuleNode &n, ShardPlace place,
                                           const ShardState &state) {
  if (!n.makes(0))
    return std::nullopt;
  AxisParts axis{n.result(), {}, axisOf(n)};
  for (size_t i = 0; i < n.node.inputs.size(); ++i) {
    if (!n.has(i))
      return std::nullopt;
    axis.parts.push_back(&n.tensor({false, i}));
  }
  auto states = alongParts(axis, place.isResult ? -1 : static_cast<int>(place.index), state);
  if (!states)
    return std::nullopt;
  ShardStrategy strategy = replicatedStrategy(n.node);
  strategy.operands = std::move(states->parts);
  strategy.results[0] = states->whole;
  strategy.divided = true;
  return strategy;
}

} // namespace heterplan::sharding
