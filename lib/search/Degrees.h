// The best plan of several degrees of tensor parallelism, for each of which a search of its own is
// made. The proofs of the answer are about all of them.
#pragma once

#include "search/Search.h"

#include "llvm/ADT/STLExtras.h"

namespace heterplan {

struct BestDegree {
  size_t index = 0; // of the degree that `outcome` is of
  /// If there is a plan, its bound, gap and optimality are about the plans of all degrees. If there
  /// is none, `termination` is Infeasible only if the searches of all degrees have proven it.
  SearchOutcome outcome;
};

/// Searches with a degree until a deadline, for a plan that beats `toBeat` if there is such a value
/// (SearchOptions::toBeat). Returns nothing if there are no plans of the degree, as where no node
/// has enough devices.
using DegreeSearch = llvm::function_ref<llvm::Expected<std::optional<SearchOutcome>>(
    size_t degree, const Deadline &deadline, std::optional<double> toBeat)>;

/// Searches with `degrees` degrees, one after another, and shares the time until `deadline` evenly
/// among those that are left. `stop`, which may be null, ends the searches; what was not searched
/// is not proven. Fails as `search` does, which must return an outcome for one degree at least.
llvm::Expected<BestDegree> bestOfDegrees(size_t degrees, Objective objective,
                                         const Deadline &deadline, const std::atomic<bool> *stop,
                                         DegreeSearch search);

} // namespace heterplan
