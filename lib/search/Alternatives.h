// The plans beside the best one that people ask about: without a device type, with one alone, in
// one stage. Each is the best that a search finds under one condition more. Others are near-optimal
// plans that the policy of reinforcement learning draws.
#pragma once

#include "ir/AlternativePlan.h"
#include "search/Search.h"
#include "search/rl/DrawnPlans.h"

#include "llvm/ADT/STLExtras.h"

#include <functional>
#include <vector>

namespace heterplan {

/// Draws plans for a problem that differ from one for it.
using DrawPlans = std::function<llvm::Expected<DrawnPlans>(const Problem &problem,
                                                           const Plan &chosen, IsNew isNew)>;

struct AlternativeOptions {
  size_t most = 2; // of the alternatives, the best ones
  /// Null: none are drawn.
  DrawPlans draw;
  /// Called before each search with how many of how many are done.
  std::function<void(int done, int all)> progress;
  /// Whether to end with those that were found so far.
  std::function<bool()> stop;
};

/// Runs a strategy on a problem.
using SearchOne = llvm::function_ref<llvm::Expected<SearchOutcome>(const Problem &problem)>;

/// The best alternatives to `chosen`, a plan for `problem` that is no burst, the best first; plans
/// that have its stages, or those of another alternative, are left out. Each is a plan for
/// `problem` with the bound of `chosen`. Fails when a search does, or drawing. Deterministic as
/// they are.
llvm::Expected<std::vector<AlternativePlan>> alternativesTo(const Problem &problem,
                                                            const Plan &chosen, SearchOne search,
                                                            const AlternativeOptions &options);

/// The problems whose best answer is the alternative of each line of Alternatives.def; none where
/// there is no such alternative to `chosen`.
#define HETERPLAN_ALTERNATIVE(enumerator, name, title)                                             \
  std::vector<Problem> problemsOf##enumerator(const Problem &problem, const Plan &chosen);
#include "ir/Alternatives.def"

} // namespace heterplan
