#include "support/Diagnostic.h"

#include "support/Text.h"

#include "llvm/Support/Format.h"

namespace heterplan {

char DiagnosticError::ID = 0;

namespace {
constexpr size_t longestInterpolation = 200;

/// `text` with control characters replaced and the middle of a long one left out.
std::string presentable(llvm::StringRef text) {
  std::string result;
  if (text.size() > longestInterpolation)
    result = headOf(text, longestInterpolation / 2).str() + "..." +
             tailOf(text, longestInterpolation / 4).str();
  else
    result = text.str();
  for (char &c : result)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      c = c == '\n' ? ' ' : '?';
  return result;
}
} // namespace

llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const Location &location) {
  os << presentable(location.file);
  if (location.line)
    os << ':' << location.line << ':' << (location.column ? location.column : 1);
  if (!location.element.empty())
    os << (location.file.empty() ? "" : ": ") << presentable(location.element);
  return os;
}

void DiagnosticError::log(llvm::raw_ostream &os) const {
  if (!location.file.empty() || !location.element.empty())
    os << location << ": ";
  os << (isWarning ? "warning" : "error") << ": [HP" << static_cast<int>(code) << "] " << message;
  for (const Note &note : notes) {
    os << '\n';
    if (!note.location.file.empty() || !note.location.element.empty())
      os << note.location << ": ";
    os << "note: " << note.text;
  }
}

std::error_code DiagnosticError::convertToErrorCode() const {
  return llvm::inconvertibleErrorCode();
}

Diagnostic::Diagnostic(Diag code, Location location) {
  error.code = code;
  error.location = std::move(location);
}

Diagnostic &&Diagnostic::asWarning() && {
  error.isWarning = true;
  return std::move(*this);
}

Diagnostic &&Diagnostic::note(Location location, std::string text) && {
  error.notes.push_back({std::move(location), std::move(text)});
  return std::move(*this);
}

Diagnostic &&Diagnostic::operator<<(llvm::StringRef text) && {
  error.message += presentable(text);
  return std::move(*this);
}

Diagnostic &&Diagnostic::operator<<(int64_t number) && {
  error.message += std::to_string(number);
  return std::move(*this);
}

Diagnostic &&Diagnostic::operator<<(double number) && {
  llvm::raw_string_ostream(error.message) << llvm::format("%.6g", number);
  return std::move(*this);
}

std::string toText(llvm::Error error) { return llvm::toString(std::move(error)); }

} // namespace heterplan
