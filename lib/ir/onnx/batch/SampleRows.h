// Conclusions from constants about the samples of the example that a model was exported with:
// constants with a row for each sample, equal rows, or rows that index the samples.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace heterplan {

/// The values of initializers, in memory or in files of the model's folder. Files are mapped, so
/// that only the pages that are used are read.
class ConstantValues {
public:
  explicit ConstantValues(std::string folder) : folder(std::move(folder)) {}
  /// Little-endian, as long as this and `tensor` live; empty where they are not to be had.
  llvm::StringRef bytesOf(const GraphTensor &tensor);
  /// Gives the memory of the files back. Returned values stay valid and are read again when needed.
  void release();

private:
  std::string folder;
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> files; // null where it cannot be read
};

/// Whether all rows along `axis` of a tensor of `dims` are equal. `size` is that of an element.
bool hasEqualRows(llvm::StringRef bytes, llvm::ArrayRef<int64_t> dims, size_t axis, int64_t size);

/// Whether the int64 values `bytes` are indices of samples that lie `step` apart: of each `width`
/// values the first is below `step` in row 0 and grows by it from row to row along the leading
/// axis, and the others stay.
bool numbersSamples(llvm::StringRef bytes, llvm::ArrayRef<int64_t> dims, int64_t width,
                    int64_t step);

} // namespace heterplan
