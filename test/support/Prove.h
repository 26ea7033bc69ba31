// What explain() asks for a proof, as `heterplan compile` answers it.
#pragma once

#include "search/problem/SearchSpace.h"
#include "search/verify/LayoutProof.h"

namespace heterplan::test {

inline WishedPlan wishedPlan(const Problem &problem) {
  return {problem.graph, problem.cluster, *problem.costs, problem.request,
          steadyMicroBatches(problem)};
}

inline llvm::Expected<std::optional<std::vector<std::string>>> proveClash(const Problem &problem) {
  return provenClash(wishedPlan(problem));
}

} // namespace heterplan::test
