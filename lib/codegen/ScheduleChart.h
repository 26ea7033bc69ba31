// The charts of a schedule of jobs, over slots.
#pragma once

#include "codegen/ScheduleReport.h"

namespace heterplan {

/// An SVG element: a row for each admitted job, a box for each stretch of equal workers, the darker
/// the more workers of those it has at most. "" where no job is admitted.
std::string emitJobsChart(const ScheduleFigures &figures);
/// A chart of the fraction of each resource that is used in each slot.
std::string emitUseChart(const ScheduleFigures &figures);

} // namespace heterplan
