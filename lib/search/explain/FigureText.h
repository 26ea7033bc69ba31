// Figures of explanations as they are printed: rounded so that they work when they are typed back.
#pragma once

#include "support/Units.h"

#include <string>

namespace heterplan {

/// `value` with six digits, rounded so that reading it back gives no more (no less) than it, but
/// for rounding errors of sums (1e-10), which limits allow for.
std::string roundedDown(double value);
std::string roundedUp(double value);
/// `value` with at most `decimals` digits after the point, without zeros at the end.
std::string decimalText(double value, int decimals);
/// The number that `text` begins with.
double valueOf(const std::string &text);
/// "15.9 GiB": rounded up, and `rounded` is what it reads back as.
std::string sizeText(Bytes size, Bytes &rounded);
std::string sizeText(Bytes size);

} // namespace heterplan
