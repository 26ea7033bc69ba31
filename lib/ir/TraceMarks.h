// Marks that a trace shows beside its events: the passes at both ends of a message, and the number
// of samples whose activations a rank holds.
#pragma once

#include "ir/Timeline.h"

#include <string>
#include <vector>

namespace heterplan {

/// A place in a trace: within an event of the part of `stage` of `rank`.
struct TracePoint {
  int stage = 0, rank = 0;
  Seconds time{};
};

/// A message, from an event of its sender to one of its receiver. Both take time, so that viewers
/// find them: the last one up to the sending, the first one from the receiving on.
struct TraceFlow {
  Op op{}; // the receiving
  TracePoint from, to;
};
/// `timeline` is one of `program`; messages between events that take no time are left out. In the
/// order of the receivers.
std::vector<TraceFlow> flowsOf(const Program &program, const Timeline &timeline);

/// From `at` on the part holds the activations of so many samples for their backward pass.
struct HeldActivations {
  TracePoint at;
  int64_t samples = 0;
};
/// By rank and time: more when a forward pass begins, fewer when a backward pass ends.
std::vector<HeldActivations> heldActivations(const Program &program, const Timeline &timeline);

} // namespace heterplan
