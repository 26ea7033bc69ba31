#include "ir/onnx/fold/FoldingSupport.h"

using namespace llvm;

namespace heterplan::folding {

namespace {

// ---- operators; each returns whether it filled op.result

bool foldView(Operation &op) {
  const TensorData *source = op.source(0);
  if (!source || source->bytes.size() != op.result.bytes.size())
    return false;
  op.result.bytes = source->bytes;
  return true;
}

bool foldShape(Operation &op) {
  const TensorType &type = *op.inputs[0].type;
  auto rank = static_cast<int64_t>(type.dims.size());
  int64_t start = op.integer("start", 0);
  start = std::min(rank, std::max<int64_t>(0, start < 0 ? start + rank : start));
  int64_t count = countOf(op.result.shape);
  if (start + count > rank)
    return false;
  for (int64_t i = 0; i < count; ++i)
    storeInteger(op.result, i, type.dims[start + i]);
  return true;
}

bool foldSize(Operation &op) {
  storeInteger(op.result, 0, countOf(op.inputs[0].type->dims));
  return true;
}

bool foldCast(Operation &op) {
  const TensorData *source = op.operand(0);
  if (!source || !isComputable(source->type) || !isComputable(op.result.type))
    return false;
  bool exact = !isFloating(source->type) && isInteger(op.result.type);
  for (int64_t i = 0, count = countOf(op.result.shape); i < count; ++i)
    if (exact)
      storeInteger(op.result, i, loadInteger(*source, i));
    else
      storeReal(op.result, i, loadReal(*source, i));
  return true;
}

bool foldConstantOfShape(Operation &op) {
  auto found = op.node.attributes.find("value");
  if (found == op.node.attributes.end())
    return true; // zeros
  const auto *value = std::get_if<TensorData>(&found->second);
  if (!value || value->type != op.result.type || countOf(value->shape) != 1)
    return false;
  for (int64_t i = 0, count = countOf(op.result.shape); i < count; ++i)
    copyElement(*value, 0, op.result, i);
  return true;
}

bool foldExpand(Operation &op) {
  const TensorData *source = op.source(0);
  if (!source || !broadcastsTo(source->shape, op.result.shape))
    return false;
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    copyElement(*source, broadcastIndex(source->shape, at), op.result, element);
  });
  return true;
}

bool foldTile(Operation &op) {
  const TensorData *source = op.source(0);
  if (!source || source->shape.size() != op.result.shape.size())
    return false;
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    int64_t index = 0;
    for (size_t axis = 0; axis < at.size(); ++axis)
      index = index * source->shape[axis] + at[axis] % source->shape[axis];
    copyElement(*source, index, op.result, element);
  });
  return true;
}

bool foldTranspose(Operation &op) {
  const TensorData *source = op.source(0);
  size_t rank = op.result.shape.size();
  std::vector<int64_t> perm = op.integers("perm");
  if (perm.empty())
    for (size_t axis = rank; axis-- > 0;)
      perm.push_back(static_cast<int64_t>(axis));
  if (!source || source->shape.size() != rank || perm.size() != rank)
    return false;
  for (size_t axis = 0; axis < rank; ++axis)
    if (perm[axis] < 0 || perm[axis] >= static_cast<int64_t>(rank) ||
        source->shape[perm[axis]] != op.result.shape[axis])
      return false;
  Dims strides(rank, 1);
  for (size_t axis = rank; axis-- > 1;)
    strides[axis - 1] = strides[axis] * source->shape[axis];
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    int64_t index = 0;
    for (size_t axis = 0; axis < rank; ++axis)
      index += at[axis] * strides[perm[axis]];
    copyElement(*source, index, op.result, element);
  });
  return true;
}

bool foldConcat(Operation &op) {
  auto axis = axisOf(op.integer("axis", 0), op.result.shape.size());
  if (!axis)
    return false;
  int64_t size = sizeOf(op.result.type);
  int64_t outer = countOf(ArrayRef<int64_t>(op.result.shape).take_front(*axis));
  std::string joined;
  joined.reserve(op.result.bytes.size());
  for (int64_t row = 0; row < outer; ++row)
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorData *part = op.source(i);
      if (!part || part->shape.size() != op.result.shape.size())
        return false;
      int64_t run = countOf(ArrayRef<int64_t>(part->shape).drop_front(*axis)) * size;
      if ((row + 1) * run > static_cast<int64_t>(part->bytes.size()))
        return false;
      joined.append(part->bytes, static_cast<size_t>(row * run), static_cast<size_t>(run));
    }
  if (joined.size() != op.result.bytes.size())
    return false;
  op.result.bytes = std::move(joined);
  return true;
}

