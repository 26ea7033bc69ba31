// Reading and writing files, with diagnostics instead of exceptions, and atomically.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>

namespace heterplan {

/// The whole file; CannotRead when absent, FileTooLarge above `limit` bytes.
llvm::Expected<std::string> readFile(llvm::StringRef path, uint64_t limit = uint64_t(1) << 30);
/// Its pages, which the system reads where they are looked at and may drop again; errors likewise.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> mapFile(llvm::StringRef path, uint64_t limit);
/// The text of a file of /proc or /sys, which have no size to read by; "" where it cannot be read.
std::string systemText(const llvm::Twine &path);
/// The value of the first line "key : value" of such a file, or "".
std::string systemField(const llvm::Twine &path, llvm::StringRef key);
/// Writes a file that must not be there yet; what was written of it stays where writing fails.
llvm::Error writeNewFile(llvm::StringRef path, llvm::StringRef contents);
/// Writes a temporary file beside `path` and renames it.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef contents);
/// Hex SHA-256.
std::string sha256(llvm::StringRef contents);
/// Hex SHA-256 of the file at `path`, read in pieces: in constant memory. CannotRead where it
/// fails.
llvm::Expected<std::string> sha256OfFile(llvm::StringRef path);

} // namespace heterplan
