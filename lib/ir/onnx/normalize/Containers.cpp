#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"
#include "ir/onnx/read/Types.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace heterplan {

namespace {

bool allEqual(const std::vector<Sizes> &elements) {
  for (const Sizes &dims : elements)
    if (dims != elements[0])
      return false;
  return true;
}

/// The type that all elements share.
TensorType elementType(const TensorType &sequence) {
  TensorType type = sequence;
  type.container = Container::None;
  type.known = sequence.known && !sequence.shapeless;
  type.shapeless = false;
  type.dynamic |= !type.elements || !allEqual(*type.elements);
  type.elements.reset();
  return type;
}

struct Operands {
  const GraphNode &node;
  ArrayRef<KnownInput> inputs;
  MutableArrayRef<TensorType> outputs;
  std::optional<int64_t> &length;

  const TensorType *type(size_t index) const {
    return index < inputs.size() && inputs[index].type && inputs[index].type->known
               ? inputs[index].type
               : nullptr;
  }
  const TensorData *value(size_t index) const {
    return index < inputs.size() ? inputs[index].value : nullptr;
  }
  bool given(size_t index) const { return index < inputs.size() && inputs[index].type; }
  int64_t integer(const char *name, int64_t otherwise) const {
    return integerAttribute(node, name, otherwise);
  }
  /// The position that input `index` states, `end` where it is left out; nothing where it is not
  /// known or outside [0, limit).
  std::optional<int64_t> position(size_t index, int64_t limit, int64_t count, int64_t end) const {
    if (!given(index))
      return end;
    const TensorData *data = value(index);
    if (!data || !folding::isInteger(data->type) || folding::countOf(data->shape) != 1)
      return std::nullopt;
    int64_t at = folding::loadInteger(*data, 0);
    at += at < 0 ? count : 0;
    return at >= 0 && at < limit ? std::optional(at) : std::nullopt;
  }
};

bool sequenceEmpty(Operands &o) {
  int64_t type = o.integer("dtype", static_cast<int64_t>(DataType::Float32));
  if (!isDataType(type))
    return false;
  o.outputs[0] = sequenceType(static_cast<DataType>(type), {});
  return true;
}

bool sequenceConstruct(Operands &o) {
  std::vector<Sizes> elements;
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    const TensorType *type = o.type(i);
    if (!type || type->container != Container::None)
      return false;
    elements.push_back(type->dims);
  }
  if (elements.empty())
    return false;
  o.outputs[0] = sequenceType(o.type(0)->type, std::move(elements));
  for (size_t i = 0; i < o.inputs.size(); ++i)
    o.outputs[0].dynamic |= o.type(i)->dynamic;
  return true;
}

bool sequenceInsert(Operands &o) {
  const TensorType *sequence = o.type(0), *tensor = o.type(1);
  if (!sequence || !tensor || sequence->container != Container::Sequence)
    return false;
  if (!sequence->elements || sequence->elements->size() >= mostElements) {
    TensorType added = *tensor;
    added.container = Container::Sequence;
    o.outputs[0] = sequence->shapeless ? *sequence : join(*sequence, added);
    o.outputs[0].elements.reset();
    return true;
  }
  std::vector<Sizes> elements = *sequence->elements;
  int64_t count = static_cast<int64_t>(elements.size());
  auto at = o.position(2, count + 1, count, count);
  elements.insert(elements.begin() + at.value_or(count), tensor->dims);
  bool known = at || allEqual(elements);
  o.outputs[0] = sequenceType(tensor->type, std::move(elements));
  o.outputs[0].dynamic |= sequence->dynamic || tensor->dynamic;
  if (!known)
    o.outputs[0].elements.reset();
  return true;
}

bool sequenceErase(Operands &o) {
  const TensorType *sequence = o.type(0);
  if (!sequence || sequence->container != Container::Sequence)
    return false;
  o.outputs[0] = *sequence;
  if (!sequence->elements || sequence->elements->empty())
    return true;
  std::vector<Sizes> elements = *sequence->elements;
  int64_t count = static_cast<int64_t>(elements.size());
  auto at = o.position(1, count, count, count - 1);
  bool known = at || allEqual(elements);
  elements.erase(elements.begin() + at.value_or(count - 1));
  if (known)
    o.outputs[0] = sequenceType(sequence->type, std::move(elements));
  else
    o.outputs[0].elements.reset();
  o.outputs[0].dynamic |= sequence->dynamic;
  return true;
}

