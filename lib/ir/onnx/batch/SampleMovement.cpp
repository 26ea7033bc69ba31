#include "ir/onnx/batch/SampleMovement.h"

#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan::samples {

namespace {

constexpr int64_t largestRun = int64_t(1) << 45;
constexpr SampleResult picks = {SampleEffect::Mixes, 0,
                                "picks rows by their place among all samples"};
constexpr SampleResult apart = {SampleEffect::Unknown, 0,
                                "has operands whose samples lie on different axes"};
constexpr SampleResult scattered = {SampleEffect::Unknown, 0,
                                    "tears samples apart that lie behind other axes"};

int64_t axisOf(const GraphNode &node, int64_t otherwise, int rank) {
  int64_t axis = integerAttribute(node, "axis", otherwise);
  return axis < 0 ? axis + rank : axis;
}

int64_t productBefore(ArrayRef<Dim> shape, int axis) {
  int64_t product = 1;
  for (int i = 0; i < axis; ++i)
    product *= std::max<int64_t>(1, std::min(shape[i].fixed, largestRun / product));
  return product;
}

SampleResult each(int64_t runs) { return {SampleEffect::Each, runs, ""}; }

/// Whether the indices, of `depth` coordinates, pick rows of the same sample along the axis of the
/// samples, which coordinate `number` counts.
bool ownRows(const SampleNode &n, size_t number, int64_t depth) {
  return n.grows(1) && n.in(0).runs == 1 &&
         n.in(1).indexes(number, static_cast<size_t>(depth), n.perSample(0));
}

/// The element of a small integer operand, in terms of the batch.
std::optional<Dim> element(const SampleNode &n, size_t input, size_t index) {
  if (!n.has(input))
    return std::nullopt;
  const GraphTensor &tensor = n.graph.tensors[n.node.inputs[input]];
  if (tensor.role == TensorRole::Size && index < tensor.sizes.size())
    return tensor.sizes[index];
  if (tensor.role != TensorRole::Constant || !tensor.data ||
      !folding::isInteger(tensor.data->type) || tensor.data->bytes.empty())
    return std::nullopt;
  std::vector<int64_t> values = folding::integersOf(*tensor.data);
  return index < values.size() ? std::optional(Dim{0, values[index]}) : std::nullopt;
}

} // namespace

/// The number of elements before the samples in row-major order, productBefore·runs, is the same on
/// both sides.
SampleResult reorders(const SampleNode &n) {
  SampleLayout from = n.in(0);
  if (!n.grows(0) || !from.runs)
    return scattered;
  int64_t outer = productBefore(n.shape(0), from.axis);
  int64_t inner = productBefore(n.result(), n.axis());
  if (from.runs > largestRun / outer || outer * from.runs % inner)
    return scattered;
  // A row of samples that lie in several runs would have elements of several samples.
  int64_t runs = outer * from.runs / inner;
  return n.perSample() % runs ? scattered : each(runs);
}

SampleResult transposes(const SampleNode &n) {
  const auto *perm = findAttribute<std::vector<int64_t>>(n.node, "perm");
  int64_t source = perm && n.axis() < static_cast<int>(perm->size()) ? (*perm)[n.axis()]
                                                                     : n.rank(0) - 1 - n.axis();
  return source == n.in(0).axis ? each(n.in(0).runs) : apart;
}

/// Along another axis every part has a row for each sample; along that of the samples, a run each.
SampleResult joins(const SampleNode &n) {
  bool along = axisOf(n.node, 0, n.rank(0)) == n.axis();
  int64_t runs = n.in(0).runs;
  for (size_t i = 0; i < n.count(); ++i) {
    if (!n.grows(i) || n.in(i).axis != n.axis())
      return apart;
    if (n.in(i).runs != runs || (along && n.perSample(i) != n.perSample(0)))
      return apart;
  }
  return each(along ? runs * static_cast<int64_t>(n.count()) : runs);
}

SampleResult stacks(const SampleNode &n) {
  bool isNew = integerAttribute(n.node, "new_axis", 0) == 1;
  int64_t axis = axisOf(n.node, 0, n.rank(0) + (isNew ? 1 : 0));
  if (!isNew && axis == n.in(0).axis)
    return picks;
  int expected = n.in(0).axis + (isNew && axis <= n.in(0).axis ? 1 : 0);
  return expected == n.axis() ? each(n.in(0).runs) : apart;
}

/// Whether a Slice goes backwards along the samples, or may: samples then change places.
static bool mayReverse(const SampleNode &n) {
  if (n.node.op != "Slice" || !n.has(4))
    return false;
  for (size_t i = 0; i < n.shape(0).size(); ++i) {
    auto axis = element(n, 3, i), step = element(n, 4, i);
    bool isNamed = axis && (axis->fixed < 0 ? axis->fixed + n.rank(0) : axis->fixed) == n.axis();
    if (isNamed)
      return !step || step->perSample || step->fixed < 0;
  }
  return false;
}

