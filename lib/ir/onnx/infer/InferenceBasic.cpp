// Elementwise operators, conversions, reductions, and moves of whole axes.
#include "ir/onnx/infer/InferenceSupport.h"

#include <algorithm>

using namespace llvm;

namespace heterplan::inference {

Error sameAsInput(Inference &node) {
  node.set(0, node.type(0), node.dims(0));
  return Error::success();
}

Error elementwise(Inference &node) {
  auto dims = broadcast(node, node.dims(0), node.dims(1));
  if (!dims)
    return dims.takeError();
  node.set(0, node.type(0), *dims);
  return Error::success();
}

Error test(Inference &node) {
  node.set(0, DataType::Bool, node.dims(0));
  return Error::success();
}

/// How many parts there are depends on the strings.
Error stringSplit(Inference &node) {
  node.setType(0, node.type(0));
  node.set(1, DataType::Int64, node.dims(0));
  return Error::success();
}

Error cast(Inference &node) {
  auto type = typeNumber(node, node.integer("to", 0));
  if (!type)
    return type.takeError();
  node.set(0, *type, node.dims(0));
  return Error::success();
}

Error castLike(Inference &node) {
  node.set(0, node.type(1), node.dims(0));
  return Error::success();
}

Error quantize(Inference &node) {
  auto type = typeNumber(node, node.integer("output_dtype", 0) ? node.integer("output_dtype", 0)
                               : node.has(2)                   ? static_cast<int>(node.type(2))
                                                               : static_cast<int>(DataType::UInt8));
  if (!type)
    return type.takeError();
  node.set(0, *type, node.dims(0));
  return Error::success();
}

Error dequantize(Inference &node) {
  int64_t given = node.integer("output_dtype", 0);
  auto type = typeNumber(node, given ? given : static_cast<int>(node.type(1)));
  if (!type)
    return type.takeError();
  node.set(0, *type, node.dims(0));
  return Error::success();
}

/// Axes of a reduction are an input; all of them where there are none.
Error reduce(Inference &node) {
  std::vector<int64_t> axes;
  if (node.has(1)) {
    auto given = node.values(1);
    if (!given) {
      node.setType(0, node.type(0));
      return Error::success();
    }
    axes = std::move(*given);
  }
  bool keep = node.integer("keepdims", 1) != 0;
  bool all = axes.empty() && !node.integer("noop_with_empty_axes", 0);
  Dims before = node.dims(0), after;
  std::vector<bool> reduced(before.size(), all);
  for (int64_t axis : axes) {
    auto counted = axisOf(node, axis, node.rank(0));
    if (!counted)
      return counted.takeError();
    reduced[*counted] = true;
  }
  for (size_t i = 0; i < before.size(); ++i)
    if (!reduced[i] || keep)
      after.push_back(reduced[i] ? 1 : before[i]);
  node.set(0, node.type(0), after);
  return Error::success();
}

namespace {
/// Sizes of the parts: as given, or equal but for a smaller last one.
Expected<std::vector<int64_t>> partSizes(const Inference &node, int64_t extent) {
  auto count = static_cast<int64_t>(node.outputs.size());
  if (node.has(1)) {
    auto given = node.values(1);
    if (!given)
      return std::vector<int64_t>();
    if (static_cast<int64_t>(given->size()) != count || product(*given) < 0)
      return node.fail(std::to_string(given->size()) + " sizes for " + std::to_string(count) +
                       " outputs");
    int64_t total = 0;
    for (int64_t size : *given)
      total = plus(total, size);
    if (total != extent)
      return node.fail("the parts have " + std::to_string(total) + " elements of " +
                       std::to_string(extent));
    return std::move(*given);
  }
  int64_t wanted = node.integer("num_outputs", count);
  if (wanted != count)
    return node.fail("attribute 'num_outputs' is " + std::to_string(wanted) + ", but there are " +
                     std::to_string(count) + " outputs");
  int64_t each = (extent + count - 1) / count;
  std::vector<int64_t> sizes(count, each);
  sizes.back() = std::max<int64_t>(0, extent - each * (count - 1));
  return sizes;
}
} // namespace

Error split(Inference &node) {
  auto axis = axisOf(node, node.integer("axis", 0), node.rank(0));
  if (!axis)
    return axis.takeError();
  auto sizes = partSizes(node, node.dims(0)[*axis]);
  if (!sizes)
    return sizes.takeError();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Dims dims = node.dims(0);
    node.setType(i, node.type(0));
    if (i >= sizes->size())
      continue;
    dims[*axis] = (*sizes)[i];
    node.set(i, node.type(0), dims);
  }
  return Error::success();
}

namespace {
/// The axes that an input of `count` values, or the attribute `axes`, speaks of; all where absent.
Expected<std::vector<int64_t>>
axesOrAll(const Inference &node, const std::optional<std::vector<int64_t>> &given, int64_t rank) {
  std::vector<int64_t> axes;
  if (!given) {
    for (int64_t axis = 0; axis < rank; ++axis)
      axes.push_back(axis);
    return axes;
  }
  for (int64_t axis : *given) {
    auto counted = axisOf(node, axis, rank);
    if (!counted)
      return counted.takeError();
    axes.push_back(*counted);
  }
  return axes;
}
} // namespace

