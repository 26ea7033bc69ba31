#include "cost/kernels/Shapes.h"

#include <algorithm>
#include <limits>
#include <random>

namespace heterplan::kernels {
namespace {
bool isBias(const Operand &operand, int64_t width) {
  return !operand.tensor || (operand.dims.back() == width && product(operand.dims) == width);
}
} // namespace

std::optional<Product> matMulOf(const Call &call) {
  const Dims &left = call.inputs[0].dims, &right = call.inputs[1].dims;
  if (left.size() < 2 || right.size() < 2)
    return std::nullopt;
  if (right.size() == 2) { // the leading axes of A are rows
    int64_t inner = left.back(), rows = product(left) / std::max<int64_t>(inner, 1);
    return Product{{rows, inner}, right, {rows, right[1]}};
  }
  bool sameBatch =
      left.size() == right.size() && std::equal(left.begin(), left.end() - 2, right.begin());
  if (!sameBatch)
    return std::nullopt;
  return Product{left, right, call.outputs[0].dims};
}

std::optional<Product> gemmOf(const Call &call) {
  bool biased = call.has(2);
  bool scaled = call.real("alpha", 1) != 1 || (biased && call.real("beta", 1) != 1);
  if (scaled || (biased && !isBias(call.inputs[2], call.outputs[0].dims.back())))
    return std::nullopt;
  return Product{call.inputs[0].dims,
                 call.inputs[1].dims,
                 call.outputs[0].dims,
                 call.integer("transA", 0) != 0,
                 call.integer("transB", 0) != 0,
                 biased};
}

std::optional<Lookup> lookupOf(const Call &call) {
  const Dims &dims = call.inputs[0].dims;
  if (product(dims) == 0)
    return std::nullopt;
  auto axis = size_t(axisOf(call.integer("axis", 0), dims.size()));
  Lookup lookup;
  lookup.rows = dims[axis];
  lookup.outer = product({dims.data(), axis});
  lookup.width = product({dims.data() + axis + 1, dims.size() - axis - 1});
  lookup.indices = call.constant(1);
  for (int64_t &index : lookup.indices)
    index = axisOf(index, size_t(lookup.rows));
  if (!lookup.indices.empty())
    return lookup;
  std::mt19937 random(1);
  std::uniform_int_distribution<int64_t> uniform(0, lookup.rows - 1);
  lookup.indices.resize(product(call.inputs[1].dims));
  std::generate(lookup.indices.begin(), lookup.indices.end(), [&] { return uniform(random); });
  return lookup;
}

std::optional<Reduction> reductionOf(const Call &call) {
  const Dims &dims = call.inputs[0].dims;
  Dims axes = call.has(1) ? call.constant(1) : call.integers("axes", {});
  if (!call.inputs[0].isFloat() || (call.has(1) && axes.empty()) || product(dims) == 0)
    return std::nullopt;
  Reduction reduction{dims, axes.empty() ? Dims(dims.size(), 1) : dims};
  for (int64_t axis : axes)
    reduction.kept[axisOf(axis, dims.size())] = 1;
  if (reduction.kept == dims)
    return std::nullopt; // nothing is reduced
  if (call.node.op == "ReduceMean")
    reduction.factor = float(product(reduction.kept)) / float(product(dims));
  return reduction;
}

std::optional<Rows> layerNormalizationOf(const Call &call) {
  int64_t width = product(call.inputs[1].dims), all = product(call.inputs[0].dims);
  if (width == 0 || all == 0)
    return std::nullopt;
  return Rows{all / width, width};
}

std::optional<std::pair<float, float>> boundsOf(const Call &call) {
  constexpr float most = std::numeric_limits<float>::max();
  for (size_t bound = 1; bound < call.inputs.size(); ++bound)
    if (call.has(bound) && !call.scalar(bound))
      return std::nullopt;
  return std::pair(call.scalar(1).value_or(static_cast<float>(call.real("min", -most))),
                   call.scalar(2).value_or(static_cast<float>(call.real("max", most))));
}

} // namespace heterplan::kernels
