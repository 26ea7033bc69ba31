#include "ir/onnx/fold/IndexedTensors.h"

#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <utility>

using namespace llvm;

namespace heterplan {

using namespace indexed;

namespace {
/// Operators behind one another; more are none that exporters write.
constexpr int mostDepth = 64;
} // namespace

/// One operator whose operands are worked out.
class IndexedOperator {
public:
  IndexedOperator(IndexedTensors &tensors, const GraphNode &node, DataType type, const Sizes &dims)
      : tensors(tensors), node(node), type(type), dims(dims) {}

  Values run() {
    using Rule = Values (IndexedOperator::*)();
    const Rule rule = StringSwitch<Rule>(node.op)
                          .Cases("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten",
                                 &IndexedOperator::moveAxes)
                          .Case("Transpose", &IndexedOperator::transpose)
                          .Case("Expand", &IndexedOperator::expand)
                          .Case("Cast", &IndexedOperator::castElements)
                          .Cases("Add", "Sub", "Mul", &IndexedOperator::arithmetic)
                          .Cases("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal",
                                 &IndexedOperator::comparison)
                          .Cases("And", "Or", &IndexedOperator::combination)
                          .Case("Not", &IndexedOperator::negation)
                          .Case("Trilu", &IndexedOperator::triangle)
                          .Case("Gather", &IndexedOperator::gather)
                          .Case("GatherND", &IndexedOperator::gatherCoordinates)
                          .Default(nullptr);
    return rule ? (this->*rule)() : std::nullopt;
  }

private:
  IndexedTensors &tensors;
  const GraphNode &node;
  const DataType type;
  const Sizes &dims;

  Values operand(size_t input) {
    return input < node.inputs.size() && node.inputs[input] != noTensor
               ? tensors.valuesOf(node.inputs[input])
               : std::nullopt;
  }
  /// The one number of an operand, `otherwise` if it is left out.
  std::optional<int64_t> numberOr(size_t input, int64_t otherwise) {
    if (input >= node.inputs.size() || node.inputs[input] == noTensor)
      return otherwise;
    const Values values = operand(input);
    return values ? onlyNumber(*values) : std::nullopt;
  }
  /// An operand that is broadcast to the result.
  Values wide(size_t input) {
    const Values values = operand(input);
    return values ? broadcastTo(*values, dims) : std::nullopt;
  }

  Values moveAxes() {
    const Values values = operand(0);
    return values ? reshaped(*values, dims) : std::nullopt;
  }

  Values transpose() {
    const Values values = operand(0);
    const auto *order = findAttribute<std::vector<int64_t>>(node, "perm");
    return values && order ? transposed(*values, *order) : std::nullopt;
  }

  Values expand() {
    const Values values = operand(0);
    return values ? broadcastTo(*values, dims) : std::nullopt;
  }

  Values castElements() {
    Values values = operand(0);
    return values ? cast(std::move(*values), type) : std::nullopt;
  }

  Values arithmetic() {
    const Values a = wide(0), b = wide(1);
    if (!a || !b)
      return std::nullopt;
    if (node.op == "Sub" && onlyNumber(*a) == std::optional(int64_t(1)) && b->isCondition)
      return negated(*b);
    if (a->isCondition || b->isCondition)
      return std::nullopt;
    const AffineValues &left = a->parts.front(), &right = b->parts.front();
    const AffineValues zero = constantOf(0, dims.size());
    if (node.op == "Add")
      return IndexedValues{dims, false, {sum(left, 1, right)}};
    if (node.op == "Sub")
      return IndexedValues{dims, false, {sum(right, -1, left)}};
    if (isConstant(left))
      return IndexedValues{dims, false, {sum(right, left.constant, zero)}};
    if (isConstant(right))
      return IndexedValues{dims, false, {sum(left, right.constant, zero)}};
    return std::nullopt;
  }

