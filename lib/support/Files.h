// Reading and writing files, with diagnostics instead of exceptions, and atomically.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// The whole file; CannotRead when absent, FileTooLarge above `limit` bytes.
llvm::Expected<std::string> readFile(llvm::StringRef path, uint64_t limit = uint64_t(1) << 30);
/// Writes a temporary file beside `path` and renames it.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef contents);
/// Hex SHA-256.
std::string sha256(llvm::StringRef contents);

} // namespace heterplan
