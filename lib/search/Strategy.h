// What a strategy is: a class with a static `run`, one line in Strategies.def.
#pragma once

#include "search/Evaluator.h"
#include "search/Search.h"

namespace heterplan {

struct Solution {
  std::optional<Placement> placement; // best found
  /// Proven: no placement of the space has a smaller Evaluation::objective. Infinite when none is
  /// feasible.
  double bound = 0;
  /// The whole space was searched: without a placement the problem is infeasible.
  bool complete = false;
};

/// The best placement that Greedy finds; LabelSetting starts from it.
std::optional<Placement> greedyPlacement(Evaluator &evaluator);

#define HETERPLAN_STRATEGY(name, cls, help)                                                        \
  struct cls {                                                                                     \
    static llvm::Expected<Solution> run(Evaluator &evaluator, const SearchOptions &options);       \
  };
#include "search/Strategies.def"

} // namespace heterplan
