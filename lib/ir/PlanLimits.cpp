#include "ir/PlanLimits.h"

#include <algorithm>
#include <cassert>

namespace heterplan {

LayerPlace placeOf(const Plan &plan, llvm::StringRef layer) {
  for (const Stage &stage : plan.stages)
    for (size_t index = 0; index < stage.layers.size(); ++index)
      if (stage.layers[index] == layer)
        return {&stage, index};
  return {};
}

Seconds paceOf(const Plan &plan, const Stage &stage) {
  return plan.overlapsTransfers ? stage.computing() : stage.time();
}

const Stage &bottleneckOf(const Plan &plan) {
  assert(!plan.stages.empty() && "every plan has a stage");
  return *std::max_element(
      plan.stages.begin(), plan.stages.end(),
      [&](const Stage &a, const Stage &b) { return paceOf(plan, a) < paceOf(plan, b); });
}

} // namespace heterplan