/// If the samples themselves are cut, whole runs must stay together.
SampleResult cuts(const SampleNode &n) {
  SampleLayout from = n.in(0);
  if (n.axis() != from.axis || !from.runs)
    return apart;
  if (mayReverse(n))
    return picks;
  int64_t whole = n.perSample(0), run = whole / from.runs;
  if (n.perSample() == whole)
    return each(from.runs);
  if (n.perSample() % run || whole % from.runs)
    return picks;
  if (n.node.op == "Split") {
    for (TensorId id : n.node.outputs)
      if (id == noTensor || n.graph.tensors[id].shape[n.axis()].perSample % run)
        return picks;
    return each(n.perSample() / run);
  }
  for (size_t i = 0; n.node.op == "Slice" && i < n.shape(0).size(); ++i) {
    auto axis = element(n, 3, i), start = element(n, 1, i), step = element(n, 4, i);
    if (!axis || (axis->fixed < 0 ? axis->fixed + n.rank(0) : axis->fixed) != n.axis())
      continue;
    bool atRun = start && !start->fixed && start->perSample % run == 0;
    return atRun && (!n.has(4) || (step && *step == Dim{0, 1})) ? each(n.perSample() / run) : picks;
  }
  return picks;
}

SampleResult tiles(const SampleNode &n) {
  if (!n.grows(0) || n.in(0).axis != n.axis() || n.perSample() % n.perSample(0))
    return apart;
  return each(n.in(0).runs * (n.perSample() / n.perSample(0)));
}

/// Numbers of samples that pick rows of what has no samples: it had them, and was baked.
bool picksOfBaked(const SampleNode &n) { return !n.grows(0) && n.in(1).isNumbered(); }

/// Rows of a table by what the samples hold, or the same rows of every sample. Along the axis of
/// the samples, each may pick rows of its own.
SampleResult gathers(const SampleNode &n) {
  if (picksOfBaked(n))
    return picks;
  if (!n.grows(0))
    return each(n.in(1).runs);
  if (n.in(0).axis != axisOf(n.node, 0, n.rank(0)))
    return n.grows(1) ? apart : each(n.in(0).runs);
  bool ownRow = n.in(0).runs == 1 && n.in(1).columns.empty() && n.in(1).step == n.perSample(0);
  return ownRow ? each(n.in(1).runs) : picks;
}

SampleResult gathersPoints(const SampleNode &n) {
  if (picksOfBaked(n))
    return picks;
  if (!n.grows(0))
    return n.in(1).axis < n.rank(1) - 1 ? each(n.in(1).runs) : picks;
  int64_t beside = integerAttribute(n.node, "batch_dims", 0);
  int64_t depth = n.has(1) ? n.shape(1).back().fixed : 0;
  int axis = n.in(0).axis;
  if (axis < beside) {
    bool isBeside = !n.grows(1) || (n.in(1).axis == axis && n.in(1).runs == n.in(0).runs);
    return !isBeside ? apart : n.in(1).isNumbered() ? picks : each(n.in(0).runs);
  }
  if (axis >= beside + depth)
    return n.grows(1) ? apart : each(n.in(0).runs);
  return ownRows(n, static_cast<size_t>(axis - beside), depth) ? each(n.in(1).runs) : picks;
}

SampleResult scattersPoints(const SampleNode &n) {
  int64_t depth = n.has(1) ? n.shape(1).back().fixed : 0;
  int axis = n.in(0).axis;
  if (!n.grows(0))
    return picks;
  if (axis >= depth)
    return n.grows(1) || !n.grows(2) || n.in(2).runs != n.in(0).runs ? apart : each(n.in(0).runs);
  bool isOwn = ownRows(n, static_cast<size_t>(axis), depth) && n.grows(2) &&
               n.in(2).axis == n.in(1).axis && n.in(2).runs == n.in(1).runs;
  return isOwn ? each(n.in(0).runs) : picks;
}

/// Nothing is added or cut along the axis of the samples, which would move them.
SampleResult pads(const SampleNode &n) {
  int64_t axis = n.axis();
  if (n.in(0).axis != axis || n.perSample(0) != n.perSample())
    return apart;
  const auto *written = findAttribute<std::vector<int64_t>>(n.node, "pads");
  size_t count = written    ? written->size()
                 : n.has(1) ? static_cast<size_t>(n.shape(1)[0].fixed)
                            : 0;
  for (size_t i = 0; i < count; ++i) {
    auto number = static_cast<int64_t>(i % (count / 2));
    auto padded = n.has(3) ? element(n, 3, i % (count / 2)) : std::optional(Dim{0, number});
    if (padded && (padded->fixed < 0 ? padded->fixed + n.rank(0) : padded->fixed) != axis)
      continue;
    auto amount = written ? std::optional(Dim{0, (*written)[i]}) : element(n, 1, i);
    if (!padded || amount != Dim{0, 0})
      return picks;
  }
  return each(n.in(0).runs);
}

} // namespace heterplan::samples
