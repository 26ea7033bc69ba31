#include "search/rl/LearnerTuning.h"

namespace heterplan {

bool setTuning(LearnerTuning &tuning, llvm::StringRef name, double value) {
#define HETERPLAN_LEARNING(field, known, initial, help)                                            \
  if (name == known) {                                                                             \
    tuning.field = value;                                                                          \
    return true;                                                                                   \
  }
#include "search/rl/LearnerTuning.def"
  return false;
}

std::vector<std::pair<std::string, double>> learnerConstants() {
  return {
#define HETERPLAN_LEARNING(field, name, value, help) {name, value},
#include "search/rl/LearnerTuning.def"
  };
}

} // namespace heterplan