bool foldGather(Operation &op) {
  const TensorData *data = op.source(0), *indices = op.operand(1);
  if (!data || !indices || !isInteger(indices->type))
    return false;
  auto axis = axisOf(op.integer("axis", 0), data->shape.size());
  if (!axis)
    return false;
  int64_t extent = data->shape[*axis];
  int64_t outer = countOf(ArrayRef<int64_t>(data->shape).take_front(*axis));
  int64_t inner = countOf(ArrayRef<int64_t>(data->shape).drop_front(*axis + 1));
  int64_t count = countOf(indices->shape);
  if (outer * count * inner != countOf(op.result.shape))
    return false;
  int64_t target = 0;
  for (int64_t row = 0; row < outer; ++row)
    for (int64_t i = 0; i < count; ++i) {
      int64_t index = loadInteger(*indices, i);
      index += index < 0 ? extent : 0;
      if (index < 0 || index >= extent)
        return false;
      for (int64_t j = 0; j < inner; ++j)
        copyElement(*data, (row * extent + index) * inner + j, op.result, target++);
    }
  return true;
}

bool foldGatherElements(Operation &op) {
  const TensorData *data = op.source(0), *indices = op.operand(1);
  if (!data || !indices || !isInteger(indices->type) || indices->shape != op.result.shape ||
      data->shape.size() != op.result.shape.size())
    return false;
  auto axis = axisOf(op.integer("axis", 0), data->shape.size());
  if (!axis)
    return false;
  bool inside = true;
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    int64_t index = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      int64_t place = i == static_cast<size_t>(*axis) ? loadInteger(*indices, element) : at[i];
      place += place < 0 ? data->shape[i] : 0;
      inside = inside && place >= 0 && place < data->shape[i];
      index = index * data->shape[i] + place;
    }
    if (inside)
      copyElement(*data, index, op.result, element);
  });
  return inside;
}

bool foldOneHot(Operation &op) {
  const TensorData *indices = op.operand(0), *values = op.source(2);
  if (!indices || !values || !isInteger(indices->type) || countOf(values->shape) != 2)
    return false;
  auto axis = axisOf(op.integer("axis", -1), op.result.shape.size());
  if (!axis || op.result.shape.size() != indices->shape.size() + 1)
    return false;
  int64_t depth = op.result.shape[*axis];
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    int64_t source = 0;
    for (size_t i = 0, from = 0; i < at.size(); ++i)
      if (i != static_cast<size_t>(*axis))
        source = source * indices->shape[from++] + at[i];
    int64_t index = loadInteger(*indices, source), own = at[*axis];
    copyElement(*values, index == own || index == own - depth, op.result, element);
  });
  return true;
}

/// Start and step of each axis of a Slice; false where they lead outside.
bool slicePlan(const Operation &op, const TensorData &data, Dims &starts, Dims &steps) {
  std::vector<int64_t> from = op.integers("starts"), axes = op.integers("axes"), by;
  if (op.inputs.size() > 1) {
    if (!op.operand(1) || (op.inputs.size() > 3 && op.inputs[3].type && !op.operand(3)) ||
        (op.inputs.size() > 4 && op.inputs[4].type && !op.operand(4)))
      return false;
    from = integersOf(*op.operand(1));
    axes = op.operand(3) ? integersOf(*op.operand(3)) : std::vector<int64_t>();
    by = op.operand(4) ? integersOf(*op.operand(4)) : std::vector<int64_t>();
  }
  if ((!axes.empty() && axes.size() != from.size()) || (!by.empty() && by.size() != from.size()))
    return false;
  for (size_t i = 0; i < from.size(); ++i) {
    auto axis = axisOf(axes.empty() ? static_cast<int64_t>(i) : axes[i], data.shape.size());
    if (!axis)
      return false;
    int64_t extent = data.shape[*axis], step = by.empty() ? 1 : by[i];
    int64_t start = from[i] < 0 ? from[i] + extent : from[i];
    starts[*axis] = std::min(std::max<int64_t>(start, 0), step < 0 ? extent - 1 : extent);
    steps[*axis] = step;
  }
  return true;
}

