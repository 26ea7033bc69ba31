#include "support/SeparatedLines.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

SeparatedLines::SeparatedLines(StringRef text, StringRef path, char separator, size_t fields)
    : rest(text), path(path), separator(separator), fields(fields) {
  rest.consume_front("\xEF\xBB\xBF");
}

void SeparatedLines::expect(std::string form) {
  if (!wrong)
    expected = std::move(form);
}

size_t SeparatedLines::takeQuoted(StringRef text, size_t start) {
  size_t end = text.find('"', start);
  while (end != StringRef::npos && text.substr(end + 1).startswith("\""))
    end = text.find('"', end + 2);
  size_t next = text.find_first_not_of(' ', end == StringRef::npos ? end : end + 1);
  StringRef field = text.slice(start, end);
  if (field.contains('"')) {
    std::string &plain = unquoted.emplace_back();
    for (; !field.empty(); field = field.drop_front(field.startswith("\"\"") ? 2 : 1))
      plain += field.front();
    field = plain;
  }
  parts.push_back(field);
  if (end == StringRef::npos || (next != StringRef::npos && text[next] != separator))
    refuse(parts.size() - 1, "the quotation mark is not closed at the end of the field");
  return std::min(next, text.size()) + 1;
}

void SeparatedLines::split(StringRef text) {
  parts.clear();
  columns.clear();
  unquoted.clear();
  for (size_t at = 0; at <= text.size() && !wrong;) {
    columns.push_back(unsigned(at) + 1);
    size_t first = text.find_first_not_of(' ', at);
    if (separator == ',' && first != StringRef::npos && text[first] == '"') {
      at = takeQuoted(text, first + 1);
      continue;
    }
    size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.slice(at, end));
    at = end + 1;
  }
}

bool SeparatedLines::next() {
  while (!wrong && !rest.empty()) {
    auto [text, after] = rest.split('\n');
    rest = after;
    ++line;
    text = text.rtrim('\r');
    if (text.trim().empty())
      continue;
    split(text);
    if (wrong)
      return false;
    if (parts.size() >= fields)
      return true;
    wrong.emplace(Diagnostic(Diag::MissingField, {path.str(), line, 1, ""})
                  << "the line has " << parts.size() << " fields; at least " << fields
                  << " are expected");
  }
  return false;
}

bool SeparatedLines::isMissing(size_t index) const {
  StringRef text = parts[index].trim();
  return text.empty() || text.equals_insensitive("nan") || text.equals_insensitive("none") ||
         text.equals_insensitive("null");
}

double SeparatedLines::real(size_t index, const char *what) {
  StringRef text = parts[index].trim();
  double number = 0;
  if (isMissing(index))
    return 0;
  if (text.size() > 40 || text.getAsDouble(number) || !std::isfinite(number) || number < 0 ||
      number > 1e18) {
    refuse(index,
           Twine(what) + " is '" + text.take_front(100) + "'; numbers from 0 to 1e18 are accepted");
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
  wrong.emplace(Diagnostic(Diag::OutOfRange, {path.str(), line, columns[index], ""})
                << message.str());
}

Error SeparatedLines::take() {
  if (!wrong)
    return Error::success();
  if (expected.empty())
    return std::move(*wrong);
  return std::move(*wrong).note({}, "expected: " + expected);
}

} // namespace heterplan
