// Operators that combine or place elements along axes: reductions, running sums, parts, scatters.
#include "ir/onnx/fold/FoldingSupport.h"

#include <limits>

using namespace llvm;

namespace heterplan::folding {

namespace {

/// Which axes a reduction removes; nothing where its axes are not known or lead outside.
std::optional<std::vector<bool>> reducedAxes(const Operation &op, size_t rank) {
  bool given = op.inputs.size() > 1 && op.inputs[1].type;
  std::vector<int64_t> axes = given && op.operand(1) ? integersOf(*op.operand(1)) : Integers();
  if (given && !op.operand(1))
    return std::nullopt;
  std::vector<bool> reduced(rank, axes.empty() && !op.integer("noop_with_empty_axes", 0));
  for (int64_t axis : axes) {
    auto counted = axisOf(axis, rank);
    if (!counted)
      return std::nullopt;
    reduced[*counted] = true;
  }
  return reduced;
}

/// The element of the result to which the element at `at` belongs.
int64_t keptIndex(ArrayRef<int64_t> dims, const std::vector<bool> &reduced, ArrayRef<int64_t> at) {
  int64_t index = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (!reduced[axis])
      index = index * dims[axis] + at[axis];
  return index;
}

template <typename T> struct Reduction {
  T start;
  std::optional<T> (*combine)(T, T);
};

template <typename T, typename Load>
std::optional<std::vector<T>> reduce(const Operation &op, const TensorData &source,
                                     const Reduction<T> &reduction, Load load) {
  auto reduced = reducedAxes(op, source.shape.size());
  if (!reduced)
    return std::nullopt;
  std::vector<T> sums(countOf(op.result.shape), reduction.start);
  bool holds = true;
  eachElement(source.shape, [&](int64_t element, const Dims &at) {
    auto index = static_cast<size_t>(keptIndex(source.shape, *reduced, at));
    if (index >= sums.size() || !holds) {
      holds = false;
      return;
    }
    auto value = reduction.combine(sums[index], load(source, element));
    holds = value.has_value();
    sums[index] = value.value_or(T());
  });
  return holds ? std::optional(std::move(sums)) : std::nullopt;
}

bool foldReduction(Operation &op, Reduction<int64_t> integer, Reduction<double> real, bool isMean) {
  const TensorData *source = op.source(0);
  if (!source || !isComputable(source->type) || countOf(source->shape) == 0)
    return false;
  if (isInteger(source->type)) {
    auto sums = isMean ? std::nullopt : reduce(op, *source, integer, loadInteger);
    for (size_t i = 0; sums && i < sums->size(); ++i)
      storeInteger(op.result, static_cast<int64_t>(i), (*sums)[i]);
    return sums.has_value();
  }
  auto sums = reduce(op, *source, real, loadReal);
  double each = static_cast<double>(countOf(source->shape)) /
                static_cast<double>(std::max<int64_t>(1, countOf(op.result.shape)));
  for (size_t i = 0; sums && i < sums->size(); ++i)
    storeReal(op.result, static_cast<int64_t>(i), (*sums)[i] / (isMean ? each : 1));
  return sums.has_value();
}

template <typename T> std::optional<T> larger(T a, T b) { return std::max(a, b); }
template <typename T> std::optional<T> smaller(T a, T b) { return std::min(a, b); }
std::optional<double> plus(double a, double b) { return a + b; }
std::optional<double> multiplied(double a, double b) { return a * b; }

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
constexpr int64_t highest = std::numeric_limits<int64_t>::max();

bool foldSum(Operation &op) { return foldReduction(op, {0, add}, {0, plus}, false); }
bool foldMean(Operation &op) { return foldReduction(op, {0, add}, {0, plus}, true); }
bool foldProduct(Operation &op) { return foldReduction(op, {1, multiply}, {1, multiplied}, false); }
bool foldMax(Operation &op) {
  return foldReduction(op, {lowest, larger<int64_t>}, {-infinity, larger<double>}, false);
}
bool foldMin(Operation &op) {
  return foldReduction(op, {highest, smaller<int64_t>}, {infinity, smaller<double>}, false);
}

/// Positions of the elements of one axis: (outer·extent + i)·inner + rest.
struct Along {
  int64_t outer, extent, inner;
};
Along along(ArrayRef<int64_t> dims, int64_t axis) {
  return {countOf(dims.take_front(axis)), dims[axis], countOf(dims.drop_front(axis + 1))};
}

bool foldRunningSum(Operation &op) {
  const TensorData *source = op.source(0), *which = op.operand(1);
  if (!source || !which || !isInteger(source->type) || integersOf(*which).size() != 1 ||
      source->shape != op.result.shape)
    return false;
  auto axis = axisOf(integersOf(*which)[0], source->shape.size());
  if (!axis)
    return false;
  Along line = along(source->shape, *axis);
  bool backward = op.integer("reverse", 0) != 0, exclusive = op.integer("exclusive", 0) != 0;
  for (int64_t row = 0; row < line.outer; ++row)
    for (int64_t rest = 0; rest < line.inner; ++rest) {
      std::optional<int64_t> total = 0;
      for (int64_t i = 0; i < line.extent; ++i) {
        int64_t position = backward ? line.extent - 1 - i : i;
        int64_t element = (row * line.extent + position) * line.inner + rest;
        int64_t before = *total;
        total = add(before, loadInteger(*source, element));
        if (!total)
          return false;
        storeInteger(op.result, element, exclusive ? before : *total);
      }
    }
  return true;
}

/// Part `op.output`; the sizes of those before it are in the input `split`, or equal.
bool foldSplit(Operation &op) {
  const TensorData *source = op.source(0);
  if (!source || source->shape.size() != op.result.shape.size())
    return false;
  auto axis = axisOf(op.integer("axis", 0), source->shape.size());
  if (!axis)
    return false;
  Along line = along(source->shape, *axis);
  int64_t size = op.result.shape[*axis], start = 0;
  if (op.inputs.size() > 1) {
    std::vector<int64_t> sizes = op.operand(1) ? integersOf(*op.operand(1)) : Integers();
    if (sizes.size() != op.node.outputs.size())
      return false;
    for (size_t i = 0; i < op.output; ++i)
      start += std::clamp<int64_t>(sizes[i], 0, line.extent);
  } else {
    auto parts = static_cast<int64_t>(op.node.outputs.size());
    start = static_cast<int64_t>(op.output) * ((line.extent + parts - 1) / parts);
  }
  if (start + size > line.extent)
    return false;
  int64_t target = 0;
  for (int64_t row = 0; row < line.outer; ++row)
    for (int64_t i = 0; i < size * line.inner; ++i)
      copyElement(*source, (row * line.extent + start) * line.inner + i, op.result, target++);
  return true;
}

/// The row of `data` that indices `at`, `at` + 1, ... name; nothing where they lead outside.
std::optional<int64_t> rowOf(const TensorData &data, const TensorData &indices, int64_t at,
                             int64_t count) {
  int64_t row = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t index = loadInteger(indices, at + i), extent = data.shape[i];
    index += index < 0 ? extent : 0;
    if (index < 0 || index >= extent)
      return std::nullopt;
    row = row * extent + index;
  }
  return row;
}

bool foldScatter(Operation &op) {
  const TensorData *data = op.source(0), *indices = op.operand(1), *updates = op.source(2);
  if (!data || !indices || !updates || !isInteger(indices->type) || indices->shape.empty() ||
      op.node.attributes.count("reduction") || data->shape != op.result.shape)
    return false;
  int64_t depth = indices->shape.back();
  if (depth < 1 || depth > static_cast<int64_t>(data->shape.size()))
    return false;
  int64_t inner = countOf(ArrayRef<int64_t>(data->shape).drop_front(depth));
  int64_t rows = countOf(indices->shape) / depth;
  if (countOf(updates->shape) != rows * inner)
    return false;
  op.result.bytes = data->bytes;
  for (int64_t i = 0; i < rows; ++i) {
    auto row = rowOf(*data, *indices, i * depth, depth);
    if (!row)
      return false;
    for (int64_t j = 0; j < inner; ++j)
      copyElement(*updates, i * inner + j, op.result, *row * inner + j);
  }
  return true;
}

bool foldGatherRows(Operation &op) {
  const TensorData *data = op.source(0), *indices = op.operand(1);
  if (!data || !indices || !isInteger(indices->type) || indices->shape.empty() ||
      op.integer("batch_dims", 0))
    return false;
  int64_t depth = indices->shape.back();
  if (depth < 1 || depth > static_cast<int64_t>(data->shape.size()))
    return false;
  int64_t inner = countOf(ArrayRef<int64_t>(data->shape).drop_front(depth));
  int64_t rows = countOf(indices->shape) / depth;
  if (countOf(op.result.shape) != rows * inner)
    return false;
  for (int64_t i = 0; i < rows; ++i) {
    auto row = rowOf(*data, *indices, i * depth, depth);
    if (!row)
      return false;
    for (int64_t j = 0; j < inner; ++j)
      copyElement(*data, *row * inner + j, op.result, i * inner + j);
  }
  return true;
}

/// Coordinates of the elements that are not zero, one column each.
bool foldNonZero(Operation &op) {
  const TensorData *source = op.operand(0);
  if (!source || !isComputable(source->type) || op.result.shape.size() != 2)
    return false;
  int64_t columns = op.result.shape[1], column = 0;
  bool holds = true;
  eachElement(source->shape, [&](int64_t element, const Dims &at) {
    if (loadReal(*source, element) == 0)
      return;
    holds = holds && column < columns;
    for (size_t axis = 0; holds && axis < at.size(); ++axis)
      storeInteger(op.result, static_cast<int64_t>(axis) * columns + column, at[axis]);
    ++column;
  });
  return holds && column == columns;
}

/// Ones along a diagonal; only the shape of the input matters.
bool foldEye(Operation &op) {
  if (!isComputable(op.result.type) || op.result.shape.size() != 2)
    return false;
  int64_t shift = op.integer("k", 0);
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    storeReal(op.result, element, at[1] - at[0] == shift);
  });
  return true;
}

} // namespace

const StringMap<Folder> &reductionFolders() {
  static const StringMap<Folder> table = {
      {"ReduceSum", foldSum},   {"ReduceMean", foldMean},   {"ReduceProd", foldProduct},
      {"ReduceMax", foldMax},   {"ReduceMin", foldMin},     {"CumSum", foldRunningSum},
      {"Split", foldSplit},     {"ScatterND", foldScatter}, {"GatherND", foldGatherRows},
      {"NonZero", foldNonZero}, {"EyeLike", foldEye},
  };
  return table;
}

} // namespace heterplan::folding
