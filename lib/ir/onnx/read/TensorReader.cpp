#include "ir/onnx/read/TensorReader.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "onnx/onnx_pb.h"

#include <cstring>

using namespace llvm;

namespace heterplan {

namespace {

/// Appends the lowest `size` bytes of each element of `values`.
template <typename Values> std::string packed(const Values &values, size_t size) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(values.size()) * size);
  for (const auto &value : values)
    bytes.append(reinterpret_cast<const char *>(&value), size);
  return bytes;
}

/// The field of the typed values that holds elements of `type`.
std::string typedBytes(const onnx::TensorProto &tensor, DataType type) {
  switch (type) {
  case DataType::Float32:
  case DataType::Complex64:
    return packed(tensor.float_data(), 4);
  case DataType::Float64:
  case DataType::Complex128:
    return packed(tensor.double_data(), 8);
  case DataType::Int64:
    return packed(tensor.int64_data(), 8);
  case DataType::UInt32:
  case DataType::UInt64:
    return packed(tensor.uint64_data(), static_cast<size_t>(sizeOf(type)));
  default: // also of types below a byte, whose int32 values hold a byte each
    return packed(tensor.int32_data(), static_cast<size_t>(sizeOf(type)));
  }
}

struct ExternalFields {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

Expected<int64_t> sizeField(StringRef key, StringRef text, const Location &place) {
  int64_t value = 0;
  if (text.getAsInteger(10, value) || value < 0)
    return Diagnostic(Diag::MalformedModel, place)
           << "external data has " << key << " '" << text << "'; a number of bytes is expected";
  return value;
}

Expected<ExternalFields> externalFields(const onnx::TensorProto &tensor, const Location &place) {
  ExternalFields fields;
  for (const auto &entry : tensor.external_data()) {
    if (entry.key() == "location") {
      fields.location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      auto value = sizeField(entry.key(), entry.value(), place);
      if (!value)
        return value.takeError();
      if (entry.key() == "offset")
        fields.offset = *value;
      else
        fields.length = *value;
    }
  }
  return fields;
}

Error leaves(StringRef location, const Location &place) {
  return Diagnostic(Diag::ExternalDataPath, place)
             .note({}, "a path relative to the model, without '..' and without links that lead "
                       "outside, is accepted")
         << "external data '" << location << "' is not inside the model's folder";
}

/// Fails where `location` is not a plain relative path.
Error checkPath(StringRef location, const Location &place) {
  if (location.empty() || location.size() > 4096 || location.contains('\0') ||
      location.contains('\\') || sys::path::is_absolute(location))
    return leaves(location, place);
  for (auto part = sys::path::begin(location), end = sys::path::end(location); part != end; ++part)
    if (*part == "..")
      return leaves(location, place);
  return Error::success();
}

/// Size of the regular file `location` of `folder`; nothing where there is none.
Expected<std::optional<int64_t>> fileSize(StringRef folder, StringRef location,
                                          const Location &place) {
  SmallString<256> path(folder), realFolder, realPath;
  sys::path::append(path, location);
  if (sys::fs::real_path(folder.empty() ? "." : folder, realFolder) ||
      sys::fs::real_path(path, realPath))
    return std::nullopt;
  StringRef inside(realPath);
  bool within = inside.consume_front(realFolder);
  if (!within || (!inside.startswith("/") && realFolder != "/"))
    return leaves(location, place);
  sys::fs::file_status status;
  if (sys::fs::status(realPath, status) || !sys::fs::is_regular_file(status))
    return std::nullopt;
  return static_cast<int64_t>(status.getSize());
}

} // namespace

Expected<int64_t> checkedCount(ArrayRef<int64_t> dims, const Location &place) {
  if (dims.size() > maxRank)
    return Diagnostic(Diag::AbsurdSize, place)
           << "has " << dims.size() << " dimensions; up to " << maxRank << " are accepted";
  int64_t count = 1;
  bool zero = false;
  for (int64_t dim : dims) {
    if (dim < 0)
      return Diagnostic(Diag::AbsurdSize, place) << "has a dimension of " << dim;
    zero = zero || dim == 0;
    if (dim > maxElements || (dim && count > maxElements / dim))
      return Diagnostic(Diag::AbsurdSize, place) << "has more than " << maxElements << " elements";
    count *= dim ? dim : 1;
  }
  return zero ? 0 : count;
}

Expected<DataType> elementType(int number, const Location &place) {
  if (!isDataType(number))
    return Diagnostic(Diag::MalformedModel, place)
           << "has element type " << number << "; 1 to 26 are defined";
  return static_cast<DataType>(number);
}

