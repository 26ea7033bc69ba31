#include "ir/onnx/fold/IndexedValues.h"

#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan::indexed {

namespace {
/// Numbers are exact up to here in all types that casts may pass through, and do not overflow.
constexpr int64_t largest = int64_t(1) << 24;
bool isLarge(int64_t value) { return value > largest || value < -largest; }
} // namespace

std::optional<Range> rangeOf(const AffineValues &part, const Sizes &dims) {
  Range range{part.constant, part.constant};
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

AffineValues sum(AffineValues a, int64_t factor, const AffineValues &b) {
  a.constant = a.constant * factor + b.constant;
  for (size_t axis = 0; axis < a.steps.size(); ++axis)
    a.steps[axis] = a.steps[axis] * factor + b.steps[axis];
  return a;
}

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

AffineValues upToOwn(size_t rank) {
  AffineValues part = constantOf(0, rank);
  part.steps[rank - 2] = 1;
  part.steps[rank - 1] = -1;
  return part;
}

namespace {
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
  for (size_t axis = data.shape.size(); axis-- > 0; stride *= data.shape[axis]) {
    const int64_t next = data.shape[axis] > 1 ? folding::loadInteger(data, stride) : part.constant;
    if (isLarge(next) || isLarge(part.constant))
      return std::nullopt;
    part.steps[axis] = next - part.constant;
  }
  if (!rangeOf(part, data.shape) || !areEqual(data, part, false))
    return std::nullopt;
  return IndexedValues{data.shape, false, {part}};
}
} // namespace

Values ofData(const TensorData &data) {
  if (!folding::isComputable(data.type) || data.bytes.empty())
    return std::nullopt;
  Values numbers = data.type == DataType::Bool ? std::nullopt : numbersOf(data);
  return numbers ? numbers : conditionsOf(data);
}

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

Values compareWithNumber(StringRef op, const IndexedValues &conditions, int64_t number) {
  if ((op == "Equal" && number == 1) || (op == "Greater" && number == 0))
    return conditions;
  if ((op == "Equal" && number == 0) || (op == "Less" && number == 1))
    return negated(conditions);
  return std::nullopt;
}

} // namespace heterplan::indexed
