// The place of a layer in a plan, and the limits of the plan.
#pragma once

#include "ir/Plan.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace heterplan {

/// The stage that has a layer, and the layer's place in it; null where the plan has no such layer.
struct LayerPlace {
  const Stage *stage = nullptr;
  size_t index = 0;
};
LayerPlace placeOf(const Plan &plan, llvm::StringRef layer);

/// How long a stage is busy with a micro-batch: not with transfers that overlap its passes.
Seconds paceOf(const Plan &plan, const Stage &stage);

/// The stage that is busy longest with a micro-batch, which the others wait for. `plan` has one at
/// least.
const Stage &bottleneckOf(const Plan &plan);

struct PlanLimits {
  std::string binding;     // name of the check that fails or is closest to it, or "bottleneck"
  int bottleneckStage = 0; // id of bottleneckOf()
};

} // namespace heterplan
