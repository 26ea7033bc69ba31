#include "search/verify/ScheduledTime.h"

#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
enum class Direction { Forward, Backward };
/// A pass of one micro-batch through one stage.
struct Pass {
  int stage, microBatch;
  Direction direction;
  auto operator<=>(const Pass &) const = default;
};

/// The passes of stage `stage` of `stages`, in order.
std::vector<Pass> orderOf(int stage, int stages, int microBatches) {
  std::vector<Pass> order;
  int ahead = std::min(microBatches, stages - stage); // forward passes before a backward pass
  for (int turn = 0; turn < microBatches + ahead; ++turn) {
    if (turn >= ahead)
      order.push_back({stage, turn - ahead, Direction::Backward});
    if (turn < microBatches)
      order.push_back({stage, turn, Direction::Forward});
  }
  return order;
}

/// A replica's own part of the passes, without sums; equal ones need no second look.
using Durations = std::pair<Seconds, Seconds>;

std::vector<Durations> durationsOf(const ReevaluatedStage &stage) {
  std::set<Durations> distinct;
  for (const ReevaluatedReplica &replica : stage.replicas)
    distinct.insert({stage.receive + replica.forward,
                     stage.receiveGradient + replica.backward - stage.reduceScatter});
  return {distinct.begin(), distinct.end()};
}

class Execution {
public:
  Execution(const std::vector<ReevaluatedStage> &stages, int microBatches, bool holdsLastStage)
      : stages(stages), microBatches(microBatches), holdsLastStage(holdsLastStage) {
    int count = int(stages.size());
    for (int s = 0; s < count; ++s) {
      orders.push_back(orderOf(s, count, microBatches));
      durations.push_back(durationsOf(stages[s]));
      clocks.emplace_back(durations.back().size());
      if (s + 1 < count)
        lead += stages[s].forward;
      period = std::max(period, stages[s].forward + stages[s].backward);
    }
  }

  Seconds run() {
    std::vector<size_t> next(stages.size());
    for (size_t left = stages.size() * size_t(microBatches) * 2; left > 0;)
      for (size_t s = 0; s < stages.size(); ++s)
        while (next[s] < orders[s].size() && execute(orders[s][next[s]])) {
          ++next[s];
          --left;
        }
    Seconds end{};
    for (size_t s = 0; s < stages.size(); ++s)
      end = std::max(end, lastOf(s) + stages[s].sync);
    return end;
  }

private:
  Seconds lastOf(size_t stage) const {
    return *std::max_element(clocks[stage].begin(), clocks[stage].end());
  }

  /// Replicas of a stage wait for each other and go on together.
  void meet(int stage, Seconds time, Seconds earliest = Seconds()) {
    Seconds begin = std::max(lastOf(size_t(stage)), earliest);
    for (Seconds &clock : clocks[stage])
      clock = begin + time;
  }

  /// False where what the pass needs is not there yet.
  bool execute(const Pass &pass) {
    bool forward = pass.direction == Direction::Forward;
    int from = forward ? pass.stage - 1 : pass.stage + 1, last = int(stages.size()) - 1;
    Seconds earliest{};
    if (from >= 0 && from <= last) {
      auto needed = ends.find({from, pass.microBatch, pass.direction});
      if (needed == ends.end())
        return false;
      earliest = needed->second;
    }
    Seconds held{};
    if (holdsLastStage && forward && pass.stage == last)
      held = lead + period * double(pass.microBatch);
    earliest = std::max(earliest, held);
    const ReevaluatedStage &stage = stages[pass.stage];
    const bool exchanges = stage.lookups.bytes > Bytes(0); // rows of sparse tables
    if (forward && exchanges) // the last stage asks for no rows before it may begin
      meet(pass.stage, stage.lookup, held);
    for (size_t r = 0; r < durations[pass.stage].size(); ++r) {
      Seconds duration = forward ? durations[pass.stage][r].first : durations[pass.stage][r].second;
      Seconds &clock = clocks[pass.stage][r];
      clock = std::max(clock, earliest) + duration;
    }
    if (!forward && stage.scattersGradients)
      meet(pass.stage, stage.reduceScatter);
    if (!forward && exchanges)
      meet(pass.stage, stage.lookupGradient);
    ends[pass] = lastOf(size_t(pass.stage));
    return true;
  }

  const std::vector<ReevaluatedStage> &stages;
  const int microBatches;
  const bool holdsLastStage;
  Seconds lead{}, period{};
  std::vector<std::vector<Pass>> orders;
  std::vector<std::vector<Durations>> durations;
  std::vector<std::vector<Seconds>> clocks; // by stage and distinct replica
  std::map<Pass, Seconds> ends;
};

/// The stages, each of which only computes, and between two of them the wire, which carries the
/// activations and the gradients of each micro-batch, one message at a time.
std::vector<ReevaluatedStage> withWires(std::vector<ReevaluatedStage> stages) {
  std::vector<ReevaluatedStage> result;
  Seconds returning{}; // gradients over the wire in hand
  for (ReevaluatedStage &stage : stages) {
    if (!result.empty()) {
      ReevaluatedStage wire;
      wire.forward = stage.receive;
      wire.backward = returning;
      wire.replicas.emplace_back();
      wire.replicas.back().forward = wire.forward;
      wire.replicas.back().backward = wire.backward;
      result.push_back(std::move(wire));
    }
    returning = stage.receiveGradient;
    stage.forward -= stage.receive;
    stage.backward -= stage.receiveGradient;
    stage.receive = stage.receiveGradient = Seconds();
    result.push_back(std::move(stage));
  }
  return result;
}
} // namespace

Seconds scheduledTime(const std::vector<ReevaluatedStage> &stages, int microBatches,
                      bool holdsLastStage, bool overlapsTransfers) {
  if (!overlapsTransfers)
    return Execution(stages, microBatches, holdsLastStage).run();
  const std::vector<ReevaluatedStage> wired = withWires(stages);
  return Execution(wired, microBatches, holdsLastStage).run();
}

} // namespace heterplan
