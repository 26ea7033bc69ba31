#include "codegen/Html.h"

#include <cstdio>

using namespace llvm;

namespace heterplan::html {
namespace {
struct Scale {
  double factor;
  const char *unit;
};

std::string scaled(double value, std::initializer_list<Scale> scales) {
  const Scale *chosen = scales.begin();
  for (const Scale &scale : scales)
    if (std::abs(value) >= scale.factor)
      chosen = &scale;
  return number(value / chosen->factor, 3) + " " + chosen->unit;
}
} // namespace

std::string escape(StringRef text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '&':
      result += "&amp;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return result;
}

std::string element(StringRef tag, StringRef text, StringRef attributes) {
  std::string open = tag.str() + (attributes.empty() ? "" : " ") + attributes.str();
  return "<" + open + ">" + escape(text) + "</" + tag.str() + ">";
}

std::string number(double value, int digits) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
  StringRef text(buffer);
  if (text.contains('e') && std::abs(value) >= 1 && std::abs(value) < 1e15)
    return fixed(value, 0);
  return text.str();
}

std::string fixed(double value, int digits) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

std::string readable(Seconds time) {
  return scaled(time.value(), {{1e-9, "ns"}, {1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}});
}

std::string readable(Bytes size) {
  return scaled(
      size.value(),
      {{1, "B"}, {1024., "KiB"}, {1048576., "MiB"}, {1073741824., "GiB"}, {1099511627776., "TiB"}});
}

} // namespace heterplan::html
