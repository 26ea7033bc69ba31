#include "support/Text.h"

#include "llvm/Support/Unicode.h"

using namespace llvm;

namespace heterplan {

size_t columnsOf(StringRef text) {
  int width = sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : static_cast<size_t>(width);
}

std::string shortened(StringRef name, size_t width) {
  if (columnsOf(name) <= width)
    return name.str();
  auto isInner = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  size_t head = width / 2 - 2, tail = name.size() - (width - width / 2 - 1);
  while (head > 0 && isInner(name[head]))
    --head;
  while (tail < name.size() && isInner(name[tail]))
    ++tail;
  return name.take_front(head).str() + "..." + name.drop_front(tail).str();
}

} // namespace heterplan
