// The checker's own definition of each iteration model: one constant for each line of
// ir/IterationModels.def.
#pragma once

#include "ir/Plan.h"

namespace heterplan {

struct IterationFacts {
  /// Stages take what Amdahl's law says that was fitted to their layers, transfers included, on
  /// devices of one type, and neighbours differ in type; else what their slowest replica takes.
  bool fitted;
  /// The pipeline fills and drains in each iteration; else the slowest stage alone counts.
  bool drains;
  /// Stages lie on one pool of devices: the plan states their amplification and device-seconds.
  bool onePool = false;
};

const IterationFacts &factsOf(IterationModel model);

} // namespace heterplan
