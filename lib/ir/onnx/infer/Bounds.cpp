// Upper bounds of shapes that depend on values: what NonZero, Unique, NonMaxSuppression and the
// like give at most, and what Slice, Split and TopK give where their settings are computed.
#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"
#include "ir/onnx/read/Types.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace heterplan {

namespace {

struct Operands {
  const GraphNode &node;
  ArrayRef<KnownInput> inputs;
  MutableArrayRef<TensorType> outputs;

  /// The dimensions of input `index`; null where they are not known.
  const Sizes *dims(size_t index) const {
    bool known = index < inputs.size() && inputs[index].type && inputs[index].type->known &&
                 inputs[index].type->container == Container::None;
    return known ? &inputs[index].type->dims : nullptr;
  }
  std::optional<int64_t> number(size_t index) const {
    const TensorData *data = index < inputs.size() ? inputs[index].value : nullptr;
    if (!data || !folding::isInteger(data->type) || folding::countOf(data->shape) != 1)
      return std::nullopt;
    return folding::loadInteger(*data, 0);
  }
  std::optional<int64_t> attribute(const char *name) const {
    const auto *value = findAttribute<int64_t>(node, name);
    return value ? std::optional(*value) : std::nullopt;
  }
  DataType typeOf(size_t input) const { return inputs[input].type->type; }

  /// `axis` is the one that depends on values; -1 where any may.
  void set(size_t output, DataType type, Sizes bound, int64_t axis = -1) {
    if (output >= outputs.size() || outputs[output].known)
      return;
    outputs[output] = tensorType(type, std::move(bound));
    outputs[output].dynamic = true;
    outputs[output].bounds = axis < 0 ? 0 : uint64_t(1) << axis;
  }
};

int64_t product(ArrayRef<int64_t> dims) {
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(dim);
  return count < 1e15 ? static_cast<int64_t>(count) : int64_t(1) << 62; // refused as absurd
}

void nonZero(Operands &o) {
  if (const Sizes *x = o.dims(0))
    o.set(0, DataType::Int64, {static_cast<int64_t>(x->size()), product(*x)}, 1);
}

void unique(Operands &o) {
  const Sizes *x = o.dims(0);
  if (!x)
    return;
  auto axis = o.attribute("axis") ? folding::axisOf(*o.attribute("axis"), x->size()) : std::nullopt;
  int64_t most = axis ? (*x)[*axis] : product(*x);
  o.set(0, o.typeOf(0), axis ? *x : Sizes{most}, axis.value_or(0));
  for (size_t output : {1, 2, 3})
    o.set(output, DataType::Int64, {most});
}

void compress(Operands &o) {
  const Sizes *x = o.dims(0), *condition = o.dims(1);
  if (!x)
    return;
  auto axis = o.attribute("axis") ? folding::axisOf(*o.attribute("axis"), x->size()) : std::nullopt;
  Sizes bound = axis ? *x : Sizes{product(*x)};
  int64_t &most = bound[axis.value_or(0)];
  if (condition && condition->size() == 1)
    most = std::min(most, (*condition)[0]);
  o.set(0, o.typeOf(0), bound, axis.value_or(0));
}

/// Each class of each image keeps at most max_output_boxes_per_class boxes, and no more than there
/// are.
void nonMaxSuppression(Operands &o) {
  const Sizes *scores = o.dims(1); // [batch, classes, boxes]
  if (!scores || scores->size() != 3)
    return;
  int64_t each = (*scores)[2];
  if (auto most = o.number(2))
    each = std::min(each, std::max<int64_t>(0, *most));
  o.set(0, DataType::Int64, {product({(*scores)[0], (*scores)[1], each}), 3}, 0);
}

/// A part of the input, whatever the settings are.
void part(Operands &o) {
  if (const Sizes *x = o.dims(0))
    for (size_t i = 0; i < o.outputs.size(); ++i)
      o.set(i, o.typeOf(0), *x);
}

void topK(Operands &o) {
  if (const Sizes *x = o.dims(0)) {
    o.set(0, o.typeOf(0), *x);
    o.set(1, DataType::Int64, *x);
  }
}

/// A reduction over axes that are computed, which keeps the rank.
void reduction(Operands &o) {
  if (o.attribute("keepdims").value_or(1))
    part(o);
}

/// Words that stop words may remove.
void normalizeStrings(Operands &o) {
  const Sizes *x = o.dims(0);
  if (!x || x->empty())
    return;
  Sizes bound = *x;
  bound.back() = std::max<int64_t>(1, bound.back());
  o.set(0, DataType::String, bound);
}

} // namespace

void boundShapes(const GraphNode &node, ArrayRef<KnownInput> inputs,
                 MutableArrayRef<TensorType> outputs) {
  static const StringMap<void (*)(Operands &)> table = {
      {"NonZero", nonZero},
      {"Unique", unique},
      {"Compress", compress},
      {"NonMaxSuppression", nonMaxSuppression},
      {"Slice", part},
      {"Split", part},
      {"TopK", topK},
      {"StringNormalizer", normalizeStrings},
      {"ReduceSum", reduction},
      {"ReduceMean", reduction},
      {"ReduceMax", reduction},
      {"ReduceMin", reduction},
      {"ReduceProd", reduction},
      {"ReduceL1", reduction},
      {"ReduceL2", reduction},
      {"ReduceLogSum", reduction},
      {"ReduceLogSumExp", reduction},
      {"ReduceSumSquare", reduction},
  };
  auto found = node.domain.empty() ? table.find(node.op) : table.end();
  if (found == table.end())
    return;
  Operands operands{node, inputs, outputs};
  found->second(operands);
}

} // namespace heterplan
