// The plans that training could go on with on a changed cluster: the best one from nothing, and
// those that keep stages or device types, which move less state.
#pragma once

#include "DegreePlanning.h"

#include "search/StateMoves.h"

#include <memory>
#include <optional>
#include <vector>

namespace heterplan {

/// A plan that the training could go on with, and the inputs of its degree of tensor parallelism.
struct ReplanCandidate {
  const char *name;
  Plan plan; // with a device for each group of devices that share layers
  DegreeInputs *own;
  size_t devices = 0; // all of them
  StateMoves moves{};
  Seconds moving{};
};

/// The plans that are compared. The first candidate is the plan from nothing.
struct ReplanCandidates {
  std::unique_ptr<DegreePlanner> planner; // has the inputs
  std::vector<ReplanCandidate> all;
  size_t chosen = 0;
  ReplanCandidate &best() { return all[chosen]; }
  const ReplanCandidate *find(llvm::StringRef name) const {
    for (const ReplanCandidate &each : all)
      if (name == each.name)
        return &each;
    return nullptr;
  }
};

/// The plan of before, and the inputs of plans like it. The degree of tensor parallelism is that of
/// `options`, which may be "auto".
struct Replanning {
  const Plan &before;
  const CompileOptions &options;
  const PlanningSources &sources;
  int64_t horizon; // steps
};

/// The candidates for a plan like that of before. The chosen one is worth most in the steps of the
/// horizon. Plans that keep old stages or device types have the old degree, if it is one of those
/// that are asked for. Empty if the search finds no plan from nothing.
llvm::Expected<std::optional<ReplanCandidates>> findReplanCandidates(const Replanning &asked);

/// The worth of so many steps with the candidate, after its state has moved: seconds, dollars or
/// device-seconds, as the objective minimises.
double totalOf(const ReplanCandidate &candidate, int64_t steps);

/// The number of steps after which moving has paid, against going on with the old stages; −1:
/// never. 0 if moving costs nothing more, or the old stages cannot go on.
int64_t paysAfter(const ReplanCandidates &found);

} // namespace heterplan
