#include "ir/Timeline.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
/// Clocks and the microseconds of a trace round.
constexpr double tolerance = 1e-9;

bool endsBefore(const TimelineEvent &first, const TimelineEvent &second) {
  double end = first.end.value();
  return end <= second.begin.value() + tolerance * std::max(1.0, std::abs(end));
}

Error refuse(const TimelineEvent &event, const char *reason) {
  return Diagnostic(Diag::InvalidProgram, Location{})
         << "instruction " << event.index << " (" << nameOf(event.op) << ") of rank " << event.rank
         << " " << reason;
}
} // namespace

Error Timeline::verify() const {
  if (!std::isfinite(iteration.value()) || iteration.value() < 0)
    return Diagnostic(Diag::InvalidProgram, Location{}) << "the iteration's time is not a time";
  const TimelineEvent *previous = nullptr;
  const TimelineEvent *last[2] = {}; // pass or update, and sum of gradients, of the rank
  for (const TimelineEvent &event : events) {
    if (event.rank < 0 || event.stage < 0 || event.index < 0)
      return refuse(event, "has a negative rank, stage or index");
    if (!std::isfinite(event.begin.value()) || !std::isfinite(event.end.value()) ||
        event.end < event.begin)
      return refuse(event, "ends before it begins, or its times are not finite");
    if (previous && previous->rank > event.rank)
      return refuse(event, "stands after those of a later rank");
    const TimelineEvent *&before = last[runsBesidePasses(event.op)];
    if (before && before->rank == event.rank && !endsBefore(*before, event))
      return refuse(event, "begins before the one before it has ended");
    previous = before = &event;
  }
  return Error::success();
}

} // namespace heterplan
