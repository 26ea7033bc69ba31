// Executes a Program by its instruction durations, to the Timeline that the plan predicts. The
// runtime interprets the same instructions, so both timelines overlay.
//
// Two rules make it the model that plans are priced with (iterationTime() in ir/Plan.h):
// - A boundary is a barrier: a transfer begins when the last replica of all stages that the
//   receiver follows has finished its pass of that micro-batch and the receiver is ready, and
//   occupies the receiver.
// - The last stage is held back: it takes micro-batch j no earlier than it arrives when the slowest
//   stage sets the rate. An eager start may hide a part of the drain; plans do not count on it.
// - Sums of gradients at the end of a stage run beside what the ranks do next, one after another on
//   each rank; its first update waits for all of them.
// - If transfers overlap, the messages over a boundary run beside the passes, one after another in
//   the 1F1B order of a stage between the two (withTransfersApart() in ir/Plan.h). The receipt of
//   one is an instant of the timeline: when the receiver takes it.
// If a device may run several stages, the second rule does not hold: there a rank executes its
// instructions in order, each as soon as its inputs are there, and this is the predicted time.
#pragma once

#include "ir/Timeline.h"

#include "llvm/Support/Error.h"

namespace heterplan {

struct Simulation {
  Timeline timeline;
  /// Iteration time without holding the last stage back; never more than timeline.iteration.
  Seconds eager{};
};

/// Simulates one iteration. Fails as Program::verify() does. For 1F1B micro-batch j enters the last
/// stage at Σ_{s<S} forward_s + j·max τ_s at the earliest, where S is the last stage; for GPipe its
/// backward pass begins there at Σ forward_s + (m−1)·max forward_s + j·max backward_s at the
/// earliest. Stage times are taken from the durations of the instructions. See
/// docs/rationale/simulator.md for when the result equals iterationTime().
llvm::Expected<Simulation> simulate(const Program &program);

} // namespace heterplan
