// Shared by the fuzz targets. A target holds its reader to three things on any input: it returns
// (no crash, no hang), an error prints, and a value that was read prints and reads back equal.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstdint>
#include <cstdlib>
#include <string>

namespace heterplan::fuzzing {

inline llvm::StringRef textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// Aborts, for the fuzzer to see, with `what`.
[[noreturn]] inline void fail(llvm::StringRef what) {
  llvm::errs() << "fuzz target: " << what << '\n';
  std::abort();
}

/// Prints `error`: it must be a located diagnostic of ours that is not absurdly long.
inline void expectDiagnostic(llvm::Error error) {
  if (!error.isA<DiagnosticError>())
    fail("an error that is no diagnostic");
  if (toText(std::move(error)).size() > 10'000)
    fail("a diagnostic that floods the terminal");
}

/// Reads `text`; what was read must survive printing and reading. `forget` clears what depends on
/// the text itself, such as its fingerprint.
template <typename Parse, typename Forget>
void roundTrip(llvm::StringRef text, Parse parse, Forget forget) {
  auto value = parse(text, "input");
  if (!value)
    return expectDiagnostic(value.takeError());
  forget(*value);
  std::string printed = toJson(*value);
  auto again = parse(printed, "printed");
  if (!again)
    fail("cannot read what it printed: " + toText(again.takeError()));
  forget(*again);
  if (!(*again == *value))
    fail("printing and reading changed the value:\n" + printed);
}

/// A directory for readers that want files; it goes away at exit.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    if (llvm::sys::fs::createUniqueDirectory("heterplan-fuzz", directory))
      fail("cannot make a temporary directory");
  }
  ~TemporaryDirectory() { llvm::sys::fs::remove_directories(directory); }

  std::string at(llvm::StringRef name) const {
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, name);
    return path.str().str();
  }

private:
  llvm::SmallString<128> directory;
};

inline void write(const std::string &path, llvm::StringRef contents) {
  std::error_code failure;
  llvm::raw_fd_ostream(path, failure) << contents;
  if (failure)
    fail("cannot write a temporary file");
}

} // namespace heterplan::fuzzing
