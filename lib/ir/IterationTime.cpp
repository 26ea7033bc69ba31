// The time of a 1F1B pipeline as it runs. The rules are those of the simulator (cost/Simulator.h);
// a property test holds the two together. This one knows nothing of instructions and ranks, so that
// a search can afford it.
#include "ir/Plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
/// The passes of a pipeline of at least two stages, each as soon as what it waits for is done.
/// Stage s of S begins with ahead(s) = min(m, S−s) forward passes. Then the pipeline goes in turns:
/// in turn k each stage, the last one first, does backward pass k and forward pass k + ahead(s),
/// where there is one. Everything that a turn needs was done in it or in the one before. If a turn
/// moves all times by the bottleneck, all later turns do the same and need not be executed.
class PipelineRun {
public:
  PipelineRun(const std::vector<Stage> &stages, int microBatches, bool holdsLastStage)
      : stages(stages), count(static_cast<int>(stages.size())), microBatches(microBatches),
        holdsLastStage(holdsLastStage), backwardEnds(count) {
    for (const Stage &stage : stages) {
      lead += &stage == &stages.back() ? Seconds() : stage.forward;
      slowest = std::max(slowest, stage.time());
      firstClock.push_back(firstClock.back() + std::max<size_t>(1, stage.replicas.size()));
    }
    times.resize(firstClock.back() + stages.size());
  }

  Seconds run() {
    warmUp();
    for (int turn = 0; turn < microBatches; ++turn) {
      before = times;
      for (int stage = count; stage-- > 0;) {
        backward(stage);
        if (turn + ahead(stage) < microBatches)
          forward(stage, stage > 0 ? forwardEnd(stage - 1) : Seconds());
      }
      int alike = microBatches - ahead(0) - turn - 1; // turns after this one
      if (alike > 0 && isSteady()) {
        skip(alike);
        turn += alike;
      }
    }
    Seconds end{};
    for (int stage = 0; stage < count; ++stage)
      end = std::max(end, latest(stage) + stages[stage].sync);
    return end;
  }

private:
  int ahead(int stage) const { return std::min(microBatches, count - stage); }
  /// The end of the last forward pass that the stage has done.
  Seconds &forwardEnd(int stage) { return times[firstClock.back() + stage]; }
  MutableArrayRef<Seconds> clocks(int stage) {
    return MutableArrayRef<Seconds>(times).slice(firstClock[stage],
                                                 firstClock[stage + 1] - firstClock[stage]);
  }
  Seconds latest(int stage) {
    return *std::max_element(clocks(stage).begin(), clocks(stage).end());
  }

  void warmUp() {
    std::vector<Seconds> ends(ahead(0)); // by micro-batch, of the stage before
    for (int stage = 0; stage < count; ++stage)
      for (int microBatch = 0; microBatch < ahead(stage); ++microBatch) {
        forward(stage, ends[microBatch]);
        ends[microBatch] = forwardEnd(stage);
      }
  }

  bool isSteady() const {
    constexpr double rounding = 1e-13;
    for (size_t i = 0; i < times.size(); ++i)
      if (std::abs((times[i] - before[i] - slowest).value()) > rounding * times[i].value())
        return false;
    return true;
  }

  void skip(int turns) {
    for (Seconds &time : times)
      time += slowest * double(turns);
    taken += turns;
  }

  static bool exchangesRows(const Stage &of) {
    return !of.tables.empty() || of.lookup > Seconds() || of.lookupGradient > Seconds();
  }

  /// All replicas of a stage, for what takes `time` from `earliest` on.
  void meet(int stage, Seconds time, Seconds earliest = Seconds()) {
    Seconds begin = std::max(latest(stage), earliest);
    for (Seconds &clock : clocks(stage))
      clock = begin + time;
  }

  /// Each replica of `stage` runs a pass on what arrived at `arrival`.
  void pass(int stage, bool forward, Seconds arrival) {
    const Stage &of = stages[stage];
    MutableArrayRef<Seconds> own = clocks(stage);
    for (size_t replica = 0; replica < own.size(); ++replica) {
      Seconds &clock = own[replica];
      clock = std::max(clock, arrival);
      if (of.replicas.empty())
        clock +=
            forward ? of.forward - of.lookup : of.backward - of.lookupGradient - of.reduceScatter;
      else
        clock += forward ? of.receive + of.replicas[replica].forward
                         : of.receiveGradient + of.replicas[replica].backward - of.reduceScatter;
    }
  }

  /// The next forward pass. If the last stage is held back, it takes micro-batch j at lead +
  /// j·slowest at the earliest.
  void forward(int stage, Seconds arrival) {
    bool waits = holdsLastStage && stage == count - 1;
    Seconds earliest = waits ? lead + slowest * double(taken++) : Seconds();
    if (exchangesRows(stages[stage])) // what they are does not depend on what arrives
      meet(stage, stages[stage].lookup, earliest);
    pass(stage, true, std::max(arrival, earliest));
    forwardEnd(stage) = latest(stage);
  }

  /// The next backward pass, which the stage behind has just done. Gradients that are divided are
  /// summed, rows of sparse tables go where they belong.
  void backward(int stage) {
    const Stage &of = stages[stage];
    pass(stage, false, stage + 1 < count ? backwardEnds[stage + 1] : Seconds());
    if (of.sharding.scattersGradients())
      meet(stage, of.reduceScatter);
    if (exchangesRows(of))
      meet(stage, of.lookupGradient);
    backwardEnds[stage] = latest(stage);
  }

  const std::vector<Stage> &stages;
  const int count, microBatches;
  const bool holdsLastStage;
  Seconds lead{}, slowest{};
  int taken = 0; // micro-batches that the last stage has begun
  std::vector<size_t> firstClock{0};
  std::vector<Seconds> times;        // clocks by stage and replica, then forwardEnd() by stage
  std::vector<Seconds> before;       // the same before the turn in hand
  std::vector<Seconds> backwardEnds; // by stage, of the turn in hand
};
} // namespace

std::vector<Stage> withTransfersApart(const std::vector<Stage> &stages) {
  std::vector<Stage> apart;
  apart.reserve(2 * stages.size());
  for (const Stage &stage : stages) {
    if (!apart.empty()) {
      Stage transfers;
      transfers.forward = stage.receive;
      transfers.backward = (&stage - 1)->receiveGradient;
      apart.push_back(std::move(transfers));
    }
    Stage &own = apart.emplace_back(stage);
    own.forward -= stage.receive;
    own.backward -= stage.receiveGradient;
    own.receive = own.receiveGradient = Seconds();
  }
  return apart;
}

Seconds iterationTime(const std::vector<Stage> &stages, int microBatches, Schedule schedule) {
  assert(!sharesDevices(schedule) && "only the simulator tells");
  constexpr double rounding = 1e-9;
  Seconds formula = leastIterationTime(stages, microBatches, schedule);
  bool isExact =
      stages.size() < 3 || microBatches < 2 || schedule != Schedule::OneForwardOneBackward;
  if (isExact)
    return formula;
  Seconds time = PipelineRun(stages, microBatches, /*holdsLastStage=*/true).run();
  return time > formula * (1 + rounding) ? time : formula;
}

Seconds expectedTime(const std::vector<Stage> &stages, int microBatches) {
  if (stages.size() < 2)
    return leastIterationTime(stages, microBatches, Schedule::DataParallel);
  Seconds time = PipelineRun(stages, microBatches, /*holdsLastStage=*/false).run();
  return std::min(time, iterationTime(stages, microBatches, Schedule::OneForwardOneBackward));
}

} // namespace heterplan
