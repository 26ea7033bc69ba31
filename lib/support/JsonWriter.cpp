#include "support/JsonWriter.h"

#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"

#include <charconv>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
/// Length of the character that `text` starts with, 0 where it is not UTF-8.
size_t characterLength(StringRef text) {
  const auto *begin = reinterpret_cast<const UTF8 *>(text.data());
  size_t length = getNumBytesForUTF8(*begin);
  bool legal = length <= text.size() && isLegalUTF8Sequence(begin, begin + length);
  return legal ? length : 0;
}

void writeEscaped(raw_ostream &os, char c) {
  switch (c) {
  case '"':
  case '\\':
    os << '\\' << c;
    return;
  case '\n':
    os << "\\n";
    return;
  case '\t':
    os << "\\t";
    return;
  case '\r':
    os << "\\r";
    return;
  default:
    os << format("\\u%04x", static_cast<unsigned char>(c));
  }
}
} // namespace

void writeJsonString(raw_ostream &os, StringRef text) {
  os << '"';
  while (!text.empty()) {
    auto c = static_cast<unsigned char>(text.front());
    if (c < 0x20 || c == 0x7f || c == '"' || c == '\\') {
      writeEscaped(os, text.front());
      text = text.drop_front();
      continue;
    }
    size_t length = characterLength(text);
    os << (length ? text.take_front(length) : StringRef("\xEF\xBF\xBD"));
    text = text.drop_front(std::max<size_t>(length, 1));
  }
  os << '"';
}

void JsonWriter::write(StringRef text) { writeJsonString(os, text); }

void JsonWriter::write(double number) {
  if (!std::isfinite(number)) {
    os << "null";
    return;
  }
  char buffer[32];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, number);
  os << StringRef(buffer, result.ptr - buffer);
}

void JsonWriter::separate() {
  if (!first)
    os << ',';
  if (depth)
    os << '\n';
  os.indent(2 * depth);
  first = false;
}

void JsonWriter::begin(StringRef key) {
  separate();
  writeJsonString(os, key);
  os << ": ";
}

void JsonWriter::block(char open, char close, function_ref<void()> body) {
  os << open;
  ++depth;
  first = true;
  body();
  --depth;
  if (!first) {
    os << '\n';
    os.indent(2 * depth);
  }
  os << close;
  first = false;
  if (depth == 0)
    os << '\n';
}

void JsonWriter::element(char open, char close, function_ref<void()> body) {
  separate();
  block(open, close, body);
}

void JsonWriter::attributeObject(StringRef key, function_ref<void()> body) {
  begin(key);
  block('{', '}', body);
}

void JsonWriter::attributeArray(StringRef key, function_ref<void()> body) {
  begin(key);
  block('[', ']', body);
}

} // namespace heterplan
