#include "ir/onnx/batch/SampleNumbers.h"

#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

using namespace llvm;

namespace heterplan {

namespace {

constexpr int64_t largestStep = int64_t(1) << 40;

/// The values of an integer operand that are known at import.
std::optional<std::vector<int64_t>> numbersOf(const SampleNode &n, size_t input) {
  if (!n.has(input))
    return std::nullopt;
  const GraphTensor &tensor = n.graph.tensors[n.node.inputs[input]];
  std::vector<int64_t> values;
  if (tensor.role == TensorRole::Size) {
    for (const Dim &size : tensor.sizes) {
      if (size.perSample)
        return std::nullopt;
      values.push_back(size.fixed);
    }
    return values;
  }
  if (tensor.role != TensorRole::Constant || !tensor.data ||
      !folding::isInteger(tensor.data->type) || tensor.data->bytes.empty())
    return std::nullopt;
  return folding::integersOf(*tensor.data);
}

std::optional<int64_t> numberOf(const SampleNode &n, size_t input) {
  auto values = numbersOf(n, input);
  return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
}

size_t widthOf(const Shape &shape) {
  return shape.empty() || shape.back().perSample || shape.back().fixed < 1
             ? 0
             : static_cast<size_t>(shape.back().fixed);
}

/// The steps of `width` coordinates; empty where there are other numbers of them.
std::vector<int64_t> columnsOf(const SampleLayout &layout, size_t width) {
  if (!layout.columns.empty())
    return layout.columns.size() == width ? layout.columns : std::vector<int64_t>();
  bool isUnknown = !layout.step && layout.isNumbered();
  return std::vector<int64_t>(width, isUnknown ? -1 : layout.step);
}

void setColumns(SampleLayout &made, std::vector<int64_t> columns) {
  made.step = 0;
  made.columns.clear();
  if (columns.empty())
    return;
  if (is_splat(columns) && columns.front() >= 0)
    made.step = columns.front();
  else
    made.columns = std::move(columns);
}

/// i·step times constants that are the same for all samples.
void scale(const SampleNode &n, size_t counting, SampleLayout &made) {
  SampleLayout from = n.in(counting);
  size_t width = widthOf(n.result());
  auto factors = numbersOf(n, 1 - counting);
  bool isRow = factors && (factors->size() == 1 || factors->size() == width);
  if (!isRow || (factors->size() > 1 && widthOf(n.shape(1 - counting)) != width))
    return;
  if (any_of(*factors, [](int64_t each) { return each < 0 || each > largestStep; }))
    return;
  if (factors->size() == 1 && from.columns.empty()) {
    made.step = from.step <= largestStep / std::max<int64_t>(1, factors->front())
                    ? from.step * factors->front()
                    : 0;
    return;
  }
  std::vector<int64_t> columns = columnsOf(from, width);
  for (size_t i = 0; i < columns.size(); ++i) {
    int64_t factor = (*factors)[factors->size() == 1 ? 0 : i];
    if (columns[i] > 0)
      columns[i] =
          columns[i] <= largestStep / std::max<int64_t>(1, factor) ? columns[i] * factor : -1;
  }
  setColumns(made, std::move(columns));
}

/// i·step plus a row below `step`: constants that are, or what a sample picks.
void offset(const SampleNode &n, size_t counting, SampleLayout &made) {
  SampleLayout from = n.in(counting), other = n.in(1 - counting);
  if (other.isNumbered() || other.kind == SampleLayout::Torn)
    return;
  auto values = numbersOf(n, 1 - counting);
  if (!values && (other.kind == SampleLayout::Shared || !from.columns.empty()))
    return;
  if (!values) {
    made.step = from.step > 1 ? from.step : 0;
    return;
  }
  size_t width = from.columns.empty() ? 1 : from.columns.size();
  bool isAligned = values->size() == 1 || width == 1 || widthOf(n.shape(1 - counting)) == width;
  std::vector<int64_t> columns = columnsOf(from, width);
  for (size_t i = 0; i < values->size() && isAligned; ++i)
    for (size_t k = 0; k < width; ++k)
      if ((values->size() == 1 || width == 1 || i % width == k) && columns[k] > 0)
        isAligned = isAligned && (*values)[i] >= 0 && (*values)[i] < columns[k];
  if (!isAligned)
    return;
  if (from.columns.empty())
    made.step = from.step;
  else
    setColumns(made, std::move(columns));
}

void join(const SampleNode &n, SampleLayout &made) {
  int64_t axis = integerAttribute(n.node, "axis", 0),
          rank = static_cast<int64_t>(n.result().size());
  bool isLast = axis == -1 || axis == rank - 1;
  std::vector<int64_t> columns;
  for (size_t i = 0; i < n.count(); ++i) {
    std::vector<int64_t> own = columnsOf(n.in(i), isLast ? widthOf(n.shape(i)) : 1);
    if (own.empty())
      return;
    columns.insert(columns.end(), own.begin(), own.end());
  }
  bool isUniform = is_splat(columns) && columns.front() >= 0;
  if (isLast && n.axis() != rank - 1)
    setColumns(made, std::move(columns));
  else if (isUniform)
    made.step = columns.front();
}

} // namespace

int64_t stepOfRange(const SampleNode &n) {
  auto start = numberOf(n, 0), delta = numberOf(n, 2);
  if (!start || !delta || *delta < 1 || *delta > largestStep || *start < 0 || *start >= *delta)
    return 0;
  int64_t rows = n.perSample();
  return rows >= 1 && rows <= largestStep / *delta ? rows * *delta : 0;
}

void followNumbers(const SampleNode &n, SampleLayout &made) {
  static const StringSet<> moves = {"Cast",      "CastLike", "Identity", "Unsqueeze",
                                    "Squeeze",   "Reshape",  "Flatten",  "Expand",
                                    "Transpose", "Tile",     "Slice",    "Split"};
  static const StringSet<> keepsColumns = {"Cast",    "CastLike", "Identity", "Unsqueeze",
                                           "Squeeze", "Reshape",  "Expand"};
  if (!n.node.domain.empty() || !n.has(0))
    return;
  if (moves.count(n.node.op)) {
    made.step = n.in(0).step;
    size_t width = n.in(0).columns.size();
    if (width && keepsColumns.count(n.node.op) && widthOf(n.result()) == width)
      made.columns = n.in(0).columns;
    return;
  }
  if (n.node.op == "Concat")
    return join(n, made);
  if ((n.node.op != "Mul" && n.node.op != "Add") || n.count() != 2)
    return;
  size_t counting = n.in(0).step || !n.in(0).columns.empty() ? 0 : 1;
  if (!n.in(counting).step && n.in(counting).columns.empty())
    return;
  n.node.op == "Mul" ? scale(n, counting, made) : offset(n, counting, made);
}

bool computesWithNumbers(const SampleNode &n, const SampleLayout &made) {
  static const StringSet<> indexed = {"Gather", "GatherND", "ScatterND"};
  if (made.content != SampleLayout::Data || made.isNumbered())
    return false;
  bool hasIndex = n.node.domain.empty() && indexed.count(n.node.op);
  for (size_t i = 0; i < n.count(); ++i)
    if (n.in(i).isNumbered() && (i != 1 || !hasIndex))
      return true;
  return false;
}

} // namespace heterplan
