#include "support/SeparatedLines.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

bool SeparatedLines::next() {
  while (!wrong && !rest.empty()) {
    auto [text, after] = rest.split('\n');
    rest = after;
    ++line;
    text = text.rtrim('\r');
    if (text.trim().empty())
      continue;
    parts.clear();
    text.split(parts, separator);
    if (parts.size() >= fields)
      return true;
    wrong.emplace(Diagnostic(Diag::MissingField, {path.str(), line, 1, ""})
                  << "the line has " << parts.size() << " fields; at least " << fields
                  << " are expected");
  }
  return false;
}

double SeparatedLines::real(size_t index, const char *what) {
  StringRef text = parts[index].trim();
  double number = 0;
  if (text.empty())
    return 0;
  if (text.size() > 40 || text.getAsDouble(number) || !std::isfinite(number) || number < 0 ||
      number > 1e18) {
    refuse(index, Twine(what) + " is '" + text.take_front(100) +
                      "'; a number that is not negative is accepted");
    return 0;
  }
  return number;
}

int64_t SeparatedLines::whole(size_t index, const char *what, int64_t least, int64_t most) {
  double number = real(index, what);
  if (!wrong && (number != std::floor(number) || number < double(least) || number > double(most)))
    refuse(index, Twine(what) + " is '" + parts[index].take_front(100) + "'; whole numbers from " +
                      Twine(least) + " to " + Twine(most) + " are accepted");
  return wrong ? least : static_cast<int64_t>(number);
}

void SeparatedLines::refuse(size_t index, const Twine &message) {
  if (wrong)
    return;
  unsigned column = 1;
  for (size_t i = 0; i < index; ++i)
    column += unsigned(parts[i].size()) + 1;
  wrong.emplace(Diagnostic(Diag::OutOfRange, {path.str(), line, column, ""}) << message.str());
}

Error SeparatedLines::take() {
  if (!wrong)
    return Error::success();
  if (expected.empty())
    return std::move(*wrong);
  return std::move(*wrong).note({}, "expected: " + expected);
}

} // namespace heterplan
