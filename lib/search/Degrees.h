// The best plan of several degrees of tensor parallelism, for each of which a search of its own is
// made. The proofs of the answer are about all of them.
#pragma once

#include "search/Search.h"

#include "llvm/ADT/STLExtras.h"

namespace heterplan {

struct BestDegree {
  size_t index = 0; // of the degree that `outcome` is of
  /// If there is a plan, its bound and gap are about the plans of all degrees that were searched.
  /// It is called optimal only if all were. If there is no plan, `termination` is Infeasible only
  /// if the searches of all degrees have proven it.
  SearchOutcome outcome;
  std::vector<size_t> unsearched{}; // because of an interruption, ascending
};

/// The limits of a search with a degree: SearchOptions of the same names.
struct DegreeEffort {
  Deadline deadline;
  std::optional<double> toBeat;
  bool firstLook = false;
  int threads = 1;
};
/// Searches with a degree, each degree on one thread at a time. Returns nothing if there are no
/// plans of the degree, as where no node has enough devices.
using DegreeSearch = llvm::function_ref<llvm::Expected<std::optional<SearchOutcome>>(
    size_t degree, const DegreeEffort &effort)>;

/// The limits that all searches of bestOfDegrees() share.
struct DegreeLimits {
  Objective objective;
  Deadline deadline;
  const std::atomic<bool> *stop = nullptr; // ends the searches; may be null
  int threads = 1;                         // the result does not depend on it
};

/// Searches with `degrees` degrees. After a first look at each, that with the best plan so far
/// comes first. The others only have to prove that they have no better plan, side by side.
/// `firstIsWhole`: the first degree is searched before all others, without a first look. Fails as
/// `search` does, which must return an outcome for one degree at least.
llvm::Expected<BestDegree> bestOfDegrees(size_t degrees, bool firstIsWhole,
                                         const DegreeLimits &limits, DegreeSearch search);

} // namespace heterplan
