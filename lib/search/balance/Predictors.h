// How fast a worker will be in the next period, by what it was in those before (LB-BSP, Chen et
// al., SoCC 2020, section 4). The runtime has the same formulas (heterplan_runtime/predictors.py),
// in the same order of operations; a test holds both to the same numbers.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <memory>

namespace heterplan {

struct Observation {
  double speed = 0;           // samples a second, or any other unit; positive
  double cpu = 0, memory = 0; // shares in use; 0 where not known
};

class Predictor {
public:
  virtual ~Predictor() = default;
  virtual void observe(const Observation &observation) = 0;
  /// The next speed; positive. There has to be an observation.
  virtual double predict() const = 0;
};

/// By a name of Predictors.def; null: there is none.
std::unique_ptr<Predictor> makePredictor(llvm::StringRef name);

} // namespace heterplan
