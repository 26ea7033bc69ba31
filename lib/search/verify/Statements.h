// What a plan says about itself besides its figures: the checks that it passed, and what made it.
#pragma once

#include "search/verify/Checker.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace heterplan {

/// The check `statements`: model and cluster have the names that `plan` says, its strategy is one
/// of `strategies`, and the checks that it states are `findings` (none stated is none claimed) and
/// hold.
Finding checkStatements(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                        llvm::ArrayRef<Finding> findings,
                        llvm::ArrayRef<llvm::StringRef> strategies);

} // namespace heterplan
