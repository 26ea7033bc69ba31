#include "support/Files.h"

#include "support/Diagnostic.h"
#include "support/TemporaryNames.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <fstream>
#include <memory>
#include <sstream>

using namespace llvm;

namespace heterplan {

namespace {
constexpr size_t pieceSize = size_t(1) << 20;
}

Expected<std::unique_ptr<MemoryBuffer>> mapFile(StringRef path, uint64_t limit) {
  Location place{path.str(), 0, 0, ""};
  sys::fs::file_status status;
  if (std::error_code failure = sys::fs::status(path, status))
    return Diagnostic(Diag::CannotRead, place) << "cannot read: " << failure.message();
  if (sys::fs::is_directory(status))
    return Diagnostic(Diag::CannotRead, place) << "is a directory; give a file";
  // A device or a pipe has no size to check, and may never end.
  if (!sys::fs::is_regular_file(status))
    return Diagnostic(Diag::CannotRead, place) << "is not a regular file";
  if (status.getSize() > limit)
    return Diagnostic(Diag::FileTooLarge, place)
           << "has " << double(status.getSize()) << " bytes; at most " << double(limit)
           << " are read";
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return Diagnostic(Diag::CannotRead, place) << "cannot read: " << buffer.getError().message();
  return std::move(*buffer);
}

Expected<std::string> readFile(StringRef path, uint64_t limit) {
  auto buffer = mapFile(path, limit);
  if (!buffer)
    return buffer.takeError();
  return (*buffer)->getBuffer().str();
}

std::string systemText(const Twine &path) {
  std::ifstream file(path.str());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string systemField(const Twine &path, StringRef key) {
  std::ifstream file(path.str());
  for (std::string line; std::getline(file, line);) {
    auto [name, value] = StringRef(line).split(':');
    if (name.trim() == key)
      return value.trim().str();
  }
  return "";
}

Error writeFile(StringRef path, StringRef contents) {
  SmallString<128> temporary;
  int descriptor = -1;
  std::error_code failure = createTemporaryFile(path.str() + ".tmp-", descriptor, temporary);
  if (!failure) {
    raw_fd_ostream file(descriptor, /*shouldClose=*/true);
    file << contents;
    file.close();
    failure = file.error();
    file.clear_error();
    if (!failure)
      failure = sys::fs::rename(temporary, path);
    if (failure)
      sys::fs::remove(temporary);
  }
  if (failure)
    return Diagnostic(Diag::CannotWrite, {path.str(), 0, 0, ""})
           << "cannot write: " << failure.message();
  return Error::success();
}

Error writeNewFile(StringRef path, StringRef contents) {
  auto cannotWrite = [&](const std::error_code &failure) {
    return Diagnostic(Diag::CannotWrite, {path.str(), 0, 0, ""})
           << "cannot write: " << failure.message();
  };
  std::error_code failure;
  raw_fd_ostream file(path, failure, sys::fs::CD_CreateNew);
  if (failure)
    return cannotWrite(failure);
  file << contents;
  file.close();
  if (!file.has_error())
    return Error::success();
  failure = file.error();
  file.clear_error();
  return cannotWrite(failure);
}

std::string sha256(StringRef contents) {
  SHA256 hash;
  hash.update(contents);
  return toHex(hash.final(), /*LowerCase=*/true);
}

Expected<std::string> sha256OfFile(StringRef path) {
  Location place{path.str(), 0, 0, ""};
  auto file = sys::fs::openNativeFileForRead(path);
  if (!file)
    return Diagnostic(Diag::CannotRead, place) << "cannot read: " << toText(file.takeError());
  SHA256 hash;
  auto buffer = std::make_unique_for_overwrite<char[]>(pieceSize);
  uint64_t offset = 0;
  Error failure = Error::success();
  while (!failure) {
    auto size =
        sys::fs::readNativeFileSlice(*file, MutableArrayRef(buffer.get(), pieceSize), offset);
    if (!size)
      failure = Diagnostic(Diag::CannotRead, place) << "cannot read: " << toText(size.takeError());
    else if (!*size)
      break;
    else
      hash.update(StringRef(buffer.get(), *size));
    offset += size ? *size : 0;
  }
  if (std::error_code closing = sys::fs::closeFile(*file); closing && !failure)
    failure = Diagnostic(Diag::CannotRead, place) << "cannot read: " << closing.message();
  if (failure)
    return failure;
  return toHex(hash.final(), /*LowerCase=*/true);
}

} // namespace heterplan
