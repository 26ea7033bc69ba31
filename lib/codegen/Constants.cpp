#include "codegen/Constants.h"

#include "codegen/Python.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"
#include "llvm/Support/Endian.h"

using namespace llvm;

namespace heterplan {
namespace {
constexpr size_t largestLiteralRank = 8;
constexpr int64_t largestCount = int64_t(1) << 48;

template <typename T> T read(const GraphTensor &tensor, int64_t index) {
  return support::endian::read<T, support::little, support::unaligned>(tensor.data->bytes.data() +
                                                                       index * sizeof(T));
}

float readHalf(const GraphTensor &tensor, int64_t index, const fltSemantics &semantics) {
  APFloat value(semantics, APInt(16, read<uint16_t>(tensor, index)));
  bool losesInfo = false;
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToFloat();
}

double readReal(const GraphTensor &tensor, int64_t index) {
  switch (tensor.type) {
  case DataType::Float64:
    return BitsToDouble(read<uint64_t>(tensor, index));
  case DataType::Float16:
    return readHalf(tensor, index, APFloat::IEEEhalf());
  case DataType::BFloat16:
    return readHalf(tensor, index, APFloat::BFloat());
  default:
    return BitsToFloat(read<uint32_t>(tensor, index));
  }
}

int64_t readInteger(const GraphTensor &tensor, int64_t index) {
  switch (tensor.type) {
  case DataType::Int8:
    return read<int8_t>(tensor, index);
  case DataType::Int16:
    return read<int16_t>(tensor, index);
  case DataType::UInt16:
    return read<uint16_t>(tensor, index);
  case DataType::Int32:
    return read<int32_t>(tensor, index);
  case DataType::UInt32:
    return read<uint32_t>(tensor, index);
  case DataType::Int64:
  case DataType::UInt64:
    return read<int64_t>(tensor, index);
  default: // UInt8, Bool
    return read<uint8_t>(tensor, index);
  }
}

bool isInteger(DataType type) {
  switch (type) {
  case DataType::UInt8:
  case DataType::Int8:
  case DataType::UInt16:
  case DataType::Int16:
  case DataType::Int32:
  case DataType::Int64:
  case DataType::Bool:
  case DataType::UInt32:
  case DataType::UInt64:
    return true;
  default:
    return false;
  }
}

std::string nested(const GraphTensor &tensor, size_t axis, int64_t &next) {
  if (axis == tensor.shape.size())
    return elementLiteral(tensor, next++);
  std::vector<std::string> items;
  for (int64_t i = 0; i < tensor.shape[axis].fixed; ++i)
    items.push_back(nested(tensor, axis + 1, next));
  return "[" + python::join(items) + "]";
}
} // namespace

std::optional<int64_t> fixedElementCount(const GraphTensor &tensor) {
  int64_t count = 1;
  for (Dim dim : tensor.shape) {
    if (dim.perSample || dim.fixed < 0)
      return std::nullopt;
    if (dim.fixed && count > largestCount / dim.fixed)
      return std::nullopt;
    count *= dim.fixed;
  }
  return count;
}

bool hasValues(const GraphTensor &tensor) {
  auto count = fixedElementCount(tensor);
  return tensor.data && count && sizeOf(tensor.type) > 0 && tensor.data->type == tensor.type &&
         static_cast<int64_t>(tensor.data->bytes.size()) == *count * sizeOf(tensor.type);
}

std::optional<std::vector<int64_t>> integerValues(const GraphTensor &tensor) {
  if (!hasValues(tensor) || !isInteger(tensor.type))
    return std::nullopt;
  std::vector<int64_t> values;
  for (int64_t i = 0, count = *fixedElementCount(tensor); i < count; ++i)
    values.push_back(readInteger(tensor, i));
  return values;
}

double elementValue(const GraphTensor &tensor, int64_t index) {
  return isInteger(tensor.type) ? static_cast<double>(readInteger(tensor, index))
                                : readReal(tensor, index);
}

std::string elementLiteral(const GraphTensor &tensor, int64_t index) {
  if (tensor.type == DataType::Bool)
    return readInteger(tensor, index) ? "True" : "False";
  if (tensor.type == DataType::Float64)
    return python::literal(readReal(tensor, index));
  if (isInteger(tensor.type))
    return python::literal(readInteger(tensor, index));
  return python::literal(static_cast<float>(readReal(tensor, index)));
}

std::string listLiteral(const GraphTensor &tensor) {
  int64_t next = 0;
  return nested(tensor, 0, next);
}

bool isLiteral(const GraphTensor &tensor) {
  auto count = fixedElementCount(tensor);
  bool plain = isInteger(tensor.type) || isFloating(tensor.type);
  return tensor.role == TensorRole::Constant && plain && hasValues(tensor) &&
         *count <= largestLiteral && tensor.shape.size() <= largestLiteralRank;
}

} // namespace heterplan
