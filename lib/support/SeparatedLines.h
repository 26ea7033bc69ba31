// Lines of separated fields, and their numbers; the first thing that is wrong is kept, with its
// place.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <deque>
#include <optional>
#include <string>

namespace heterplan {

class SeparatedLines {
public:
  /// Lines of at least `fields` fields; empty lines and a byte-order mark are skipped. Fields that
  /// commas separate may be in quotation marks (RFC 4180), on one line. `text` outlives it.
  SeparatedLines(llvm::StringRef text, llvm::StringRef path, char separator, size_t fields);

  /// Errors from now on say that lines of this form were expected.
  void expect(std::string form);
  /// Goes on to the next line; false at the end, and once something was wrong.
  bool next();
  unsigned number() const { return line; }
  size_t size() const { return parts.size(); }
  llvm::StringRef field(size_t index) const { return parts[index]; }
  /// Whether a field has no value: it is empty, or one of the words that tables have for that.
  bool isMissing(size_t index) const;
  /// A number that is not negative; 0 where the field has no value.
  double real(size_t index, const char *what);
  int64_t whole(size_t index, const char *what, int64_t least, int64_t most);
  /// Notes an error at a field.
  void refuse(size_t index, const llvm::Twine &message);
  /// The error, if there is one.
  llvm::Error take();

private:
  void split(llvm::StringRef text);
  /// Adds the field whose text starts at `start`, after its quotation mark. Returns where the next
  /// field starts.
  size_t takeQuoted(llvm::StringRef text, size_t start);

  llvm::StringRef rest, path;
  char separator;
  size_t fields;
  unsigned line = 0;
  llvm::SmallVector<llvm::StringRef, 16> parts;
  llvm::SmallVector<unsigned, 16> columns; // where the fields start
  std::deque<std::string> unquoted;        // fields of the line with doubled quotation marks
  std::string expected;
  std::optional<Diagnostic> wrong;
};

} // namespace heterplan
