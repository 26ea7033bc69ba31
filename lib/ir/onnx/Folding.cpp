#include "ir/onnx/Folding.h"

#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {

using Dims = SmallVector<int64_t, 4>;

int64_t countOf(ArrayRef<int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1), std::multiplies<>());
}

/// One node to compute: its operands and the tensor that is being filled.
struct Operation {
  const GraphNode &node;
  ArrayRef<KnownInput> inputs;
  size_t output;
  TensorData result;

  const TensorData *operand(size_t index) const {
    return index < inputs.size() ? inputs[index].value : nullptr;
  }
  /// An operand whose elements are copied to the result: it must have the same type.
  const TensorData *source(size_t index) const {
    const TensorData *data = operand(index);
    return data && data->type == result.type ? data : nullptr;
  }
  int64_t integer(StringRef name, int64_t otherwise) const {
    auto found = node.attributes.find(name.str());
    const auto *value =
        found == node.attributes.end() ? nullptr : std::get_if<int64_t>(&found->second);
    return value ? *value : otherwise;
  }
  std::vector<int64_t> integers(StringRef name) const {
    auto found = node.attributes.find(name.str());
    const auto *value = found == node.attributes.end()
                            ? nullptr
                            : std::get_if<std::vector<int64_t>>(&found->second);
    return value ? *value : std::vector<int64_t>();
  }
};

bool isInteger(DataType type) {
  return type != DataType::Undefined && type != DataType::String && !isFloating(type) &&
         type != DataType::Complex64 && type != DataType::Complex128;
}
bool isComputable(DataType type) {
  return isInteger(type) || type == DataType::Float32 || type == DataType::Float64;
}

template <typename T> T loadAs(const TensorData &data, int64_t index) {
  T value;
  std::memcpy(&value, data.bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T> void storeAs(TensorData &data, int64_t index, T value) {
  std::memcpy(data.bytes.data() + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

/// Calls `use` with a value of the C++ type of `type`.
template <typename Use> auto withType(DataType type, Use use) {
  switch (type) {
  case DataType::Float32:
    return use(float());
  case DataType::Float64:
    return use(double());
  case DataType::Int8:
    return use(int8_t());
  case DataType::UInt8:
  case DataType::Bool:
    return use(uint8_t());
  case DataType::Int16:
    return use(int16_t());
  case DataType::UInt16:
    return use(uint16_t());
  case DataType::Int32:
    return use(int32_t());
  case DataType::UInt32:
    return use(uint32_t());
  case DataType::UInt64:
    return use(uint64_t());
  default:
    return use(int64_t());
  }
}

int64_t toInteger(double value) {
  if (std::isnan(value))
    return 0;
  constexpr double limit = 9.2e18;
  return static_cast<int64_t>(std::min(limit, std::max(-limit, value)));
}

int64_t loadInteger(const TensorData &data, int64_t index) {
  return withType(data.type, [&](auto kind) -> int64_t {
    using T = decltype(kind);
    if constexpr (std::is_floating_point_v<T>)
      return toInteger(loadAs<T>(data, index));
    else
      return static_cast<int64_t>(loadAs<T>(data, index));
  });
}

double loadReal(const TensorData &data, int64_t index) {
  return withType(data.type, [&](auto kind) {
    return static_cast<double>(loadAs<decltype(kind)>(data, index));
  });
}

void storeInteger(TensorData &data, int64_t index, int64_t value) {
  if (data.type == DataType::Bool)
    value = value != 0;
  withType(data.type, [&](auto kind) {
    storeAs(data, index, static_cast<decltype(kind)>(value));
    return 0;
  });
}

void storeReal(TensorData &data, int64_t index, double value) {
  if (isInteger(data.type))
    return storeInteger(data, index, data.type == DataType::Bool ? value != 0 : toInteger(value));
  withType(data.type, [&](auto kind) {
    storeAs(data, index, static_cast<decltype(kind)>(value));
    return 0;
  });
}

/// Copies element `from` of `source` to element `to`.
void copyElement(const TensorData &source, int64_t from, TensorData &target, int64_t to) {
  int64_t size = sizeOf(target.type);
  std::memcpy(target.bytes.data() + to * size, source.bytes.data() + from * size,
              static_cast<size_t>(size));
}

/// Steps through the elements of `dims` in order, calling `use(element, coordinates)`.
template <typename Use> void eachElement(ArrayRef<int64_t> dims, Use use) {
  Dims at(dims.size(), 0);
  int64_t count = countOf(dims);
  for (int64_t element = 0; element < count; ++element) {
    use(element, at);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++at[axis] < dims[axis])
        break;
      at[axis] = 0;
    }
  }
}

/// Index in a tensor of `dims`, broadcast against coordinates `at` of a larger one.
int64_t broadcastIndex(ArrayRef<int64_t> dims, ArrayRef<int64_t> at) {
  int64_t index = 0;
  size_t skip = at.size() - dims.size();
  for (size_t axis = 0; axis < dims.size(); ++axis)
    index = index * dims[axis] + (dims[axis] == 1 ? 0 : at[skip + axis]);
  return index;
}

/// Whether `dims` broadcast to `target`, so that indices stay inside.
bool broadcastsTo(ArrayRef<int64_t> dims, ArrayRef<int64_t> target) {
  if (dims.size() > target.size())
    return false;
  size_t skip = target.size() - dims.size();
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != 1 && dims[axis] != target[skip + axis])
      return false;
  return true;
}

std::optional<int64_t> axisOf(int64_t axis, size_t rank) {
  if (axis < 0)
    axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank))
    return std::nullopt;
  return axis;
}

