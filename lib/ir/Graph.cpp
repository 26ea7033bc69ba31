#include "ir/Graph.h"

namespace heterplan {

int64_t sizeOf(DataType type) {
  switch (type) {
  case DataType::Undefined:
  case DataType::String:
    return 0;
  case DataType::UInt8:
  case DataType::Int8:
  case DataType::Bool:
  case DataType::Float8E4M3FN:
  case DataType::Float8E4M3FNUZ:
  case DataType::Float8E5M2:
  case DataType::Float8E5M2FNUZ:
  case DataType::Float8E8M0:
  case DataType::UInt4:
  case DataType::Int4:
  case DataType::Float4E2M1:
  case DataType::UInt2:
  case DataType::Int2:
    return 1;
  case DataType::UInt16:
  case DataType::Int16:
  case DataType::Float16:
  case DataType::BFloat16:
    return 2;
  case DataType::Float32:
  case DataType::Int32:
  case DataType::UInt32:
    return 4;
  case DataType::Float64:
  case DataType::Int64:
  case DataType::UInt64:
  case DataType::Complex64:
    return 8;
  case DataType::Complex128:
    return 16;
  }
  return 0;
}

namespace {
int perByte(DataType type) {
  switch (type) {
  case DataType::UInt4:
  case DataType::Int4:
  case DataType::Float4E2M1:
    return 2;
  case DataType::UInt2:
  case DataType::Int2:
    return 4;
  default:
    return 1;
  }
}
} // namespace

int64_t storedBytes(DataType type, int64_t count) {
  int64_t packed = perByte(type);
  return packed == 1 ? count * sizeOf(type) : (count + packed - 1) / packed;
}

bool isPacked(DataType type) { return perByte(type) > 1; }

const char *nameOf(DataType type) {
  static constexpr const char *names[] = {
      "undefined",      "float32",  "uint8",        "int8",           "uint16",
      "int16",          "int32",    "int64",        "string",         "bool",
      "float16",        "float64",  "uint32",       "uint64",         "complex64",
      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
      "uint2",          "int2"};
  return names[static_cast<int>(type)];
}

bool isFloating(DataType type) {
  return type == DataType::Float32 || type == DataType::Float64 || type == DataType::Float16 ||
         type == DataType::BFloat16;
}

const GraphBody *GraphNode::body(llvm::StringRef attribute) const {
  for (const GraphBody &body : bodies)
    if (body.attribute == attribute)
      return &body;
  return nullptr;
}

bool GraphNode::operator==(const GraphNode &) const = default;
bool GraphBody::operator==(const GraphBody &) const = default;

double elementCount(llvm::ArrayRef<Dim> shape, int64_t batch) {
  double count = 1;
  for (const Dim &dim : shape)
    count *= static_cast<double>(dim.perSample) * static_cast<double>(batch) +
             static_cast<double>(dim.fixed);
  return count;
}

} // namespace heterplan