  Values comparison() {
    const Values a = wide(0), b = wide(1);
    if (!a || !b)
      return std::nullopt;
    if (!a->isCondition && !b->isCondition)
      return compare(node.op, *a, *b);
    const bool isSwapped = node.op == "Equal" && !a->isCondition;
    const Values &conditions = isSwapped ? b : a;
    const std::optional<int64_t> number = onlyNumber(isSwapped ? *a : *b);
    return conditions->isCondition && number ? compareWithNumber(node.op, *conditions, *number)
                                             : std::nullopt;
  }

  Values combination() {
    const Values a = wide(0), b = wide(1);
    if (!a || !b || !a->isCondition || !b->isCondition)
      return std::nullopt;
    if (node.op == "Or")
      return a->parts.empty() || b->parts.empty() ? Values(conditionOf(dims, true)) : std::nullopt;
    IndexedValues both = *a;
    both.parts.append(b->parts.begin(), b->parts.end());
    return both;
  }

  Values negation() {
    Values values = operand(0);
    return values ? negated(std::move(*values)) : std::nullopt;
  }

  /// Conditions that hold within a triangle only.
  Values triangle() {
    Values values = operand(0);
    const std::optional<int64_t> shift = numberOr(1, 0);
    if (values && onlyNumber(*values) == std::optional(int64_t(1)))
      values = conditionOf(dims, true);
    if (!values || !values->isCondition || dims.size() < 2 || !shift)
      return std::nullopt;
    const AffineValues moved = constantOf(*shift, dims.size());
    const AffineValues lower = sum(upToOwn(dims.size()), 1, moved);
    const bool isUpper = integerAttribute(node, "upper", 1) != 0;
    values->parts.push_back(isUpper ? sum(lower, -1, constantOf(0, dims.size())) : lower);
    return values;
  }

  /// The elements of `data` at coordinates that have `dims`, one for each of its axes.
  Values at(const IndexedValues &data, ArrayRef<AffineValues> coordinates) {
    for (size_t axis = 0; axis < data.dims.size(); ++axis) {
      const std::optional<Range> range = rangeOf(coordinates[axis], dims);
      if (!range || range->least < 0 || range->most >= data.dims[axis])
        return std::nullopt;
    }
    IndexedValues result{dims, data.isCondition, {}};
    for (const AffineValues &part : data.parts) {
      AffineValues found = constantOf(part.constant, dims.size());
      for (size_t axis = 0; axis < data.dims.size(); ++axis)
        found = sum(coordinates[axis], part.steps[axis], found);
      result.parts.push_back(std::move(found));
    }
    return result;
  }

  /// The index along `axis` of the result.
  AffineValues along(size_t axis) {
    AffineValues index = constantOf(0, dims.size());
    index.steps[axis] = 1;
    return index;
  }

  Values gather() {
    const Values data = operand(0), indices = operand(1);
    if (!data || !indices || indices->isCondition)
      return std::nullopt;
    const auto axis = folding::axisOf(integerAttribute(node, "axis", 0), data->dims.size());
    const size_t rank = indices->dims.size();
    if (!axis || dims.size() != data->dims.size() - 1 + rank)
      return std::nullopt;
    AffineValues index = constantOf(indices->parts.front().constant, dims.size());
    for (size_t each = 0; each < rank; ++each)
      index.steps[size_t(*axis) + each] = indices->parts.front().steps[each];
    SmallVector<AffineValues, 4> coordinates;
    for (size_t each = 0; each < data->dims.size(); ++each)
      coordinates.push_back(each == size_t(*axis)  ? index
                            : each < size_t(*axis) ? along(each)
                                                   : along(each + rank - 1));
    return at(*data, coordinates);
  }

  Values gatherCoordinates() {
    const Values data = operand(0);
    const Sizes *indices = node.inputs.size() < 2 ? nullptr : tensors.dimsOf(node.inputs[1]);
    if (!data || !indices || indices->empty() || integerAttribute(node, "batch_dims") != 0)
      return std::nullopt;
    const int64_t count = indices->back();
    const size_t outer = indices->size() - 1, rank = data->dims.size();
    if (count < 1 || size_t(count) > rank || dims.size() != outer + rank - size_t(count))
      return std::nullopt;
    SmallVector<AffineValues, 4> coordinates;
    for (int64_t which = 0; which < count; ++which) {
      const Values values = coordinate(node.inputs[1], which);
      if (!values)
        return std::nullopt;
      AffineValues index = constantOf(values->parts.front().constant, dims.size());
      for (size_t axis = 0; axis < outer; ++axis)
        index.steps[axis] = values->parts.front().steps[axis];
      coordinates.push_back(std::move(index));
    }
    for (size_t axis = outer; axis < dims.size(); ++axis)
      coordinates.push_back(along(axis));
    return at(*data, coordinates);
  }

