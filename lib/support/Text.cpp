#include "support/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Unicode.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

size_t columnsOf(StringRef text) {
  int width = sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : static_cast<size_t>(width);
}

/// Whether a character began before it.
static bool isInner(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

StringRef headOf(StringRef text, size_t bytes) {
  if (bytes >= text.size())
    return text;
  while (bytes > 0 && isInner(text[bytes]))
    --bytes;
  return text.take_front(bytes);
}

StringRef tailOf(StringRef text, size_t bytes) { return text.take_back(bytes).drop_while(isInner); }

std::string shortened(StringRef name, size_t width) {
  if (columnsOf(name) <= width)
    return name.str();
  return headOf(name, width / 2 - 2).str() + "..." + tailOf(name, width - width / 2 - 1).str();
}

std::string kubernetesName(StringRef text, StringRef otherwise) {
  constexpr size_t longest = 40;
  std::string result;
  for (char c : text.lower())
    if (isAlnum(c))
      result += c;
    else if (!result.empty() && result.back() != '-')
      result += '-';
  result.resize(std::min(result.size(), longest));
  while (!result.empty() && result.back() == '-')
    result.pop_back();
  return result.empty() ? otherwise.str() : result;
}

} // namespace heterplan
