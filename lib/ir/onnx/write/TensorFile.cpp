#include "ir/onnx/write/TensorFile.h"

#include "ir/onnx/read/TensorReader.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <optional>

using namespace llvm;

namespace heterplan {

namespace {
constexpr uint64_t largestFile = uint64_t(1) << 44;
constexpr uint64_t largestHeader = uint64_t(100) << 20;
constexpr double largestNumber = 9007199254740992.0; // 2^53

using Value = google::protobuf::Value;
using Fields = google::protobuf::Map<std::string, Value>;

DataType typeNamed(StringRef name) {
  return StringSwitch<DataType>(name)
      .Case("F64", DataType::Float64)
      .Case("F32", DataType::Float32)
      .Case("F16", DataType::Float16)
      .Case("BF16", DataType::BFloat16)
      .Case("I64", DataType::Int64)
      .Case("I32", DataType::Int32)
      .Case("I16", DataType::Int16)
      .Case("I8", DataType::Int8)
      .Case("U8", DataType::UInt8)
      .Case("BOOL", DataType::Bool)
      .Default(DataType::Undefined);
}

/// A list of whole numbers from 0 up; nothing where it is anything else.
std::optional<SmallVector<int64_t, 4>> naturals(const Fields &fields, const std::string &name) {
  auto entry = fields.find(name);
  if (entry == fields.end() || !entry->second.has_list_value())
    return std::nullopt;
  SmallVector<int64_t, 4> result;
  for (const Value &value : entry->second.list_value().values()) {
    double number = value.number_value();
    if (!value.has_number_value() || !(number >= 0 && number <= largestNumber) ||
        number != static_cast<double>(static_cast<int64_t>(number)))
      return std::nullopt;
    result.push_back(static_cast<int64_t>(number));
  }
  return result;
}

/// `data`: what follows the header.
Expected<StoredTensor> tensorOf(const Value &value, StringRef data, const Location &place) {
  const Fields &fields = value.struct_value().fields();
  auto name = fields.find("dtype");
  StoredTensor tensor;
  if (name != fields.end())
    tensor.type = typeNamed(name->second.string_value());
  auto shape = naturals(fields, "shape"), range = naturals(fields, "data_offsets");
  if (tensor.type == DataType::Undefined || !shape || !range || range->size() != 2)
    return Diagnostic(Diag::Syntax, place) << "has no proper dtype, shape and data_offsets";
  tensor.shape = std::move(*shape);
  auto count = checkedCount(tensor.shape, place);
  if (!count)
    return count.takeError();
  int64_t begin = (*range)[0], end = (*range)[1];
  if (end > static_cast<int64_t>(data.size()) || end - begin != *count * sizeOf(tensor.type))
    return Diagnostic(Diag::OutOfRange, place)
           << "bytes " << begin << " to " << end << " do not hold " << *count << " elements within "
           << "the " << data.size() << " bytes of the file";
  tensor.bytes = data.slice(static_cast<size_t>(begin), static_cast<size_t>(end));
  return tensor;
}
} // namespace

Expected<TensorFile> TensorFile::read(StringRef path) {
  Location place{path.str(), 0, 0, ""};
  auto buffer = mapFile(path, largestFile);
  if (!buffer)
    return buffer.takeError();
  StringRef text = (*buffer)->getBuffer();
  uint64_t length = text.size() < 8 ? 0 : support::endian::read64le(text.data());
  if (text.size() < 8 || length > largestHeader || length > text.size() - 8)
    return Diagnostic(Diag::Syntax, place) << "is no safetensors file, or is cut short";
  google::protobuf::Struct header;
  std::string json = text.substr(8, length).rtrim(' ').str();
  if (!google::protobuf::util::JsonStringToMessage(json, &header).ok())
    return Diagnostic(Diag::Syntax, place) << "its header is not a JSON object";
  TensorFile file;
  for (const auto &[name, value] : header.fields()) {
    if (name == "__metadata__") {
      for (const auto &[key, entry] : value.struct_value().fields())
        file.metadata[key] = entry.string_value();
      continue;
    }
    auto tensor = tensorOf(value, text.drop_front(8 + length), {path.str(), 0, 0, name});
    if (!tensor)
      return tensor.takeError();
    file.tensors.emplace(name, std::move(*tensor));
  }
  file.buffer = std::move(*buffer);
  return file;
}

} // namespace heterplan
