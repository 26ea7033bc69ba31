#include "ir/Json.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ConvertUTF.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr unsigned deepest = 64;

/// Protobuf takes "forward_flops" and "forwardFlops" for one field.
std::string canonicalKey(StringRef key) {
  std::string result;
  for (char c : key)
    if (c != '_')
      result += toLower(c);
  return result;
}

/// "layers[2].name" -> "layers", "2", "name".
SmallVector<std::string, 4> splitElement(StringRef element) {
  SmallVector<std::string, 4> steps;
  std::string step;
  auto finish = [&] {
    if (!step.empty())
      steps.push_back(canonicalKey(step));
    step.clear();
  };
  for (char c : element)
    if (c == '.' || c == '[' || c == ']')
      finish();
    else
      step += c;
  finish();
  return steps;
}

/// Recursive descent over the text; remembers the first error and where the wanted value lies.
class Scanner {
public:
  Scanner(StringRef text, StringRef element) : text(text), wanted(splitElement(element)) {}

  bool document() {
    space();
    return value(0, true) &&
           (space(), next == text.size() || fail("unexpected text after the value"));
  }

  size_t errorOffset = 0;
  std::string error;
  bool duplicateKey = false;
  size_t found = 0;      // offset of the innermost value on the way to the wanted one
  size_t foundDepth = 0; // how many steps of the way
  bool complete() const { return foundDepth == wanted.size(); }
  StringSet<> *zeros = nullptr; // collects the elements that are the number 0, where it is set

private:
  bool fail(std::string message) { return failAt(next, std::move(message)); }
  bool failAt(size_t offset, std::string message) {
    if (error.empty()) {
      errorOffset = offset;
      error = std::move(message);
    }
    return false;
  }
  char peek() const { return next < text.size() ? text[next] : '\0'; }
  bool accept(char c) {
    if (next >= text.size() || text[next] != c)
      return false;
    ++next;
    return true;
  }
  void space() {
    while (next < text.size() && StringRef(" \t\r\n").contains(text[next]))
      ++next;
  }
  std::string here() const {
    if (next >= text.size())
      return "the end of the file";
    unsigned char c = text[next];
    return isPrint(c) ? std::string("'") + char(c) + "'" : "byte 0x" + utohexstr(c);
  }

  bool value(size_t depth, bool onWay) {
    if (depth > deepest)
      return fail("values are nested more than " + std::to_string(deepest) + " deep");
    if (onWay && depth >= foundDepth) {
      found = next;
      foundDepth = depth;
    }
    switch (peek()) {
    case '{':
      return object(depth, onWay);
    case '[':
      return array(depth, onWay);
    case '"':
      return string();
    case 't':
      return word("true");
    case 'f':
      return word("false");
    case 'n':
      return word("null");
    default:
      return number();
    }
  }

  bool child(StringRef step, size_t depth, bool onWay) {
    if (!zeros)
      return value(depth, onWay);
    size_t length = path.size();
    path += "." + step.str();
    bool valid = value(depth, onWay);
    path.resize(length);
    return valid;
  }

  bool wants(size_t depth, bool onWay, StringRef step) const {
    return onWay && depth < wanted.size() && wanted[depth] == step;
  }

  bool object(size_t depth, bool onWay) {
    StringSet<> keys;
    accept('{');
    for (bool first = true;; first = false) {
      space();
      if (first && accept('}'))
        return true;
      size_t start = next;
      if (peek() != '"')
        return fail("expected a key in double quotes, found " + here());
      if (!string())
        return false;
      std::string key = canonicalKey(text.slice(start + 1, next - 1));
      if (!keys.insert(key).second) {
        duplicateKey = true;
        return failAt(start, "key " + text.slice(start, next).str() + " is there twice");
      }
      space();
      if (!accept(':'))
        return fail("expected ':' after a key, found " + here());
      space();
      if (!child(key, depth + 1, wants(depth, onWay, key)))
        return false;
      space();
      if (accept('}'))
        return true;
      if (!accept(','))
        return fail("expected ',' or '}', found " + here());
    }
  }

  /// An element of an array. Protobuf would drop a null in silence, and count on without it.
  bool element(StringRef step, size_t depth, bool onWay) {
    return peek() == 'n' ? fail("expected a value in a list, found null")
                         : child(step, depth, onWay);
  }

  bool array(size_t depth, bool onWay) {
    accept('[');
    space();
    if (accept(']'))
      return true;
    for (size_t index = 0;; ++index) {
      space();
      std::string step = zeros || onWay ? std::to_string(index) : "";
      if (!element(step, depth + 1, wants(depth, onWay, step)))
        return false;
      space();
      if (accept(']'))
        return true;
      if (!accept(','))
        return fail("expected ',' or ']', found " + here());
    }
  }