std::vector<int64_t> integersOf(const TensorData &data) {
  if (!isInteger(data.type))
    return {};
  std::vector<int64_t> values(countOf(data.shape));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = loadInteger(data, static_cast<int64_t>(i));
  return values;
}

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
  bool real = isFloating(source->type);
  for (int64_t i = 0, count = countOf(op.result.shape); i < count; ++i)
    if (real)
      storeReal(op.result, i, loadReal(*source, i));
    else if (isInteger(op.result.type))
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

using IntegerUnary = std::optional<int64_t> (*)(int64_t);
using RealUnary = double (*)(double);
using IntegerBinary = std::optional<int64_t> (*)(int64_t, int64_t);
using RealBinary = double (*)(double, double);

/// Elementwise; a null pointer: the kind of operand is not folded.
bool unary(Operation &op, IntegerUnary integer, RealUnary real) {
  const TensorData *source = op.operand(0);
  if (!source || !isComputable(source->type) || !isComputable(op.result.type) ||
      source->shape != op.result.shape)
    return false;
  bool isReal = isFloating(source->type);
  if (isReal ? !real : !integer)
    return false;
  for (int64_t i = 0, count = countOf(op.result.shape); i < count; ++i) {
    if (isReal) {
      storeReal(op.result, i, real(loadReal(*source, i)));
      continue;
    }
    auto value = integer(loadInteger(*source, i));
    if (!value)
      return false;
    storeInteger(op.result, i, *value);
  }
  return true;
}

bool binary(Operation &op, IntegerBinary integer, RealBinary real) {
  const TensorData *a = op.operand(0), *b = op.operand(1);
  if (op.inputs.size() != 2 || !a || !b || !isComputable(a->type) || !isComputable(b->type) ||
      !isComputable(op.result.type) || !broadcastsTo(a->shape, op.result.shape) ||
      !broadcastsTo(b->shape, op.result.shape))
    return false;
  bool isReal = isFloating(a->type) || isFloating(b->type);
  if (isReal ? !real : !integer)
    return false;
  bool holds = true;
  eachElement(op.result.shape, [&](int64_t element, const Dims &at) {
    int64_t i = broadcastIndex(a->shape, at), j = broadcastIndex(b->shape, at);
    if (isReal)
      return storeReal(op.result, element, real(loadReal(*a, i), loadReal(*b, j)));
    auto value = integer(loadInteger(*a, i), loadInteger(*b, j));
    holds = holds && value;
    storeInteger(op.result, element, value.value_or(0));
  });
  return holds;
}

/// Arithmetic that gives up instead of overflowing.
std::optional<int64_t> add(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
std::optional<int64_t> subtract(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
std::optional<int64_t> multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
std::optional<int64_t> divide(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min()))
    return std::nullopt;
  return a / b;
}

