// Common parts of the folding of operators: operands, elements by type, broadcasting. Internal to
// the Fold*.cpp files.
#pragma once

#include "ir/NodeAttributes.h"
#include "ir/onnx/fold/Folding.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

namespace heterplan::folding {

using Dims = llvm::SmallVector<int64_t, 4>;
using Integers = std::vector<int64_t>;

inline int64_t countOf(llvm::ArrayRef<int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1), std::multiplies<>());
}

/// One node to compute: its operands and the tensor that is being filled.
struct Operation {
  const GraphNode &node;
  llvm::ArrayRef<KnownInput> inputs;
  size_t output;
  TensorData result;

  const TensorData *operand(size_t index) const {
    return index < inputs.size() ? inputs[index].value : nullptr;
  }
  /// An operand whose elements are copied to the result: it must have the same type.
  const TensorData *source(size_t index) const {
    const TensorData *data = operand(index);
    return data && data->type == result.type && !isPacked(data->type) ? data : nullptr;
  }
  int64_t integer(llvm::StringRef name, int64_t otherwise) const {
    return integerAttribute(node, name, otherwise);
  }
  std::vector<int64_t> integers(llvm::StringRef name) const {
    const auto *value = findAttribute<std::vector<int64_t>>(node, name);
    return value ? *value : std::vector<int64_t>();
  }
};

inline bool isInteger(DataType type) {
  switch (type) {
  case DataType::Bool:
  case DataType::Int8:
  case DataType::UInt8:
  case DataType::Int16:
  case DataType::UInt16:
  case DataType::Int32:
  case DataType::UInt32:
  case DataType::Int64:
  case DataType::UInt64:
    return true;
  default:
    return false;
  }
}
inline bool isComputable(DataType type) {
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
  case DataType::Float32: // NOLINT(bugprone-branch-clone): each calls another instance of `use`
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

/// Arithmetic that gives up instead of overflowing.
inline std::optional<int64_t> add(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
inline std::optional<int64_t> multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

inline int64_t toInteger(double value) {
  if (std::isnan(value))
    return 0;
  constexpr double limit = 9.2e18;
  return static_cast<int64_t>(std::min(limit, std::max(-limit, value)));
}

inline int64_t loadInteger(const TensorData &data, int64_t index) {
  return withType(data.type, [&](auto kind) -> int64_t {
    using T = decltype(kind);
    if constexpr (std::is_floating_point_v<T>)
      return toInteger(loadAs<T>(data, index));
    else
      return static_cast<int64_t>(loadAs<T>(data, index));
  });
}

inline double loadReal(const TensorData &data, int64_t index) {
  return withType(data.type, [&](auto kind) {
    return static_cast<double>(loadAs<decltype(kind)>(data, index));
  });
}

inline void storeInteger(TensorData &data, int64_t index, int64_t value) {
  if (data.type == DataType::Bool)
    value = value != 0;
  withType(data.type, [&](auto kind) {
    storeAs(data, index, static_cast<decltype(kind)>(value));
    return 0;
  });
}

inline void storeReal(TensorData &data, int64_t index, double value) {
  if (isInteger(data.type))
    return storeInteger(data, index, data.type == DataType::Bool ? value != 0 : toInteger(value));
  withType(data.type, [&](auto kind) {
    storeAs(data, index, static_cast<decltype(kind)>(value));
    return 0;
  });
}

/// Copies element `from` of `source` to element `to`.
inline void copyElement(const TensorData &source, int64_t from, TensorData &target, int64_t to) {
  int64_t size = sizeOf(target.type);
  std::memcpy(target.bytes.data() + to * size, source.bytes.data() + from * size,
              static_cast<size_t>(size));
}

/// Steps through the elements of `dims` in order, calling `use(element, coordinates)`.
template <typename Use> void eachElement(llvm::ArrayRef<int64_t> dims, Use use) {
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
inline int64_t broadcastIndex(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> at) {
  int64_t index = 0;
  size_t skip = at.size() - dims.size();
  for (size_t axis = 0; axis < dims.size(); ++axis)
    index = index * dims[axis] + (dims[axis] == 1 ? 0 : at[skip + axis]);
  return index;
}

/// Whether `dims` broadcast to `target`, so that indices stay inside.
inline bool broadcastsTo(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> target) {
  if (dims.size() > target.size())
    return false;
  size_t skip = target.size() - dims.size();
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != 1 && dims[axis] != target[skip + axis])
      return false;
  return true;
}

inline std::optional<int64_t> axisOf(int64_t axis, size_t rank) {
  if (axis < 0)
    axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank))
    return std::nullopt;
  return axis;
}

inline std::vector<int64_t> integersOf(const TensorData &data) {
  if (!isInteger(data.type))
    return {};
  std::vector<int64_t> values(countOf(data.shape));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = loadInteger(data, static_cast<int64_t>(i));
  return values;
}

/// Fills the result of an operation; false where it cannot.
using Folder = std::function<bool(Operation &)>;

/// Operators that move, make or convert elements: Reshape, Slice, Concat, Range, Cast, ...
const llvm::StringMap<Folder> &movementFolders();
/// Operators that combine or place elements along axes: ReduceSum, Split, ScatterND, ...
const llvm::StringMap<Folder> &reductionFolders();
/// Elementwise arithmetic, comparisons and logic.
const llvm::StringMap<Folder> &arithmeticFolders();

} // namespace heterplan::folding
