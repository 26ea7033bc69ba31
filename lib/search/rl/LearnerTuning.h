// The constants of learning, which measurements have set.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>
#include <utility>
#include <vector>

namespace heterplan {

/// One for each line of LearnerTuning.def.
struct LearnerTuning {
#define HETERPLAN_LEARNING(field, name, value, help) double field = value;
#include "search/rl/LearnerTuning.def"
};
/// Sets the constant `name`. False: there is none of that name.
bool setTuning(LearnerTuning &tuning, llvm::StringRef name, double value);
/// The names of LearnerTuning.def with their values, in order.
std::vector<std::pair<std::string, double>> learnerConstants();

} // namespace heterplan
