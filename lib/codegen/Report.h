// report.html: what was decided, why it holds and what is predicted, in one self-contained page.
#pragma once

#include "codegen/ParetoPlans.h"
#include "ir/AlternativePlan.h"
#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "ir/PlanLimits.h"
#include "ir/Program.h"
#include "ir/Timeline.h"

#include <string>

namespace heterplan {

/// Optional inputs of a report beside the plan; each may be null.
struct ReportInputs {
  const LayerGraph *model = nullptr;                 // the picture of the layers
  const Cluster *cluster = nullptr;                  // memory of the devices against its limit
  const Program *program = nullptr;                  // every rank
  llvm::ArrayRef<AlternativePlan> alternatives = {}; // the best first
  const PlanLimits *limits = nullptr;                // the constraint that is closest
};

/// A page of HTML with inline styles and inline SVG; no scripts, nothing from outside. Every
/// name is escaped. `timeline` may be empty; then there is no chart of it. With a Pareto front of
/// several plans it has a chart and a table of that.
std::string emitReport(const Plan &plan, const Timeline &timeline, const ParetoPlans &front = {},
                       const ReportInputs &inputs = {});

} // namespace heterplan
