// Reads the safetensors layout, as the runtime writes trained weights: 8 bytes of header length, a
// JSON header, raw tensors. The file is mapped and nothing in it is trusted.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <memory>
#include <string>

namespace heterplan {

/// Little-endian values, which live as long as their file.
struct StoredTensor {
  DataType type = DataType::Undefined;
  llvm::SmallVector<int64_t, 4> shape;
  llvm::StringRef bytes;
};

struct TensorFile {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;

  /// CannotRead where there is no such file, Syntax where it has another layout, OutOfRange where a
  /// tensor does not lie in it.
  static llvm::Expected<TensorFile> read(llvm::StringRef path);

private:
  std::unique_ptr<llvm::MemoryBuffer> buffer;
};

} // namespace heterplan
