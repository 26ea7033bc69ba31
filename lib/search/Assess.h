// Evaluates a placement of the user's own and compares it with the best one that a search finds.
#pragma once

#include "search/Search.h"
#include "search/explain/Improve.h"
#include "search/placement/Evaluator.h"

#include <optional>

namespace heterplan {

struct Assessment {
  /// The plan of the placement, devices assigned. Its bound is that of `best`. It keeps the memory
  /// of the devices and the requirements of the request, or a check of it fails.
  Plan plan;
  std::optional<Plan> best; // that the search found
  /// Better than all that the search looked at: its bound is not about this placement.
  bool isOutside = false;
  std::optional<Improvement> change; // the one that helps most
};

/// Assesses `placement` under the request of `problem`, and searches for the best one with
/// `strategy`. Devices that the cluster does not have, more devices than samples, and cuts that
/// part what has to stay together are errors (OutOfRange); what breaks a constraint is priced.
llvm::Expected<Assessment> assess(const Problem &problem, const Placement &placement,
                                  llvm::StringRef strategy, const SearchOptions &options);

} // namespace heterplan