/// The operators that fold; the whole list.
const StringMap<std::function<bool(Operation &)>> &folders() {
  auto one = [](IntegerUnary integer, RealUnary real) {
    return [=](Operation &op) { return unary(op, integer, real); };
  };
  auto two = [](IntegerBinary integer, RealBinary real) {
    return [=](Operation &op) { return binary(op, integer, real); };
  };
  using Integer = std::optional<int64_t>;
  static const StringMap<std::function<bool(Operation &)>> table = {
      {"Identity", foldView},
      {"Reshape", foldView},
      {"Flatten", foldView},
      {"Squeeze", foldView},
      {"Unsqueeze", foldView},
      {"Shape", foldShape},
      {"Size", foldSize},
      {"Cast", foldCast},
      {"ConstantOfShape", foldConstantOfShape},
      {"Expand", foldExpand},
      {"Tile", foldTile},
      {"Transpose", foldTranspose},
      {"Concat", foldConcat},
      {"Gather", foldGather},
      {"Slice", foldSlice},
      {"Where", foldWhere},
      {"Range", foldRange},
      {"Trilu", foldTrilu},
      {"Neg", one([](int64_t a) { return subtract(0, a); }, [](double a) { return -a; })},
      {"Abs", one([](int64_t a) { return a < 0 ? subtract(0, a) : Integer(a); },
                  [](double a) { return std::fabs(a); })},
      {"Not", one([](int64_t a) { return Integer(!a); }, nullptr)},
      {"Floor", one(nullptr, [](double a) { return std::floor(a); })},
      {"Ceil", one(nullptr, [](double a) { return std::ceil(a); })},
      {"Sqrt", one(nullptr, [](double a) { return std::sqrt(a); })},
      {"Exp", one(nullptr, [](double a) { return std::exp(a); })},
      {"Sin", one(nullptr, [](double a) { return std::sin(a); })},
      {"Cos", one(nullptr, [](double a) { return std::cos(a); })},
      {"Reciprocal", one(nullptr, [](double a) { return 1 / a; })},
      {"Add", two(add, [](double a, double b) { return a + b; })},
      {"Sub", two(subtract, [](double a, double b) { return a - b; })},
      {"Mul", two(multiply, [](double a, double b) { return a * b; })},
      {"Div", two(divide, [](double a, double b) { return a / b; })},
      {"Pow", two(nullptr, [](double a, double b) { return std::pow(a, b); })},
      {"Min", two([](int64_t a, int64_t b) { return Integer(std::min(a, b)); }, nullptr)},
      {"Max", two([](int64_t a, int64_t b) { return Integer(std::max(a, b)); }, nullptr)},
      {"Equal", two([](int64_t a, int64_t b) { return Integer(a == b); },
                    [](double a, double b) { return double(a == b); })},
      {"Less", two([](int64_t a, int64_t b) { return Integer(a < b); },
                   [](double a, double b) { return double(a < b); })},
      {"Greater", two([](int64_t a, int64_t b) { return Integer(a > b); },
                      [](double a, double b) { return double(a > b); })},
      {"LessOrEqual", two([](int64_t a, int64_t b) { return Integer(a <= b); },
                          [](double a, double b) { return double(a <= b); })},
      {"GreaterOrEqual", two([](int64_t a, int64_t b) { return Integer(a >= b); },
                             [](double a, double b) { return double(a >= b); })},
      {"And", two([](int64_t a, int64_t b) { return Integer(a && b); }, nullptr)},
      {"Or", two([](int64_t a, int64_t b) { return Integer(a || b); }, nullptr)},
      {"Xor", two([](int64_t a, int64_t b) { return Integer(!a != !b); }, nullptr)},
  };
  return table;
}

} // namespace

bool canFold(StringRef op) { return folders().count(op) != 0; }

std::optional<TensorData> fold(const GraphNode &node, ArrayRef<KnownInput> inputs,
                               const TensorType &type, size_t output) {
  auto folder = folders().find(node.op);
  int64_t size = sizeOf(type.type);
  if (folder == folders().end() || !type.known || !size)
    return std::nullopt;
  Operation op{node, inputs, output, {type.type, type.dims, ""}};
  int64_t bytes = countOf(type.dims) * size;
  if (bytes > largestFolded)
    return std::nullopt;
  op.result.bytes.assign(static_cast<size_t>(bytes), '\0');
  if (!folder->second(op))
    return std::nullopt;
  return std::move(op.result);
}

} // namespace heterplan
