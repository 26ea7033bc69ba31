#include "ir/onnx/fold/IndexedValues.h"

#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
using Values = std::optional<IndexedValues>;

/// Numbers are exact up to here in all types that casts may pass through, and do not overflow.
constexpr int64_t largest = int64_t(1) << 24;
/// Operators behind one another; more are none that exporters write.
constexpr int mostDepth = 64;

struct Range {
  int64_t least = 0, most = 0;
};

/// The range of `part` over `dims`; nothing where it holds larger numbers than are exact.
std::optional<Range> rangeOf(const AffineValues &part, const Sizes &dims) {
  Range range{part.constant, part.constant};
  const auto isLarge = [](int64_t value) { return value > largest || value < -largest; };
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int64_t step = part.steps[axis], last = dims[axis] - 1;
    if (step == 0)
      continue;
    if (isLarge(step) || isLarge(last))
      return std::nullopt;
    (step > 0 ? range.most : range.least) += step * last;
    if (isLarge(range.least) || isLarge(range.most))
      return std::nullopt;
  }
  return isLarge(part.constant) ? std::nullopt : std::optional(range);
}

AffineValues constantOf(int64_t value, size_t rank) { return {value, Sizes(rank, 0)}; }

bool isConstant(const AffineValues &part) {
  return all_of(part.steps, [](int64_t step) { return step == 0; });
}

/// a · `factor` + b
AffineValues sum(AffineValues a, int64_t factor, const AffineValues &b) {
  a.constant = a.constant * factor + b.constant;
  for (size_t axis = 0; axis < a.steps.size(); ++axis)
    a.steps[axis] = a.steps[axis] * factor + b.steps[axis];
  return a;
}

/// `values` without parts that always hold; what never holds has one part alone. Nothing where a
/// part is too large.
Values simplified(IndexedValues values) {
  SmallVector<AffineValues, 1> parts;
  for (AffineValues &part : values.parts) {
    const std::optional<Range> range = rangeOf(part, values.dims);
    if (!range)
      return std::nullopt;
    if (values.isCondition && range->most < 0) {
      parts.assign(1, constantOf(-1, values.dims.size()));
      break;
    }
    if (!values.isCondition || range->least < 0)
      parts.push_back(std::move(part));
  }
  values.parts = std::move(parts);
  return values;
}

IndexedValues conditionOf(Sizes dims, bool holds) {
  IndexedValues values{std::move(dims), true, {}};
  if (!holds)
    values.parts.push_back(constantOf(-1, values.dims.size()));
  return values;
}

/// 0 where a key is the query's own, and less behind it.
AffineValues upToOwn(size_t rank) {
  AffineValues part = constantOf(0, rank);
  part.steps[rank - 2] = 1;
  part.steps[rank - 1] = -1;
  return part;
}

int64_t valueAt(const AffineValues &part, ArrayRef<int64_t> index) {
  int64_t value = part.constant;
  for (size_t axis = 0; axis < index.size(); ++axis)
    value += part.steps[axis] * index[axis];
  return value;
}

bool areEqual(const TensorData &data, const AffineValues &part, bool isCondition) {
  bool equal = true;
  folding::eachElement(data.shape, [&](int64_t element, ArrayRef<int64_t> index) {
    const int64_t value = equal ? valueAt(part, index) : 0;
    equal = equal && folding::loadReal(data, element) == double(isCondition ? value >= 0 : value);
  });
  return equal;
}

/// Conditions that all hold, none of which holds, or that make a triangle.
Values conditionsOf(const TensorData &data) {
  const size_t rank = data.shape.size();
  for (bool holds : {true, false})
    if (areEqual(data, constantOf(holds ? 0 : -1, rank), true))
      return conditionOf(data.shape, holds);
  if (rank < 2)
    return std::nullopt;
  const AffineValues shown = upToOwn(rank);
  for (const AffineValues &part : {shown, sum(shown, -1, constantOf(-1, rank))})
    if (areEqual(data, part, true))
      return IndexedValues{data.shape, true, {part}};
  return std::nullopt;
}

Values numbersOf(const TensorData &data) {
  AffineValues part = constantOf(folding::loadInteger(data, 0), data.shape.size());
  int64_t stride = 1;
  for (size_t axis = data.shape.size(); axis-- > 0; stride *= data.shape[axis])
    if (data.shape[axis] > 1)
      part.steps[axis] = folding::loadInteger(data, stride) - part.constant;
  if (!rangeOf(part, data.shape) || !areEqual(data, part, false))
    return std::nullopt;
  return IndexedValues{data.shape, false, {part}};
}

Values ofData(const TensorData &data) {
  if (!folding::isComputable(data.type) || data.bytes.empty())
    return std::nullopt;
  const int64_t first = folding::loadInteger(data, 0);
  if (first > largest || first < -largest)
    return std::nullopt;
  Values numbers = data.type == DataType::Bool ? std::nullopt : numbersOf(data);
  return numbers ? numbers : conditionsOf(data);
}