bool isExternal(const onnx::TensorProto &tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

Expected<TensorData> inlineData(const onnx::TensorProto &tensor, const Location &place) {
  auto type = elementType(tensor.data_type(), place);
  if (!type)
    return type.takeError();
  TensorData data;
  data.type = *type;
  data.shape.assign(tensor.dims().begin(), tensor.dims().end());
  auto count = checkedCount(data.shape, place);
  if (!count)
    return count.takeError();
  if (*type == DataType::String) {
    if (tensor.string_data_size() == *count)
      return data;
    return Diagnostic(Diag::MalformedModel, place)
           << "has " << tensor.string_data_size() << " strings; its shape needs " << *count;
  }
  data.bytes = tensor.has_raw_data() ? tensor.raw_data() : typedBytes(tensor, *type);
  if (int64_t need = storedBytes(*type, *count); static_cast<int64_t>(data.bytes.size()) != need)
    return Diagnostic(Diag::MalformedModel, place)
           << "has " << data.bytes.size() << " bytes of values; its shape needs " << need;
  return data;
}

namespace {
/// Position of a value of a sparse tensor: `index` is a position, or coordinates along `dims`.
std::optional<int64_t> position(ArrayRef<int64_t> index, ArrayRef<int64_t> dims, int64_t count) {
  if (index.size() == 1)
    return index[0] >= 0 && index[0] < count ? std::optional(index[0]) : std::nullopt;
  int64_t result = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (index[axis] < 0 || index[axis] >= dims[axis])
      return std::nullopt;
    result = result * dims[axis] + index[axis];
  }
  return result;
}

/// Writes `values` to their places in `data`; false where `indices` do not fit.
bool scatter(const TensorData &values, const TensorData &indices, TensorData &data) {
  size_t size = static_cast<size_t>(sizeOf(data.type)), stored = values.bytes.size() / size;
  size_t width = indices.shape.size() == 2 ? static_cast<size_t>(indices.shape[1]) : 1;
  if (indices.type != DataType::Int64 || (width != 1 && width != data.shape.size()) || !width ||
      indices.bytes.size() != stored * width * sizeof(int64_t))
    return false;
  std::vector<int64_t> index(width);
  for (size_t i = 0; i < stored; ++i) {
    std::memcpy(index.data(), indices.bytes.data() + i * width * sizeof(int64_t),
                width * sizeof(int64_t));
    auto at = position(index, data.shape, static_cast<int64_t>(data.bytes.size() / size));
    if (!at)
      return false;
    std::memcpy(data.bytes.data() + static_cast<size_t>(*at) * size, values.bytes.data() + i * size,
                size);
  }
  return true;
}
} // namespace

Expected<TensorData> sparseData(const onnx::SparseTensorProto &sparse, const Location &place) {
  constexpr int64_t largest = int64_t(16) << 20;
  if (isExternal(sparse.values()) || isExternal(sparse.indices()))
    return Diagnostic(Diag::UnsupportedOperator, place)
           << "is a sparse tensor with external data; inline values are accepted";
  auto values = inlineData(sparse.values(), place);
  if (!values)
    return values.takeError();
  auto indices = inlineData(sparse.indices(), place);
  if (!indices)
    return indices.takeError();
  TensorData data;
  data.type = values->type;
  data.shape.assign(sparse.dims().begin(), sparse.dims().end());
  auto count = checkedCount(data.shape, place);
  if (!count)
    return count.takeError();
  int64_t size = sizeOf(data.type);
  if (!size || *count * size > largest)
    return Diagnostic(Diag::UnsupportedOperator, place)
               .note({}, "make it dense; sparse numbers of up to 16 MiB are written out")
           << "is a sparse tensor of " << *count << " elements of type " << nameOf(data.type);
  data.bytes.assign(static_cast<size_t>(*count * size), '\0');
  if (!scatter(*values, *indices, data))
    return Diagnostic(Diag::MalformedModel, place)
           << "is a sparse tensor whose indices do not fit its values and its shape";
  return data;
}

Expected<std::optional<ExternalData>> externalData(const onnx::TensorProto &tensor,
                                                   StringRef folder, const Location &place) {
  auto fields = externalFields(tensor, place);
  if (!fields)
    return fields.takeError();
  if (Error error = checkPath(fields->location, place))
    return error;
  auto type = elementType(tensor.data_type(), place);
  if (!type)
    return type.takeError();
  SmallVector<int64_t, 4> dims(tensor.dims().begin(), tensor.dims().end());
  auto count = checkedCount(dims, place);
  if (!count)
    return count.takeError();
  int64_t need = storedBytes(*type, *count);
  if (fields->length && *fields->length != need)
    return Diagnostic(Diag::MalformedModel, place)
           << "has " << *fields->length << " bytes of external data; its shape needs " << need;
  auto size = fileSize(folder, fields->location, place);
  if (!size)
    return size.takeError();
  if (!*size || **size < need || fields->offset > **size - need)
    return std::nullopt;
  return ExternalData{fields->location, fields->offset, need};
}

} // namespace heterplan
