#include "search/exact/Tuning.h"

using namespace llvm;

namespace heterplan {

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
    tuning.field = static_cast<decltype(standard)>(value);                                         \
    return true;                                                                                   \
  }
#include "search/exact/Tuning.def"
  return false;
}

} // namespace heterplan
