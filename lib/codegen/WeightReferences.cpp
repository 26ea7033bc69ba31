#include "codegen/WeightReferences.h"

#include "codegen/Weights.h"
#include "support/Diagnostic.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <limits>
#include <memory>

using namespace llvm;

namespace heterplan {

namespace {

/// The bytes of a tensor in one of the files of a model, which are mapped once.
class ModelFiles {
public:
  explicit ModelFiles(StringRef folder) : folder(folder) {}

  Expected<StringRef> bytesOf(const ExternalData &place) {
    auto [entry, isNew] = files.try_emplace(place.file);
    SmallString<256> path(folder);
    sys::path::append(path, place.file);
    if (isNew) {
      auto mapped = mapFile(path, std::numeric_limits<int64_t>::max());
      if (!mapped)
        return mapped.takeError();
      entry->second = std::move(*mapped);
    }
    StringRef all = entry->second->getBuffer();
    auto begin = static_cast<size_t>(place.offset), length = static_cast<size_t>(place.length);
    if (begin > all.size() || length > all.size() - begin)
      return Diagnostic(Diag::CannotRead, {path.str().str(), 0, 0, ""})
             << "cannot read the weights: it is too short";
    return all.substr(begin, length);
  }

private:
  StringRef folder;
  StringMap<std::unique_ptr<MemoryBuffer>> files;
};

} // namespace

Expected<std::string> weightReferences(StringRef folder, ArrayRef<const GraphTensor *> tensors) {
  SmallString<256> absolute(folder.empty() ? "." : folder);
  if (std::error_code failure = sys::fs::make_absolute(absolute))
    return Diagnostic(Diag::CannotRead, {folder.str(), 0, 0, ""})
           << "cannot read: " << failure.message();
  sys::path::remove_dots(absolute, /*remove_dot_dot=*/false);
  ModelFiles files(folder);
  std::vector<std::string> digests;
  for (const GraphTensor *tensor : tensors) {
    Expected<StringRef> bytes = files.bytesOf(*tensor->external);
    if (!bytes)
      return bytes.takeError();
    digests.push_back(sha256(*bytes));
  }
  std::string text;
  raw_string_ostream os(text);
  JsonWriter json(os);
  json.object([&] {
    json.attribute("folder", absolute.str().str());
    json.attributeObject("tensors", [&] {
      for (size_t i = 0; i < tensors.size(); ++i) {
        const GraphTensor &tensor = *tensors[i];
        json.attributeObject(tensor.name, [&] {
          json.attribute("dtype", safetensorsType(tensor.type));
          json.attributeArray("shape", [&] {
            for (const Dim &dim : tensor.shape)
              json.value(dim.fixed);
          });
          json.attribute("file", tensor.external->file);
          json.attributeArray("data_offsets", [&] {
            json.value(tensor.external->offset);
            json.value(tensor.external->offset + tensor.external->length);
          });
          json.attribute("sha256", digests[i]);
        });
      }
    });
  });
  os << "\n";
  return os.str();
}

} // namespace heterplan
