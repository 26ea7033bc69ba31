#include "search/explain/FigureText.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-10;

/// Digits after the point that leave six in all.
int decimalsOf(double value) {
  if (value <= 0)
    return 0;
  return std::clamp(5 - int(std::floor(std::log10(value))), 0, 17);
}

/// The multiple of 10^-decimals next to `value` that is not beyond it in `direction`.
std::string rounded(double value, int direction) {
  int decimals = decimalsOf(value);
  double nudged = value * (1 - direction * rounding);
  double scale = std::pow(10.0, decimals), units = nudged * scale;
  units = direction < 0 ? std::floor(units) : std::ceil(units);
  for (int i = 0; i < 3; ++i, units += direction) {
    std::string text = decimalText(units / scale, decimals);
    double back = std::strtod(text.c_str(), nullptr);
    if (direction < 0 ? back <= nudged : back >= nudged)
      return text;
  }
  return decimalText(value, 17);
}
} // namespace

std::string decimalText(double value, int decimals) {
  std::string text;
  raw_string_ostream(text) << format("%.*f", decimals, value);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.')
      text.pop_back();
  }
  return text;
}

double valueOf(const std::string &text) { return std::strtod(text.c_str(), nullptr); }
std::string roundedDown(double value) { return rounded(value, -1); }
std::string roundedUp(double value) { return rounded(value, 1); }

std::string sizeText(Bytes size, Bytes &rounded) {
  double bytes = size.value();
  double unit = bytes >= 1024.0 * 1024 * 1024 ? 1024.0 * 1024 * 1024
                : bytes >= 1024.0 * 1024      ? 1024.0 * 1024
                                              : 1;
  const char *name = unit == 1 ? " bytes" : unit > 2e6 ? " GiB" : " MiB";
  std::string text = unit == 1 ? decimalText(std::ceil(bytes), 0) : roundedUp(bytes / unit);
  rounded = Bytes(valueOf(text) * unit);
  return text + name;
}

std::string sizeText(Bytes size) {
  Bytes ignored;
  return sizeText(size, ignored);
}

} // namespace heterplan
