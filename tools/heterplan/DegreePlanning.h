// Plans with several degrees of tensor parallelism: a search for each degree.
#pragma once

#include "PlanningInputs.h"

#include "search/Orders.h"

#include <atomic>
#include <vector>

namespace heterplan {

/// A degree that stands for all those of a layers file, one for each stage.
constexpr int anyDegree = 0;

/// The best plan of several degrees, if there is one, with the inputs of its degree and the options
/// that state it.
struct DegreePlan {
  CompileOptions options;
  PlanningInputs inputs;
  SearchOutcome outcome;
};

/// Plans with each of `degrees`. The first one, which may be `anyDegree`, must work. A model or a
/// cluster may have no other, which a note states. `order` is that of plans of degree 1, as other
/// plans keep the given order. `stop` ends the searches. Fails as planningInputsOf() and search()
/// do.
llvm::Expected<DegreePlan> planDegrees(const CompileOptions &options, PlanningSources sources,
                                       const std::vector<int> &degrees, OrderChoice order,
                                       const std::atomic<bool> &stop);

} // namespace heterplan
