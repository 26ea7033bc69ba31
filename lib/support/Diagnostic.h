// Diagnostics: what went wrong, where, what is accepted instead and how to mend it. A Diagnostic
// is built with `<<`, converts to llvm::Error or llvm::Expected, and prints as
//   mixed.yaml:7:19: error: [HP1212] memory '16GX' of device type 'v100' is not a size; write 16GiB
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace heterplan {

/// One enumerator for each line of Diagnostics.def.
enum class Diag : int {
#define HETERPLAN_DIAG(enumerator, code) enumerator = code,
#include "support/Diagnostics.def"
};

/// A place in an input. Text files have line and column (from 1); others name an element, such as
/// a graph node or a field path ("stages[2].layers").
struct Location {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;
  std::string element;

  bool operator==(const Location &) const = default;
};

/// Prints `file:line:column` or `file: element`; what is unknown is left out.
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const Location &location);

/// An error with a code, a place, a message and notes.
class DiagnosticError : public llvm::ErrorInfo<DiagnosticError> {
public:
  static char ID;
  struct Note {
    Location location;
    std::string text;
  };

  Diag code{};
  bool isWarning = false; // the input is used all the same
  Location location;
  std::string message;
  std::vector<Note> notes;

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;
};

/// Builder of a DiagnosticError:
///   return Diagnostic(Diag::UnknownLayer, loc).note({}, "layers are ...") << "no layer '" << n <<
///   "'";
/// Long interpolated strings are shortened, so that a hostile name cannot flood the terminal.
class Diagnostic {
public:
  Diagnostic(Diag code, Location location);
  /// Makes it a warning: the same facts, printed as one.
  Diagnostic &&asWarning() &&;
  Diagnostic &&note(Location location, std::string text) &&;

  Diagnostic &&operator<<(llvm::StringRef text) &&;
  Diagnostic &&operator<<(const char *text) && { return std::move(*this) << llvm::StringRef(text); }
  Diagnostic &&operator<<(int64_t number) &&;
  Diagnostic &&operator<<(int number) && { return std::move(*this) << int64_t(number); }
  Diagnostic &&operator<<(unsigned number) && { return std::move(*this) << int64_t(number); }
  Diagnostic &&operator<<(size_t number) && { return std::move(*this) << int64_t(number); }
  Diagnostic &&operator<<(double number) &&;

  operator llvm::Error() && { return llvm::make_error<DiagnosticError>(std::move(error)); }
  template <typename T> operator llvm::Expected<T>() && {
    return llvm::make_error<DiagnosticError>(std::move(error));
  }

private:
  DiagnosticError error;
};

/// The text of `error` on one line or several, consuming it.
std::string toText(llvm::Error error);

} // namespace heterplan
