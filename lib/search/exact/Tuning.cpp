#include "search/exact/Tuning.h"

#include <algorithm>
#include <type_traits>

using namespace llvm;

namespace heterplan {

namespace {
/// Whole numbers are rounded down, to 1 at least: some are divisors.
template <typename Value> Value valueOf(double value) {
  if constexpr (std::is_integral_v<Value>)
    return static_cast<Value>(std::max(1.0, value));
  return static_cast<Value>(value);
}
} // namespace

ArrayRef<const char *> tuningNames() {
  static constexpr const char *names[] = {
#define HETERPLAN_TUNING(field, name, value, help) name,
#include "search/exact/Tuning.def"
  };
  return names;
}

bool setTuning(Tuning &tuning, StringRef wanted, double value) {
#define HETERPLAN_TUNING(field, name, standard, help)                                              \
  if (wanted == name) {                                                                            \
    tuning.field = valueOf<decltype(standard)>(value);                                             \
    return true;                                                                                   \
  }
#include "search/exact/Tuning.def"
  return false;
}

} // namespace heterplan
