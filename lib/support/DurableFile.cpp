#include "support/DurableFile.h"

#include "support/Diagnostic.h"
#include "support/TemporaryNames.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

using namespace llvm;

namespace heterplan {

namespace {
Error cannotWrite(StringRef path, std::error_code failure) {
  return Diagnostic(Diag::CannotWrite, {path.str(), 0, 0, ""})
         << "cannot write: " << failure.message();
}

std::error_code lastError() { return {errno, std::generic_category()}; }

/// All of `contents`, and onto the disk.
std::error_code writeAll(int descriptor, StringRef contents) {
  while (!contents.empty()) {
    ssize_t written = ::write(descriptor, contents.data(), contents.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return lastError();
    contents = contents.drop_front(size_t(written));
  }
  return ::fsync(descriptor) == 0 ? std::error_code() : lastError();
}

/// The renaming itself must reach the disk too.
std::error_code syncFolder(StringRef path) {
  StringRef parent = sys::path::parent_path(path);
  int folder = ::open(parent.empty() ? "." : parent.str().c_str(), O_RDONLY | O_DIRECTORY);
  if (folder < 0)
    return lastError();
  std::error_code failure = ::fsync(folder) == 0 ? std::error_code() : lastError();
  ::close(folder);
  return failure;
}
} // namespace

Error writeDurably(StringRef path, StringRef contents) {
  SmallString<128> temporary;
  int descriptor = -1;
  if (std::error_code failure = createTemporaryFile(path.str() + ".tmp-", descriptor, temporary))
    return cannotWrite(path, failure);
  std::error_code failure = writeAll(descriptor, contents);
  if (::close(descriptor) != 0 && !failure)
    failure = lastError();
  if (!failure)
    failure = sys::fs::rename(temporary, path);
  if (failure) {
    sys::fs::remove(temporary);
    return cannotWrite(path, failure);
  }
  if (std::error_code unsynced = syncFolder(path))
    return cannotWrite(path, unsynced);
  return Error::success();
}

Expected<FileLock> FileLock::take(StringRef path, Seconds patience) {
  int descriptor = -1;
  if (std::error_code failure =
          sys::fs::openFileForReadWrite(path, descriptor, sys::fs::CD_OpenAlways, sys::fs::OF_None))
    return cannotWrite(path, failure);
  FileLock lock(descriptor);
  auto milliseconds = std::chrono::milliseconds(int64_t(patience.value() * 1000));
  if (sys::fs::tryLockFile(descriptor, milliseconds))
    return Diagnostic(Diag::CannotWrite, {path.str(), 0, 0, ""})
               .note({}, "run it again when the other call has ended")
           << "another call has held the lock for " << patience.value() << " s";
  return lock;
}

FileLock::FileLock(FileLock &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}

FileLock::~FileLock() {
  if (descriptor >= 0)
    ::close(descriptor); // which unlocks
}

} // namespace heterplan
