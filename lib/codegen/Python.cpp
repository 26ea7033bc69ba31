#include "codegen/Python.h"

#include "support/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

using namespace llvm;

namespace heterplan::python {
namespace {
constexpr size_t lineWidth = 100;
constexpr size_t longestIdentifier = 40;

/// Bytes of the valid UTF-8 character at the start of `text`, or 0.
size_t characterLength(StringRef text) {
  size_t length = getNumBytesForUTF8(static_cast<UTF8>(text[0]));
  const auto *begin = reinterpret_cast<const UTF8 *>(text.data());
  return length <= text.size() && isLegalUTF8Sequence(begin, begin + length) ? length : 0;
}

std::string escape(unsigned char c) {
  switch (c) {
  case '"':
    return "\\\"";
  case '\\':
    return "\\\\";
  case '\n':
    return "\\n";
  case '\t':
    return "\\t";
  default:
    return std::string("\\x") + hexdigit(c >> 4, true) + hexdigit(c & 15, true);
  }
}

bool isPlain(unsigned char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

std::string special(double value) {
  if (std::isnan(value))
    return "float(\"nan\")";
  return value > 0 ? "float(\"inf\")" : "(-float(\"inf\"))";
}

/// The shortest of 1 to 17 digits for which `same` holds.
template <typename Same> std::string shortest(double value, Same same) {
  char buffer[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (same(std::strtod(buffer, nullptr)))
      break;
  }
  std::string text = buffer;
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return std::signbit(value) ? "(" + text + ")" : text;
}

/// Items of a call or tuple: `text` cut at the commas that no bracket or string encloses.
std::vector<std::string> splitItems(StringRef text) {
  std::vector<std::string> items;
  int depth = 0;
  bool inString = false;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inString && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      inString = !inString;
    else if (!inString && StringRef("([{").contains(text[i]))
      ++depth;
    else if (!inString && StringRef(")]}").contains(text[i]))
      --depth;
    else if (!inString && !depth && text[i] == ',') {
      items.push_back(text.slice(begin, i).trim().str());
      begin = i + 1;
    }
  }
  if (StringRef last = text.substr(begin).trim(); !last.empty())
    items.push_back(last.str());
  return items;
}

/// The place of the bracket that the end of `text` closes; npos if the end is no bracket.
size_t lastBracket(StringRef text) {
  std::vector<size_t> open;
  size_t last = StringRef::npos;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inString && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      inString = !inString;
    else if (!inString && StringRef("([{").contains(text[i]))
      open.push_back(i);
    else if (!inString && StringRef(")]}").contains(text[i]) && !open.empty()) {
      last = i + 1 == text.size() ? open.back() : StringRef::npos;
      open.pop_back();
    }
  }
  return last;
}

/// `items` one after another, as many to a line as there is room for.
std::string filled(int indent, const std::vector<std::string> &items) {
  std::string result, line;
  for (const std::string &item : items) {
    if (!line.empty() && indent + line.size() + item.size() + 2 > lineWidth) {
      result += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + item + ",";
  }
  return line.empty() ? result : result + std::string(indent, ' ') + line + "\n";
}

std::string broken(int indent, StringRef text, StringRef suffix = "") {
  std::string margin(indent, ' ');
  size_t bracket = lastBracket(text);
  if (indent + text.size() + suffix.size() <= lineWidth || bracket == StringRef::npos)
    return margin + text.str() + suffix.str() + "\n";
  StringRef contents = text.slice(bracket + 1, text.size() - 1);
  std::string result = margin + text.take_front(bracket + 1).str() + "\n";
  std::vector<std::string> items = splitItems(contents);
  if (indent + 4 + contents.size() <= lineWidth)
    result += std::string(indent + 4, ' ') + contents.str() + "\n";
  else if (text[bracket] == '[')
    result += filled(indent + 4, items);
  else
    for (const std::string &item : items)
      result += broken(indent + 4, item, ",");
  return result + margin + text.take_back(1).str() + suffix.str() + "\n";
}

bool isKeyword(StringRef name) {
  static constexpr const char *words[] = {
      "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class",
      "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if",
      "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try",
      "while", "with", "yield",
      // names that the generated code uses itself
      "self", "torch", "nn", "F", "ops", "p", "n", "device", "body", "then_branch", "else_branch",
      "int", "bool", "len", "float", "slice", "tuple"};
  return is_contained(words, name);
}

std::string sanitised(StringRef name) {
  name.consume_back("_output_0"); // what exporters append
  std::string result;
  for (char c : name.take_back(10 * longestIdentifier)) {
    bool keep = isAlnum(c);
    if (keep || (!result.empty() && result.back() != '_'))
      result += keep ? c : '_';
  }
  StringRef text = StringRef(result).rtrim('_');
  if (text.size() > longestIdentifier) { // the last parts of a path tell most
    bool midWord = text[text.size() - longestIdentifier - 1] != '_';
    text = text.take_back(longestIdentifier).ltrim('_');
    if (midWord && text.contains('_'))
      text = text.split('_').second;
  }
  if (text.empty() || isDigit(text[0]) || isKeyword(text))
    return "t" + (text.empty() || isDigit(text[0]) ? "" : std::string("_")) + text.str();
  return text.str();
}
} // namespace

std::string quote(StringRef text) {
  std::string result = "\"";
  while (!text.empty()) {
    size_t length = characterLength(text);
    bool plain = isPlain(text[0]) || length > 1;
    result += plain ? text.take_front(length).str() : escape(text[0]);
    text = text.drop_front(plain ? length : 1);
  }
  return result + "\"";
}

std::string comment(StringRef text) {
  std::string result;
  for (char c : text.take_front(120))
    result += isPlain(c) ? c : '?';
  return result;
}

std::string literal(double value) {
  if (!std::isfinite(value))
    return special(value);
  return shortest(value, [&](double other) { return other == value; });
}

std::string literal(float value) {
  if (!std::isfinite(value))
    return special(value);
  return shortest(value, [&](double other) { // PyTorch refuses what is beyond the largest float
    return std::abs(other) <= std::numeric_limits<float>::max() &&
           static_cast<float>(other) == value;
  });
}

std::string literal(int64_t value) {
  std::string text = std::to_string(value);
  return value < 0 ? "(" + text + ")" : text;
}

std::string join(ArrayRef<std::string> items, StringRef separator) {
  return llvm::join(items.begin(), items.end(), separator);
}

std::string tuple(const std::vector<std::string> &items) {
  return "(" + join(items) + (items.size() == 1 ? ",)" : ")");
}

std::string tuple(ArrayRef<int64_t> items) {
  std::vector<std::string> texts;
  for (int64_t item : items)
    texts.push_back(std::to_string(item));
  return tuple(texts);
}

std::string compactTuple(ArrayRef<int64_t> items) {
  bool equal = !items.empty() && std::equal(items.begin() + 1, items.end(), items.begin());
  return equal ? std::to_string(items[0]) : tuple(items);
}

std::string call(StringRef function, const std::vector<std::string> &arguments) {
  return function.str() + "(" + join(arguments) + ")";
}

std::string torchType(DataType type) { return std::string("torch.") + nameOf(type); }

std::string dimension(Dim dim, StringRef batch) {
  if (!dim.perSample)
    return std::to_string(dim.fixed);
  std::string text =
      dim.perSample == 1 ? batch.str() : std::to_string(dim.perSample) + " * " + batch.str();
  if (dim.fixed)
    text += (dim.fixed < 0 ? " - " : " + ") + std::to_string(std::abs(dim.fixed));
  return text;
}

std::string shapeText(ArrayRef<Dim> shape) {
  std::vector<std::string> sizes;
  for (Dim dim : shape)
    sizes.push_back(dimension(dim, "N"));
  return sizes.empty() ? "scalar" : join(sizes, " x ");
}

std::string remark(const GraphTensor &tensor) {
  if (tensor.container == Container::Sequence || tensor.container == Container::OptionalSequence)
    return "a list";
  return (tensor.dynamic ? "at most " : "") + shapeText(tensor.shape);
}

std::string statement(int indent, StringRef text, StringRef remark) {
  std::string lines = broken(indent, text);
  if (remark.empty())
    return lines;
  size_t lastLine = StringRef(lines).drop_back().rfind('\n');
  size_t used = lines.size() - (lastLine == StringRef::npos ? 0 : lastLine + 1) - 1;
  if (used + remark.size() + 4 <= lineWidth)
    return StringRef(lines).drop_back().str() + "  # " + remark.str() + "\n";
  return std::string(indent, ' ') + "# " + remark.str() + "\n" + lines;
}

std::string commentLine(int indent, StringRef text, StringRef end) {
  std::string clipped = comment(text), margin(indent, ' ');
  size_t used = margin.size() + 2 + end.size();
  size_t room = used < lineWidth ? lineWidth - used : 0;
  if (clipped.size() > room)
    clipped = headOf(clipped, room > 3 ? room - 3 : 0).str() + "...";
  return margin + "# " + clipped + end.str() + "\n";
}

Identifiers::Identifiers() = default;

std::string Identifiers::make(StringRef name) {
  std::string base = sanitised(name), candidate = base;
  for (int suffix = 2; !used.insert(candidate).second; ++suffix)
    candidate = base + "_" + std::to_string(suffix);
  return candidate;
}

} // namespace heterplan::python