bool sequenceAt(Operands &o) {
  const TensorType *sequence = o.type(0);
  if (!sequence || sequence->container != Container::Sequence)
    return false;
  o.outputs[0] = elementType(*sequence);
  if (!sequence->elements)
    return true;
  int64_t count = static_cast<int64_t>(sequence->elements->size());
  if (auto at = o.position(1, count, count, count)) {
    o.outputs[0].dims = (*sequence->elements)[*at];
    o.outputs[0].dynamic = sequence->dynamic;
    o.outputs[0].known = true;
  }
  return true;
}

bool sequenceLength(Operands &o) {
  const TensorType *sequence = o.type(0);
  o.outputs[0] = tensorType(DataType::Int64, {});
  if (sequence && sequence->elements)
    o.length = static_cast<int64_t>(sequence->elements->size());
  return true;
}

/// The lengths of the parts along an axis of `extent`; nothing where they are not known.
std::optional<std::vector<int64_t>> partLengths(Operands &o, int64_t extent) {
  if (!o.given(1))
    return extent <= static_cast<int64_t>(mostElements)
               ? std::optional(std::vector<int64_t>(static_cast<size_t>(extent), 1))
               : std::nullopt;
  const TensorData *split = o.value(1);
  if (!split || !folding::isInteger(split->type))
    return std::nullopt;
  std::vector<int64_t> lengths = folding::integersOf(*split);
  if (split->shape.empty()) {
    int64_t chunk = lengths[0];
    if (chunk <= 0 || extent / chunk > static_cast<int64_t>(mostElements))
      return std::nullopt;
    lengths.clear();
    for (int64_t rest = extent; rest > 0; rest -= chunk)
      lengths.push_back(std::min(rest, chunk));
  }
  return lengths.size() <= mostElements ? std::optional(lengths) : std::nullopt;
}

bool splitToSequence(Operands &o) {
  const TensorType *input = o.type(0);
  if (!input || input->container != Container::None)
    return false;
  auto axis = folding::axisOf(o.integer("axis", 0), input->dims.size());
  if (!axis)
    return false;
  auto lengths = partLengths(o, input->dims[*axis]);
  bool squeeze = !o.given(1) && !o.integer("keepdims", 1);
  auto part = [&](int64_t length) {
    Sizes dims = input->dims;
    dims[*axis] = length;
    if (squeeze)
      dims.erase(dims.begin() + *axis);
    return dims;
  };
  std::vector<Sizes> elements;
  for (int64_t length : lengths.value_or(std::vector<int64_t>{o.given(1) ? input->dims[*axis] : 1}))
    elements.push_back(part(length));
  o.outputs[0] = sequenceType(input->type, std::move(elements));
  o.outputs[0].dynamic |= input->dynamic || (!lengths && o.given(1));
  if (!lengths)
    o.outputs[0].elements.reset();
  return true;
}

bool concatFromSequence(Operands &o) {
  const TensorType *sequence = o.type(0);
  if (!sequence || !sequence->elements || sequence->elements->empty())
    return false;
  TensorType result = elementType(*sequence);
  if (!result.known)
    return false;
  bool newAxis = o.integer("new_axis", 0) != 0;
  auto axis = folding::axisOf(o.integer("axis", 0), result.dims.size() + newAxis);
  if (!axis)
    return false;
  int64_t total = 0;
  for (const Sizes &dims : *sequence->elements)
    total += newAxis ? 1 : dims[*axis];
  if (newAxis)
    result.dims.insert(result.dims.begin() + *axis, total);
  result.dims[*axis] = total;
  bool sameElsewhere = true;
  for (const Sizes &dims : *sequence->elements)
    for (size_t i = 0; i < dims.size(); ++i)
      sameElsewhere &= newAxis || static_cast<int64_t>(i) == *axis || dims[i] == result.dims[i];
  result.dynamic = sequence->dynamic || !sameElsewhere;
  o.outputs[0] = std::move(result);
  return true;
}

