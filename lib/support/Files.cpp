#include "support/Files.h"

#include "support/Diagnostic.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace heterplan {

Expected<std::string> readFile(StringRef path, uint64_t limit) {
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
  return (*buffer)->getBuffer().str();
}

Error writeFile(StringRef path, StringRef contents) {
  Location place{path.str(), 0, 0, ""};
  auto write = [&](raw_ostream &os) -> Error {
    os << contents;
    return Error::success();
  };
  SmallString<128> temporary(path);
  temporary += ".tmp-%%%%%%";
  if (Error error = writeFileAtomically(temporary, path, write))
    return Diagnostic(Diag::CannotWrite, place) << "cannot write: " << toText(std::move(error));
  return Error::success();
}

std::string sha256(StringRef contents) {
  SHA256 hash;
  hash.update(contents);
  return toHex(hash.final(), /*LowerCase=*/true);
}

} // namespace heterplan