  /// Numbers that are element `which` along the last axis of `indices`; the axis has one element
  /// or stays, and counts for nothing. Exporters put the coordinates together by Concat.
  Values coordinate(TensorId indices, int64_t which) {
    const GraphNode *parts = tensors.producers[size_t(indices)];
    const Sizes &whole = *tensors.dimsOf(indices);
    const auto isOne = [&](TensorId id) {
      const Sizes *own = id == noTensor ? nullptr : tensors.dimsOf(id);
      return own && own->size() == whole.size() && own->back() == 1;
    };
    Values values;
    if (parts && parts->op == "Concat" && size_t(which) < parts->inputs.size() &&
        all_of(parts->inputs, isOne) &&
        folding::axisOf(integerAttribute(*parts, "axis"), whole.size()) ==
            std::optional(int64_t(whole.size()) - 1)) {
      values = tensors.valuesOf(parts->inputs[size_t(which)]);
    } else if ((values = tensors.valuesOf(indices)) && !values->isCondition) {
      values->parts.front().constant += values->parts.front().steps.back() * which;
    }
    return values && !values->isCondition ? values : std::nullopt;
  }
};

IndexedTensors::IndexedTensors(const Graph &graph, const GraphEvaluation &evaluation)
    : evaluation(evaluation), producers(graph.tensors.size(), nullptr) {
  for (const GraphNode &node : graph.nodes)
    if (node.domain.empty() && !node.outputs.empty() && node.outputs.front() != noTensor)
      producers[size_t(node.outputs.front())] = &node;
}

/// The dimensions of `id` at the batch of the evaluation; null where they are not certain.
const Sizes *IndexedTensors::dimsOf(TensorId id) const {
  const auto index = size_t(id);
  if (id == noTensor || index >= evaluation.types.size())
    return nullptr;
  const TensorType &type = evaluation.types[index];
  const bool isCertain = type.known && !type.dynamic && type.container == Container::None;
  return isCertain && !is_contained(type.dims, 0) ? &type.dims : nullptr;
}

std::optional<IndexedValues> IndexedTensors::valuesOf(TensorId id) {
  if (auto found = known.find(id); found != known.end())
    return found->second;
  if (depth == mostDepth)
    return std::nullopt;
  ++depth;
  Values values = compute(id);
  --depth;
  return known[id] = std::move(values);
}

std::optional<IndexedValues> IndexedTensors::compute(TensorId id) {
  const Sizes *dims = dimsOf(id);
  if (!dims)
    return std::nullopt;
  const auto index = size_t(id);
  const TensorData *data = evaluation.assumed[index] ? nullptr : evaluation.values[index];
  const GraphNode *node = producers[index];
  Values values;
  if (data)
    values = ofData(*data);
  else if (node)
    values = IndexedOperator(*this, *node, evaluation.types[index].type, *dims).run();
  return values && values->dims == *dims ? simplified(std::move(*values)) : std::nullopt;
}

bool IndexedTensors::isTriangle(TensorId id, int64_t length, bool shown) {
  Values values = valuesOf(id);
  if (values && !shown)
    values = negated(std::move(*values));
  const size_t rank = values ? values->dims.size() : 0;
  if (rank < 2 || !values->isCondition || values->parts.empty() ||
      values->dims[rank - 1] != length || values->dims[rank - 2] != length)
    return false;
  return all_of(values->parts, [&](AffineValues part) {
    const int64_t step = std::exchange(part.steps[rank - 2], 0);
    return step > 0 && std::exchange(part.steps[rank - 1], 0) == -step && isConstant(part) &&
           part.constant >= 0 && part.constant < step;
  });
}

} // namespace heterplan