bool optional(Operands &o) {
  const TensorType *value = o.type(0);
  if (!value)
    return false; // the type is an attribute
  o.outputs[0] = *value;
  o.outputs[0].container =
      value->container == Container::Sequence ? Container::OptionalSequence : Container::Optional;
  return true;
}

bool optionalHasElement(Operands &o) {
  o.outputs[0] = tensorType(DataType::Bool, {});
  return true;
}

bool optionalGetElement(Operands &o) {
  const TensorType *value = o.type(0);
  if (!value)
    return false;
  if (value->container == Container::Optional) {
    o.outputs[0] = *value;
    o.outputs[0].container = Container::None;
    o.outputs[0].known = !value->shapeless;
    o.outputs[0].shapeless = false;
    return true;
  }
  o.outputs[0] = *value;
  if (value->container == Container::OptionalSequence)
    o.outputs[0].container = Container::Sequence;
  return true;
}

bool identity(Operands &o) {
  if (!o.type(0) || o.type(0)->container == Container::None)
    return false;
  o.outputs[0] = *o.type(0);
  return true;
}

} // namespace

bool equalElements(const TensorType &a, const TensorType &b) {
  return a.elements && b.elements ? *a.elements == *b.elements : a.elements == b.elements;
}

bool isBound(const TensorType &type, size_t axis) {
  return type.dynamic && (!type.bounds || axis >= 64 || (type.bounds >> axis & 1));
}

TensorType tensorType(DataType type, Sizes dims) {
  TensorType result;
  result.type = type;
  result.dims = std::move(dims);
  result.known = true;
  return result;
}

TensorType sequenceType(DataType type, std::vector<Sizes> elements) {
  TensorType result = tensorType(type, elements.empty() ? Sizes() : elements[0]);
  for (const Sizes &dims : elements)
    result = join(result, tensorType(type, dims));
  result.shapeless = elements.empty() || !result.known;
  result.known = true;
  result.container = Container::Sequence;
  result.dynamic = false; // each element has its shape
  if (result.shapeless)
    result.dims.clear();
  if (elements.size() <= mostElements)
    result.elements = std::make_shared<const std::vector<Sizes>>(std::move(elements));
  return result;
}

TensorType join(const TensorType &a, const TensorType &b) {
  TensorType result = a;
  result.elements.reset();
  result.dynamic = a.dynamic || b.dynamic;
  result.bounds = 0;
  result.known = a.known && b.known && a.type == b.type && a.container == b.container;
  if (!result.known)
    return result;
  if (equalElements(a, b))
    result.elements = a.elements;
  bool empty = b.elements && b.elements->empty();
  if (a.shapeless && a.elements && a.elements->empty() && !empty) {
    result.dims = b.dims; // an empty sequence takes the shape of the other
    result.shapeless = b.shapeless;
  } else if (!empty && a.dims.size() != b.dims.size()) {
    result.known = a.container != Container::None;
    result.shapeless = true;
    result.dims.clear();
  } else if (!empty) {
    result.shapeless = a.shapeless || b.shapeless;
    for (size_t i = 0; i < a.dims.size(); ++i) {
      result.dynamic |= a.dims[i] != b.dims[i];
      result.dims[i] = std::max(a.dims[i], b.dims[i]);
    }
  }
  return result;
}

bool inferContainer(const GraphNode &node, ArrayRef<KnownInput> inputs,
                    MutableArrayRef<TensorType> outputs, std::optional<int64_t> &length) {
  static const StringMap<bool (*)(Operands &)> table = {
      {"SequenceEmpty", sequenceEmpty},
      {"SequenceConstruct", sequenceConstruct},
      {"SequenceInsert", sequenceInsert},
      {"SequenceErase", sequenceErase},
      {"SequenceAt", sequenceAt},
      {"SequenceLength", sequenceLength},
      {"SplitToSequence", splitToSequence},
      {"ConcatFromSequence", concatFromSequence},
      {"Optional", optional},
      {"OptionalHasElement", optionalHasElement},
      {"OptionalGetElement", optionalGetElement},
      {"Identity", identity},
  };
  auto found = node.domain.empty() && !outputs.empty() ? table.find(node.op) : table.end();
  if (found == table.end())
    return false;
  Operands operands{node, inputs, outputs, length};
  return found->second(operands);
}

} // namespace heterplan
