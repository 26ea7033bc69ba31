// What explain() asks for a proof, as `heterplan compile` answers it.
#pragma once

#include "search/SearchSpace.h"
#include "search/verify/LayoutProof.h"
#include "search/verify/NecessaryClash.h"

namespace heterplan::test {

inline WishedPlan wishedPlan(const Problem &problem) {
  const Request &request = problem.request;
  auto schedule = request.schedule == ScheduleChoice::Auto           ? WishedSchedule::Any
                  : request.schedule == ScheduleChoice::DataParallel ? WishedSchedule::OneStage
                                                                     : WishedSchedule::Pipeline;
  return {problem.graph,
          problem.cluster,
          *problem.costs,
          request.globalBatch,
          request.optimizer,
          request.pricing,
          steadyMicroBatches(problem),
          request.minThroughput,
          request.maxCostPerHour,
          schedule,
          request.microBatches,
          request.pins,
          request.colocations,
          request.separations,
          request.ignoreMemory};
}

inline llvm::Expected<std::optional<std::vector<std::string>>> proveClash(const Problem &problem) {
  WishedPlan wished = wishedPlan(problem);
  auto clash = necessaryClash(wished);
  return clash && !*clash ? onlyLayoutClash(wished) : std::move(clash);
}

} // namespace heterplan::test
