// A plan's statements about itself besides its figures: the checks that it passed, and its origin.
#pragma once

#include "search/verify/Checker.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace heterplan {

/// The inputs that statements are compared with.
struct StatementInputs {
  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
  llvm::ArrayRef<Finding> findings;           // of examinePlan()
  llvm::ArrayRef<llvm::StringRef> strategies; // that there are
  llvm::ArrayRef<std::string> profiles;       // fingerprints of those that `costs` has
};

/// The check `statements`: model, cluster and profiles are those that the plan names, its strategy
/// is there, its search space is called as its iteration model and its limits say, a plan without
/// gap is called optimal, its time comes from where it says (none stated is none claimed), and the
/// checks that it states are `findings` (likewise) and hold. Fails only when the cost model does.
llvm::Expected<Finding> checkStatements(const StatementInputs &in);

} // namespace heterplan
