// The least value of a constraint that has degrees for which there is a plan.
#pragma once

#include "search/Search.h"

#include "llvm/ADT/STLExtras.h"

namespace heterplan {

/// Closes in on the least value for which there is a plan. `withValue` makes the problem for a
/// value; `needOf` says which value a plan needs, at most the one that it was found for.
struct Bisection {
  llvm::function_ref<Problem(double)> withValue;
  llvm::function_ref<double(const Plan &)> needOf;
  llvm::function_ref<llvm::Expected<SearchOutcome>(const Problem &)> solve;

  struct Result {
    double least;
    bool proven; // that nothing below (1 − resolution)·least helps
  };
  /// There is a plan at `high` and none at `low`.
  llvm::Expected<Result> run(double low, double high, double resolution);
};

} // namespace heterplan