Error pad(Inference &node) {
  node.setType(0, node.type(0));
  auto pads = node.values(1);
  if (!pads || (node.has(3) && !node.values(3)))
    return Error::success();
  auto axes = axesOrAll(node, node.has(3) ? node.values(3) : std::nullopt, node.rank(0));
  if (!axes)
    return axes.takeError();
  size_t count = axes->size();
  if (pads->size() != 2 * count)
    return node.fail(std::to_string(pads->size()) + " pads for " + std::to_string(count) + " axes");
  Dims dims = node.dims(0);
  for (size_t i = 0; i < count; ++i) {
    int64_t &dim = dims[(*axes)[i]];
    dim = plus(dim, plus((*pads)[i], (*pads)[count + i]));
    if (dim < 0)
      return node.fail("more is cut off than axis " + std::to_string((*axes)[i]) + " has");
  }
  node.set(0, node.type(0), dims);
  return Error::success();
}

Error centerCropPad(Inference &node) {
  node.setType(0, node.type(0));
  auto shape = node.values(1);
  if (!shape)
    return Error::success();
  std::optional<std::vector<int64_t>> given;
  if (node.hasAttribute("axes"))
    given = node.integers("axes");
  auto axes = axesOrAll(node, given, node.rank(0));
  if (!axes)
    return axes.takeError();
  if (axes->size() != shape->size())
    return node.fail(std::to_string(shape->size()) + " sizes for " + std::to_string(axes->size()) +
                     " axes");
  Dims dims = node.dims(0);
  for (size_t i = 0; i < axes->size(); ++i)
    dims[(*axes)[i]] = (*shape)[i];
  node.set(0, node.type(0), dims);
  return Error::success();
}

/// A new axis as long as the depth says (input 1).
Error oneHot(Inference &node) {
  node.setType(0, node.type(2));
  auto axis = axisOf(node, node.integer("axis", -1), node.rank(0) + 1);
  if (!axis)
    return axis.takeError();
  auto depth = node.reals(1);
  if (!depth || depth->size() != 1)
    return Error::success();
  if (!(depth->front() >= 0 && depth->front() < static_cast<double>(tooLarge)))
    return node.fail("the depth is not a size");
  Dims dims = node.dims(0);
  dims.insert(dims.begin() + *axis, static_cast<int64_t>(depth->front()));
  node.set(0, node.type(2), dims);
  return Error::success();
}

/// To a shape, which the input broadcasts with.
Error expand(Inference &node) {
  node.setType(0, node.type(0));
  auto shape = node.values(1);
  if (!shape)
    return Error::success();
  auto dims = broadcast(node, node.dims(0), *shape);
  if (!dims)
    return dims.takeError();
  node.set(0, node.type(0), *dims);
  return Error::success();
}

/// Its type is that of the attribute's one value.
Error constantOfShape(Inference &node) {
  DataType type = node.tensorType("value").value_or(DataType::Float32);
  node.setType(0, type);
  if (auto shape = node.values(0))
    node.set(0, type, *shape);
  return Error::success();
}

/// data and indices [batch, ..., k], each of which names the first k axes behind the batch.
Error gatherSlices(Inference &node) {
  Dims data = node.dims(0), indices = node.dims(1);
  int64_t batch = node.integer("batch_dims", 0), rank = node.rank(0);
  if (batch < 0 || batch >= std::min(rank, node.rank(1)))
    return node.fail("'batch_dims' is " + std::to_string(batch) + ", of a tensor of rank " +
                     std::to_string(rank) + " and indices of rank " + std::to_string(node.rank(1)));
  int64_t named = indices.pop_back_val();
  if (named < 1 || named > rank - batch)
    return node.fail("indices of " + std::to_string(named) + " axes, of " +
                     std::to_string(rank - batch));
  indices.append(data.begin() + batch + named, data.end());
  node.set(0, node.type(0), indices);
  return Error::success();
}

/// Mean and inverse deviation have 1 in place of the axes that are normalized.
Error layerNormalization(Inference &node) {
  auto axis = axisOf(node, node.integer("axis", -1), node.rank(0));
  if (!axis)
    return axis.takeError();
  auto type = typeNumber(node, node.integer("stash_type", static_cast<int>(DataType::Float32)));
  if (!type)
    return type.takeError();
  Dims dims = node.dims(0);
  node.set(0, node.type(0), dims);
  std::fill(dims.begin() + *axis, dims.end(), 1);
  node.set(1, *type, dims);
  node.set(2, *type, dims);
  return Error::success();
}

/// Without stop words none is left out.
Error normalizedStrings(Inference &node) {
  node.setType(0, DataType::String);
  if (!node.hasAttribute("stopwords"))
    node.set(0, DataType::String, node.dims(0));
  return Error::success();
}

/// [rank, count]; the count depends on the values.
Error nonZero(Inference &node) {
  node.setType(0, DataType::Int64);
  auto values = node.reals(0);
  if (values)
    node.set(0, DataType::Int64,
             {node.rank(0), static_cast<int64_t>(values->size()) -
                                std::count(values->begin(), values->end(), 0.0)});
  return Error::success();
}

/// Types of one size only.
Error bitCast(Inference &node) {
  auto type = typeNumber(node, node.integer("to", 0));
  if (!type)
    return type.takeError();
  if (sizeOf(*type) != sizeOf(node.type(0)))
    return node.fail("the types differ in size");
  node.set(0, *type, node.dims(0));
  return Error::success();
}

} // namespace heterplan::inference