bool foldSlice(Operation &op) {
  const TensorData *data = op.source(0);
  if (!data || data->shape.size() != op.result.shape.size())
    return false;
  size_t rank = data->shape.size();
  Dims starts(rank, 0), steps(rank, 1);
  if (!slicePlan(op, *data, starts, steps))
    return false;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t extent = op.result.shape[axis];
    if (extent > 1 && std::abs(steps[axis]) > data->shape[axis])
      return false;
    int64_t last = starts[axis] + (extent - 1) * (extent > 1 ? steps[axis] : 0);
    if (extent > 0 && (starts[axis] >= data->shape[axis] || last < 0 || last >= data->shape[axis]))
      return false;
  }
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    int64_t index = 0;
    for (size_t axis = 0; axis < rank; ++axis)
      index = index * data->shape[axis] + starts[axis] + at[axis] * steps[axis];
    copyElement(*data, index, op.result, element);
  });
  return true;
}

bool foldWhere(Operation &op) {
  const TensorData *condition = op.operand(0), *yes = op.source(1), *no = op.source(2);
  if (!condition || !yes || !no || condition->type != DataType::Bool)
    return false;
  for (const TensorData *operand : {condition, yes, no})
    if (!broadcastsTo(operand->shape, op.result.shape))
      return false;
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    bool holds = loadInteger(*condition, broadcastIndex(condition->shape, at)) != 0;
    const TensorData &source = holds ? *yes : *no;
    copyElement(source, broadcastIndex(source.shape, at), op.result, element);
  });
  return true;
}

bool foldRange(Operation &op) {
  const TensorData *start = op.operand(0), *step = op.operand(2);
  if (!start || !step || !isComputable(op.result.type) || start->type != op.result.type ||
      step->type != op.result.type || countOf(start->shape) != 1 || countOf(step->shape) != 1)
    return false;
  for (int64_t i = 0, count = countOf(op.result.shape); i < count; ++i)
    if (isInteger(op.result.type))
      storeInteger(op.result, i,
                   static_cast<int64_t>(static_cast<uint64_t>(loadInteger(*start, 0)) +
                                        static_cast<uint64_t>(i) *
                                            static_cast<uint64_t>(loadInteger(*step, 0))));
    else
      storeReal(op.result, i, loadReal(*start, 0) + static_cast<double>(i) * loadReal(*step, 0));
  return true;
}

bool foldTrilu(Operation &op) {
  const TensorData *source = op.source(0);
  if (!source || source->shape != op.result.shape || source->shape.size() < 2)
    return false;
  bool upper = op.integer("upper", 1) != 0;
  std::vector<int64_t> shift = op.operand(1) ? integersOf(*op.operand(1)) : std::vector<int64_t>();
  int64_t diagonal = shift.empty() ? 0 : shift[0];
  constexpr int64_t far = int64_t(1) << 40;
  diagonal = std::min(far, std::max(-far, diagonal));
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    int64_t offset = at[at.size() - 1] - at[at.size() - 2];
    if (upper ? offset >= diagonal : offset <= diagonal)
      copyElement(*source, element, op.result, element);
  });
  return true;
}

} // namespace

const StringMap<Folder> &movementFolders() {
  static const StringMap<Folder> table = {
      {"Identity", foldView},       {"Reshape", foldView},
      {"Flatten", foldView},        {"Squeeze", foldView},
      {"Unsqueeze", foldView},      {"Shape", foldShape},
      {"Size", foldSize},           {"Cast", foldCast},
      {"CastLike", foldCast},       {"ConstantOfShape", foldConstantOfShape},
      {"Expand", foldExpand},       {"Tile", foldTile},
      {"Transpose", foldTranspose}, {"Concat", foldConcat},
      {"Gather", foldGather},       {"Slice", foldSlice},
      {"Where", foldWhere},         {"Range", foldRange},
      {"Trilu", foldTrilu},         {"GatherElements", foldGatherElements},
      {"OneHot", foldOneHot},
  };
  return table;
}

} // namespace heterplan::folding
