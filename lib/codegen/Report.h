// report.html: what was decided, why it holds and what is predicted, in one self-contained page.
#pragma once

#include "codegen/ParetoPlans.h"
#include "ir/Plan.h"
#include "ir/Timeline.h"

#include <string>

namespace heterplan {

/// A page of HTML with inline styles and one inline SVG; no scripts, nothing from outside. Every
/// name is escaped. `timeline` may be empty; then there is no chart of it. With a Pareto front of
/// several plans it has a chart and a table of that.
std::string emitReport(const Plan &plan, const Timeline &timeline, const ParetoPlans &front = {});

} // namespace heterplan
