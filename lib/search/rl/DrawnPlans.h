// Near-optimal plans that differ from a given one. The policy of reinforcement learning draws many
// assignments of one problem; the best ones on other devices and with other cuts are alternatives.
#pragma once

#include "search/Search.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace heterplan {

struct DrawnPlans {
  std::optional<Plan> otherDevices; // not as many of each type as the given plan
  std::optional<Plan> otherCuts;    // other stages, by their layers
};

/// Whether nobody has the plan yet.
using IsNew = llvm::function_ref<bool(const Plan &plan)>;

/// Draws assignments of `problem` from the pretrained policy, improves them by local moves, and
/// returns the best that are new and differ from `chosen`, a plan for `problem`. They are at most a
/// quarter worse than `chosen`. Their bound is that of `chosen`, or their own value if that is
/// better. Deterministic by the seed. Fails if the policy is damaged or the cost model fails.
llvm::Expected<DrawnPlans> drawPlans(const Problem &problem, const Plan &chosen,
                                     const SearchOptions &options, IsNew isNew);

} // namespace heterplan
