// Files that survive a crash and are shared by processes: written beside, synchronised, renamed; a
// lock that goes away with its process.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// Replaces the file at `path`: whoever reads it, at any moment and after a loss of power, finds
/// the old contents or the new. CannotWrite.
llvm::Error writeDurably(llvm::StringRef path, llvm::StringRef contents);

/// Exclusive among processes, by a file of its own (`path`), which stays.
class FileLock {
public:
  /// Waits for at most `patience`; then CannotWrite.
  static llvm::Expected<FileLock> take(llvm::StringRef path, Seconds patience);
  FileLock(FileLock &&other) noexcept;
  FileLock &operator=(FileLock &&) = delete;
  ~FileLock();

private:
  explicit FileLock(int descriptor) : descriptor(descriptor) {}
  int descriptor;
};

} // namespace heterplan
