// The proof that explain() asks for, as `heterplan compile` answers it.
#pragma once

#include "search/problem/MicroBatchCounts.h"
#include "search/verify/AssignmentProof.h"

namespace heterplan::test {

inline RequestedPlan requestedPlan(const Problem &problem) {
  return {problem.graph, problem.cluster, *problem.costs, problem.request,
          steadyMicroBatches(problem)};
}

inline llvm::Expected<std::optional<std::vector<std::string>>>
proveConflict(const Problem &problem) {
  return provenConflict(requestedPlan(problem));
}

} // namespace heterplan::test