/// `values` with axes of one element put in or taken out, so that they have `dims`.
Values reshaped(const IndexedValues &values, const Sizes &dims) {
  SmallVector<int, 4> source(dims.size(), -1); // by axis of `dims`; -1: an axis of one element
  size_t from = 0;
  const auto skipOnes = [&] {
    while (from < values.dims.size() && values.dims[from] == 1)
      ++from;
  };
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1)
      continue;
    skipOnes();
    if (from == values.dims.size() || values.dims[from] != dims[axis])
      return std::nullopt;
    source[axis] = int(from++);
  }
  skipOnes();
  if (from != values.dims.size())
    return std::nullopt;
  IndexedValues result{dims, values.isCondition, {}};
  for (const AffineValues &part : values.parts) {
    AffineValues moved = constantOf(part.constant, dims.size());
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (source[axis] >= 0)
        moved.steps[axis] = part.steps[source[axis]];
    result.parts.push_back(std::move(moved));
  }
  return result;
}

Values transposed(const IndexedValues &values, ArrayRef<int64_t> order) {
  IndexedValues result = values;
  if (order.size() != values.dims.size())
    return std::nullopt;
  for (size_t axis = 0; axis < order.size(); ++axis) {
    if (order[axis] < 0 || size_t(order[axis]) >= order.size())
      return std::nullopt;
    result.dims[axis] = values.dims[order[axis]];
    for (size_t part = 0; part < values.parts.size(); ++part)
      result.parts[part].steps[axis] = values.parts[part].steps[order[axis]];
  }
  return result;
}

Values broadcastTo(const IndexedValues &values, const Sizes &dims) {
  if (!folding::broadcastsTo(values.dims, dims))
    return std::nullopt;
  IndexedValues result{dims, values.isCondition, {}};
  const size_t skip = dims.size() - values.dims.size();
  for (const AffineValues &part : values.parts) {
    AffineValues wide = constantOf(part.constant, dims.size());
    for (size_t axis = 0; axis < values.dims.size(); ++axis)
      if (values.dims[axis] > 1)
        wide.steps[skip + axis] = part.steps[axis];
    result.parts.push_back(std::move(wide));
  }
  return result;
}

/// The elements of `values` as elements of type `type`.
Values cast(IndexedValues values, DataType type) {
  if (type == DataType::Bool && !values.isCondition) {
    if (!isConstant(values.parts.front()))
      return std::nullopt;
    return conditionOf(values.dims, values.parts.front().constant != 0);
  }
  const bool isExact = type == DataType::Bool || type == DataType::Int32 ||
                       type == DataType::Int64 || type == DataType::Float32 ||
                       type == DataType::Float64;
  return isExact ? Values(std::move(values)) : std::nullopt;
}

/// The element of `values`, if all are equal.
std::optional<int64_t> onlyNumber(const IndexedValues &values) {
  if (values.parts.empty()) // conditions that hold
    return 1;
  if (!isConstant(values.parts.front()))
    return std::nullopt;
  return values.isCondition ? 0 : values.parts.front().constant;
}

Values negated(IndexedValues values) {
  if (!values.isCondition || values.parts.size() > 1)
    return std::nullopt;
  if (values.parts.empty())
    return conditionOf(values.dims, false);
  const AffineValues less = constantOf(-1, values.dims.size());
  values.parts.front() = sum(values.parts.front(), -1, less);
  return values;
}

/// The condition that the comparison `op` makes of numbers of equal dimensions.
Values compare(StringRef op, const IndexedValues &a, const IndexedValues &b) {
  const AffineValues &left = a.parts.front(), &right = b.parts.front();
  const AffineValues difference = sum(right, -1, left); // left - right
  const AffineValues less = constantOf(-1, a.dims.size());
  const auto atLeastZero = [&](AffineValues part) {
    return IndexedValues{a.dims, true, {std::move(part)}};
  };
  if (op == "GreaterOrEqual")
    return atLeastZero(difference);
  if (op == "Greater")
    return atLeastZero(sum(difference, 1, less));
  if (op == "LessOrEqual")
    return atLeastZero(sum(difference, -1, constantOf(0, a.dims.size())));
  if (op == "Less")
    return atLeastZero(sum(difference, -1, less));
  const std::optional<Range> range = rangeOf(difference, a.dims); // Equal
  if (!range || (range->least <= 0 && range->most >= 0 && range->least != range->most))
    return std::nullopt;
  return conditionOf(a.dims, range->least == 0 && range->most == 0);
}

/// The condition that the comparison `op` makes of conditions, which are 0 or 1, and a number.
Values compareWithNumber(StringRef op, const IndexedValues &conditions, int64_t number) {
  if ((op == "Equal" && number == 1) || (op == "Greater" && number == 0))
    return conditions;
  if ((op == "Equal" && number == 0) || (op == "Less" && number == 1))
    return negated(conditions);
  return std::nullopt;
}
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
