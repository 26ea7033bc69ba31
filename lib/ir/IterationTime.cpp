// The time of a 1F1B pipeline as it runs. The rules are those of the simulator (cost/Simulator.h);
// a property test holds the two together. This one knows nothing of instructions and ranks, so that
// a search can afford it.
#include "ir/Plan.h"

#include <algorithm>
#include <cassert>

using namespace llvm;

namespace heterplan {

namespace {
/// The passes of a pipeline of at least two stages, each as soon as what it waits for is done.
class PipelineRun {
public:
  PipelineRun(const std::vector<Stage> &stages, int microBatches)
      : stages(stages), count(static_cast<int>(stages.size())), microBatches(microBatches),
        forwardEnd(size_t(count) * microBatches), backwardEnd(forwardEnd.size()), done(count),
        clocks(count) {
    Seconds lead{}, slowest{};
    for (const Stage &stage : stages) {
      lead += &stage == &stages.back() ? Seconds() : stage.forward;
      slowest = std::max(slowest, stage.time());
    }
    bottleneck = {lead, slowest};
    for (int stage = 0; stage < count; ++stage)
      clocks[stage].resize(std::max<size_t>(1, stages[stage].replicas.size()));
  }

  Seconds run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < count; ++stage)
        while (step(stage))
          moved = true;
    }
    Seconds end{};
    for (int stage = 0; stage < count; ++stage) {
      assert(done[stage].backward == microBatches && "a 1F1B pipeline does not wait for ever");
      end = std::max(end, latest(stage) + stages[stage].sync);
    }
    return end;
  }

private:
  struct Progress {
    int forward = 0, backward = 0; // passes done; each kind goes in order
  };
  /// min(m, S−s) forward passes, then backward and forward in turn, then the backward passes left.
  bool forwardIsNext(int stage) const {
    int warmUp = std::min(microBatches, count - stage);
    return done[stage].forward < std::min(microBatches, warmUp + done[stage].backward);
  }

  Seconds latest(int stage) const {
    return *std::max_element(clocks[stage].begin(), clocks[stage].end());
  }
  size_t place(int stage, int microBatch) const {
    return size_t(stage) * microBatches + microBatch;
  }

  /// The replicas of a stage with sparse tables meet to exchange rows: before a forward pass,
  /// though not before the last stage may take the micro-batch, and after a backward pass.
  void exchange(int stage, Seconds time, Seconds earliest) {
    const Stage &of = stages[stage];
    if (of.tables.empty() && of.lookup == Seconds() && of.lookupGradient == Seconds())
      return;
    Seconds begin = std::max(latest(stage), earliest);
    for (Seconds &clock : clocks[stage])
      clock = begin + time;
  }

  /// When the schedule lets `stage` take `microBatch` forward.
  Seconds earliestOf(int stage, int microBatch) const {
    return stage == count - 1 ? bottleneck.lead + bottleneck.slowest * double(microBatch)
                              : Seconds();
  }

  /// Each replica of `stage` runs a pass on what arrived at `arrival`.
  void pass(int stage, bool forward, Seconds arrival) {
    const Stage &of = stages[stage];
    for (size_t replica = 0; replica < clocks[stage].size(); ++replica) {
      Seconds &clock = clocks[stage][replica];
      clock = std::max(clock, arrival);
      if (of.replicas.empty())
        clock += forward ? of.forward - of.lookup : of.backward - of.lookupGradient;
      else
        clock += forward ? of.receive + of.replicas[replica].forward
                         : of.receiveGradient + of.replicas[replica].backward;
    }
  }

  /// The next pass of `stage`; false when there is none, or what it waits for is not done.
  bool step(int stage) {
    if (done[stage].backward == microBatches)
      return false;
    bool forward = forwardIsNext(stage);
    int Progress::*kind = forward ? &Progress::forward : &Progress::backward;
    std::vector<Seconds> &ends = forward ? forwardEnd : backwardEnd;
    int microBatch = done[stage].*kind, sender = stage + (forward ? -1 : 1);
    Seconds arrival{};
    if (sender >= 0 && sender < count) {
      if (done[sender].*kind <= microBatch)
        return false;
      arrival = ends[place(sender, microBatch)];
    }
    if (forward) {
      Seconds earliest = earliestOf(stage, microBatch);
      exchange(stage, stages[stage].lookup, earliest);
      pass(stage, forward, std::max(arrival, earliest));
    } else {
      pass(stage, forward, arrival);
      exchange(stage, stages[stage].lookupGradient, Seconds());
    }
    ends[place(stage, microBatch)] = latest(stage);
    ++(done[stage].*kind);
    return true;
  }

  const std::vector<Stage> &stages;
  const int count, microBatches;
  struct {
    Seconds lead, slowest; // the last stage takes micro-batch j at lead + j·slowest at the earliest
  } bottleneck;
  std::vector<Seconds> forwardEnd, backwardEnd; // by stage and micro-batch
  std::vector<Progress> done;                   // by stage
  std::vector<std::vector<Seconds>> clocks;     // by stage and replica
};
} // namespace

Seconds iterationTime(const std::vector<Stage> &stages, int microBatches, Schedule schedule) {
  assert(!sharesDevices(schedule) && "only the simulator tells");
  constexpr double rounding = 1e-9;
  Seconds formula = leastIterationTime(stages, microBatches, schedule);
  bool isExact =
      stages.size() < 3 || microBatches < 2 || schedule != Schedule::OneForwardOneBackward;
  if (isExact)
    return formula;
  Seconds time = PipelineRun(stages, microBatches).run();
  return time > formula * (1 + rounding) ? time : formula;
}

} // namespace heterplan
