// Lines of separated fields, and their numbers; the first thing that is wrong is kept, with its
// place.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace heterplan {

class SeparatedLines {
public:
  /// Lines of at least `fields` fields; empty lines are skipped. `text` outlives it.
  SeparatedLines(llvm::StringRef text, llvm::StringRef path, char separator, size_t fields)
      : rest(text), path(path), separator(separator), fields(fields) {}

  /// Every error says that lines of this form were expected.
  void expect(std::string form) { expected = std::move(form); }
  /// Goes on to the next line; false at the end, and once something was wrong.
  bool next();
  unsigned number() const { return line; }
  size_t size() const { return parts.size(); }
  llvm::StringRef field(size_t index) const { return parts[index]; }
  /// A number that is not negative; 0 where the field is empty.
  double real(size_t index, const char *what);
  int64_t whole(size_t index, const char *what, int64_t least, int64_t most);
  /// Notes an error at a field.
  void refuse(size_t index, const llvm::Twine &message);
  /// The error, if there is one.
  llvm::Error take();

private:
  llvm::StringRef rest, path;
  char separator;
  size_t fields;
  unsigned line = 0;
  llvm::SmallVector<llvm::StringRef, 16> parts;
  std::string expected;
  std::optional<Diagnostic> wrong;
};

} // namespace heterplan
