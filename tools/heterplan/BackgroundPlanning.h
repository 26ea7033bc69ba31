// The background job of `heterplan compile --background`: read, planned for one device, and packed
// into the idle gaps of the plan.
#pragma once

#include "PlanningInputs.h"

#include "ir/Program.h"
#include "ir/Timeline.h"

#include <optional>

namespace heterplan {

/// A copy of the job on one device; `operators` where the model came from ONNX.
struct PlannedCopy {
  std::shared_ptr<Graph> operators;
  LayerGraph layers;
  Plan plan;
  Program program;
  Timeline timeline;
};

/// Adds to `plan`, a burst plan, the background job that `options` name, and returns the plan of a
/// copy; none where they name none, or where no device has room for one. Fails as the readers of
/// models and profiles do, and where the job cannot be planned.
llvm::Expected<std::optional<PlannedCopy>> addBackground(Plan &plan, const PlanningInputs &inputs,
                                                         const CompileOptions &options);

} // namespace heterplan