  /// The code unit of a \uXXXX escape whose 'u' was just read, or -1.
  int codeUnit() {
    unsigned unit = 0;
    for (int i = 0; i < 4; ++i, ++next) {
      unsigned digit = next < text.size() ? hexDigitValue(text[next]) : ~0U;
      if (digit == ~0U)
        return -1;
      unit = unit * 16 + digit;
    }
    return static_cast<int>(unit);
  }

  bool escape() {
    if (accept('u')) {
      int unit = codeUnit();
      bool high = unit >= 0xD800 && unit < 0xDC00;
      if (high && accept('\\') && accept('u')) {
        int low = codeUnit();
        return (low >= 0xDC00 && low < 0xE000) || fail("a surrogate has no partner");
      }
      return (unit >= 0 && (unit < 0xD800 || unit >= 0xE000)) || fail("this is no \\uXXXX escape");
    }
    if (next < text.size() && StringRef("\"\\/bfnrt").contains(text[next]))
      return ++next, true;
    return fail("unknown escape: " + here());
  }

  bool string() {
    size_t start = next++;
    while (!accept('"')) {
      if (next >= text.size())
        return failAt(start, "this string has no end");
      if (static_cast<unsigned char>(text[next]) < 0x20)
        return fail("a string contains a control character; write an escape");
      if (accept('\\')) {
        if (!escape())
          return false;
      } else {
        ++next;
      }
    }
    StringRef contents = text.slice(start, next);
    auto *bytes = reinterpret_cast<const UTF8 *>(contents.begin());
    return isLegalUTF8String(&bytes, reinterpret_cast<const UTF8 *>(contents.end())) ||
           failAt(start, "this string is not valid UTF-8");
  }

  bool word(StringRef expected) {
    if (!text.substr(next).startswith(expected))
      return fail("unexpected " + here());
    next += expected.size();
    return true;
  }

  bool digits() {
    size_t start = next;
    while (isDigit(peek()))
      ++next;
    return next > start;
  }

  bool number() {
    size_t start = next;
    bool sign = accept('-');
    bool zero = accept('0');
    if (!zero && !digits())
      return fail((sign ? "expected a digit, found " : "expected a value, found ") + here());
    if (zero && isDigit(peek()))
      return failAt(start, "a number has no leading zeros");
    if (accept('.') && !digits())
      return fail("expected a digit after '.', found " + here());
    if (accept('e') || accept('E')) {
      accept('+') || accept('-');
      if (!digits())
        return fail("expected a digit in the exponent, found " + here());
    }
    return numberValue(start);
  }

  bool numberValue(size_t start) {
    StringRef literal = text.slice(start, next);
    bool mayOverflow = literal.find_first_of("eE") != StringRef::npos || literal.size() > 300;
    double parsed = 1;
    if (zeros || mayOverflow)
      literal.getAsDouble(parsed, /*AllowInexact=*/true);
    if (std::isinf(parsed))
      return failAt(start, "this number is too large for a double");
    if (zeros && parsed == 0)
      zeros->insert(path);
    return true;
  }

  StringRef text;
  SmallVector<std::string, 4> wanted;
  size_t next = 0;
  std::string path; // ".layers.2.name"; kept only while zeros are collected
};

Location placeAt(StringRef text, StringRef path, size_t offset) {
  StringRef before = text.take_front(offset);
  size_t lineStart = before.rfind('\n') + 1; // npos + 1 is 0
  return {path.str(), static_cast<unsigned>(before.count('\n') + 1),
          static_cast<unsigned>(offset - lineStart + 1), ""};
}
} // namespace

Error checkJson(StringRef text, StringRef path) {
  Scanner scanner(text, "");
  if (scanner.document())
    return Error::success();
  return Diagnostic(scanner.duplicateKey ? Diag::DuplicateName : Diag::Syntax,
                    placeAt(text, path, scanner.errorOffset))
         << scanner.error;
}

Location locateInJson(StringRef text, StringRef path, StringRef element) {
  Scanner scanner(text, element);
  scanner.document();
  Location place = placeAt(text, path, scanner.found);
  place.element = element.str();
  return place;
}

std::optional<std::string> stringInJson(StringRef text, StringRef element) {
  Scanner scanner(text, element);
  scanner.document();
  if (!scanner.complete() || !text.substr(scanner.found).startswith("\""))
    return std::nullopt;
  StringRef rest = text.substr(scanner.found + 1);
  return rest.take_front(rest.find('"')).str();
}

JsonZeros::JsonZeros(StringRef text) {
  Scanner scanner(text, "");
  scanner.zeros = &elements;
  scanner.document();
}

bool JsonZeros::contain(StringRef element) const {
  std::string path;
  for (const std::string &step : splitElement(element))
    path += "." + step;
  return elements.contains(path);
}

} // namespace heterplan
