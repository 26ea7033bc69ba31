// The plans that training could go on with on a changed cluster: the best one from nothing, and
// those that keep stages or device types, which move less state.
#pragma once

#include "CompileOptions.h"
#include "PlanningInputs.h"

#include "search/StateMoves.h"

#include <optional>
#include <vector>

namespace heterplan {

/// A plan that the training could go on with.
struct ReplanCandidate {
  const char *name;
  Plan plan;
  StateMoves moves;
  Seconds moving{};
};

/// The plans that are compared. The first candidate is the plan from nothing.
struct ReplanCandidates {
  std::vector<ReplanCandidate> all;
  size_t chosen = 0;
  const ReplanCandidate *find(llvm::StringRef name) const {
    for (const ReplanCandidate &each : all)
      if (name == each.name)
        return &each;
    return nullptr;
  }
};

/// The candidates for a plan like `before`; the chosen one is worth most in `horizon` steps. Empty
/// if the search finds no plan from nothing.
llvm::Expected<std::optional<ReplanCandidates>> findReplanCandidates(const Plan &before,
                                                                     PlanningInputs &inputs,
                                                                     const CompileOptions &options,
                                                                     int64_t horizon);

/// The worth of so many steps with the candidate, after its state has moved: seconds, dollars or
/// device-seconds, as the objective minimises.
double totalOf(const ReplanCandidate &candidate, int64_t steps);

/// The number of steps after which moving has paid, against going on with the old stages; −1:
/// never. 0 if moving costs nothing more, or the old stages cannot go on.
int64_t paysAfter(const ReplanCandidates &found);

} // namespace heterplan
