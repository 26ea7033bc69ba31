#include "ir/onnx/batch/SampleRows.h"

#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

#include <cstring>
#include <limits>

using namespace llvm;

namespace heterplan {

StringRef ConstantValues::bytesOf(const GraphTensor &tensor) {
  if (tensor.data)
    return tensor.data->bytes;
  if (!tensor.external)
    return {};
  auto [entry, isNew] = files.try_emplace(tensor.external->file);
  if (isNew) {
    SmallString<256> path(folder);
    sys::path::append(path, tensor.external->file);
    auto mapped = mapFile(path, std::numeric_limits<int64_t>::max());
    if (mapped)
      entry->second = std::move(*mapped);
    else
      consumeError(mapped.takeError());
  }
  StringRef all = entry->second ? entry->second->getBuffer() : StringRef();
  auto begin = static_cast<size_t>(tensor.external->offset),
       length = static_cast<size_t>(tensor.external->length);
  return begin <= all.size() && length <= all.size() - begin ? all.substr(begin, length)
                                                             : StringRef();
}

void ConstantValues::release() {
  for (auto &file : files)
    if (file.second)
      file.second->dontNeedIfMmap();
}

bool hasEqualRows(StringRef bytes, ArrayRef<int64_t> dims, size_t axis, int64_t size) {
  auto inner = static_cast<size_t>(size), rows = static_cast<size_t>(dims[axis]);
  for (int64_t dim : dims.drop_front(axis + 1))
    inner *= static_cast<size_t>(dim);
  if (!inner || bytes.empty() || bytes.size() % (inner * rows))
    return false;
  for (size_t i = 0; i < bytes.size() / inner; ++i)
    if (std::memcmp(bytes.data() + i * inner, bytes.data() + i / rows * rows * inner, inner) != 0)
      return false;
  return true;
}

bool numbersSamples(StringRef bytes, ArrayRef<int64_t> dims, int64_t width, int64_t step) {
  auto wordAt = [&](size_t index) {
    int64_t word = 0;
    std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
    return word;
  };
  auto rows = static_cast<size_t>(dims[0]);
  size_t row = rows ? bytes.size() / sizeof(int64_t) / rows : 0;
  if (!row || width < 1)
    return false;
  for (size_t i = 0; i < row * rows; ++i) {
    int64_t first = wordAt(i % row);
    bool counts = i % static_cast<size_t>(width) == 0;
    if ((counts && (first < 0 || first >= step)) ||
        wordAt(i) - first != (counts ? static_cast<int64_t>(i / row) * step : 0))
      return false;
  }
  return true;
}

} // namespace heterplan
