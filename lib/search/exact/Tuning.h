// The constants of the exact search, which measurements have set.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace heterplan {

/// One for each line of Tuning.def.
struct Tuning {
#define HETERPLAN_TUNING(field, name, value, help) decltype(value) field = value;
#include "search/exact/Tuning.def"
};
/// Sets the constant `name` to a positive number below 2³¹. False: there is none of that name.
bool setTuning(Tuning &tuning, llvm::StringRef name, double value);
/// The names of Tuning.def, in order.
llvm::ArrayRef<const char *> tuningNames();

} // namespace heterplan
