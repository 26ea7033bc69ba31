#include "codegen/Weights.h"

#include "codegen/Constants.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/EndianStream.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace heterplan {

const char *safetensorsType(DataType type) {
  switch (type) {
  case DataType::Float32:
    return "F32";
  case DataType::Float64:
    return "F64";
  case DataType::Float16:
    return "F16";
  case DataType::BFloat16:
    return "BF16";
  case DataType::Int64:
    return "I64";
  case DataType::Int32:
    return "I32";
  case DataType::Int16:
    return "I16";
  case DataType::Int8:
    return "I8";
  case DataType::UInt8:
    return "U8";
  case DataType::Bool:
    return "BOOL";
  default:
    return nullptr;
  }
}

namespace {
constexpr size_t alignment = 8;

/// A JSON string. Bytes that are not UTF-8 become the replacement character.
std::string jsonString(StringRef text) {
  std::string result = "\"";
  while (!text.empty()) {
    auto c = static_cast<unsigned char>(text[0]);
    size_t length = getNumBytesForUTF8(c);
    const auto *begin = reinterpret_cast<const UTF8 *>(text.data());
    bool valid = length <= text.size() && isLegalUTF8Sequence(begin, begin + length);
    raw_string_ostream os(result);
    if (!valid)
      os << "\\ufffd";
    else if (c < 0x20 || c == 0x7f)
      os << "\\u00" << format_hex_no_prefix(c, 2);
    else
      os << (c == '"' || c == '\\' ? "\\" : "") << text.take_front(length);
    os.flush();
    text = text.drop_front(valid ? length : 1);
  }
  return result + "\"";
}

int64_t byteCount(const GraphTensor &tensor) {
  return *fixedElementCount(tensor) * sizeOf(tensor.type);
}

std::string headerOf(ArrayRef<const GraphTensor *> tensors) {
  std::string header = "{";
  int64_t offset = 0;
  for (const GraphTensor *each : tensors) {
    const GraphTensor &tensor = *each;
    header += (header.size() > 1 ? ",\n" : "\n") + jsonString(tensor.name) + ":{\"dtype\":\"" +
              safetensorsType(tensor.type) + "\",\"shape\":[";
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
      header += (axis ? "," : "") + std::to_string(tensor.shape[axis].fixed);
    int64_t end = offset + byteCount(tensor);
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  header += "\n}";
  header.resize((header.size() + alignment - 1) / alignment * alignment, ' ');
  return header;
}

/// Copies `length` bytes at `offset` of the file `path` to `os`.
Error copyRange(StringRef path, int64_t offset, int64_t length, raw_ostream &os) {
  Location place{path.str(), 0, 0, ""};
  auto file = sys::fs::openNativeFileForRead(path);
  if (!file)
    return Diagnostic(Diag::CannotRead, place) << "cannot read: " << toText(file.takeError());
  SmallVector<char, 0> buffer(std::min<int64_t>(length, 1 << 20));
  Error result = Error::success();
  while (length > 0) {
    auto size = std::min<int64_t>(length, static_cast<int64_t>(buffer.size()));
    MutableArrayRef<char> part = MutableArrayRef<char>(buffer).take_front(size);
    auto read = sys::fs::readNativeFileSlice(*file, part, offset);
    if (!read || *read == 0) {
      std::string why = read ? "it is too short" : toText(read.takeError());
      result = Diagnostic(Diag::CannotRead, place) << "cannot read the weights: " << why;
      break;
    }
    os.write(part.data(), *read);
    offset += static_cast<int64_t>(*read);
    length -= static_cast<int64_t>(*read);
  }
  if (std::error_code failure = sys::fs::closeFile(*file); failure && !result)
    return Diagnostic(Diag::CannotRead, place) << "cannot read: " << failure.message();
  return result;
}

bool isStorable(const GraphTensor &tensor) {
  auto count = fixedElementCount(tensor);
  if (!count || !safetensorsType(tensor.type))
    return false;
  return hasValues(tensor) ||
         (tensor.external && tensor.external->length == *count * sizeOf(tensor.type));
}

Error writeTensor(StringRef folder, const GraphTensor &tensor, raw_ostream &os) {
  if (hasValues(tensor)) {
    os << tensor.data->bytes;
    return Error::success();
  }
  SmallString<128> path(folder);
  sys::path::append(path, tensor.external->file);
  return copyRange(path, tensor.external->offset, tensor.external->length, os);
}

/// The tensors of `stage` that may be in its file.
std::vector<TensorId> heldTensors(const StageModule &stage) {
  std::vector<TensorId> result;
  for (const auto *tensors :
       {&stage.parameters, &stage.tables, &stage.frozen, &stage.buffers, &stage.constants})
    append_range(result, *tensors);
  return result;
}
} // namespace

std::vector<TensorId> storedTensors(const Graph &graph, const StageModule &stage) {
  std::vector<TensorId> result = heldTensors(stage);
  erase_if(result, [&](TensorId id) { return !isStorable(graph.tensors[id]); });
  return result;
}

std::vector<const GraphTensor *> storedTensors(const DividedStages &stages, size_t index,
                                               const Graph &whole) {
  std::vector<TensorId> ids = heldTensors(stages.whole[index]);
  DenseSet<TensorId> known(ids.begin(), ids.end());
  copy_if(heldTensors(stages.shards[index]), std::back_inserter(ids),
          [&](TensorId id) { return known.insert(id).second; });
  std::vector<const GraphTensor *> result;
  for (TensorId id : ids) {
    const bool isOfModel = id < static_cast<TensorId>(whole.tensors.size());
    const GraphTensor &tensor = (isOfModel ? whole : stages.locals[index]->graph).tensors[id];
    if (isStorable(tensor))
      result.push_back(&tensor);
  }
  return result;
}

Error writeWeights(StringRef path, const Graph &graph, ArrayRef<TensorId> tensors) {
  std::vector<const GraphTensor *> stored;
  for (TensorId id : tensors)
    stored.push_back(&graph.tensors[id]);
  return writeWeights(path, graph.folder, stored);
}

Error writeWeights(StringRef path, StringRef folder, ArrayRef<const GraphTensor *> tensors) {
  std::error_code failure;
  raw_fd_ostream os(path, failure);
  Location place{path.str(), 0, 0, ""};
  if (failure)
    return Diagnostic(Diag::CannotWrite, place) << "cannot write: " << failure.message();
  std::string header = headerOf(tensors);
  support::endian::write<uint64_t>(os, header.size(), support::little);
  os << header;
  for (const GraphTensor *tensor : tensors)
    if (Error error = writeTensor(folder, *tensor, os)) {
      os.clear_error();
      return error;
    }
  os.close();
  if (!os.has_error())
    return Error::success();
  std::string why = os.error().message();
  os.clear_error();
  return Diagnostic(Diag::CannotWrite, place) << "cannot write: " << why;
}

} // namespace heterplan
