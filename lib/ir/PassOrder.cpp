#include "ir/PassOrder.h"

#include "ir/StageGraph.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

int forwardPassesAhead(Schedule schedule, int stage, int stages, int microBatches,
                       const ModeRequest &asked) {
  switch (schedule) {
  case Schedule::GPipe:
    return microBatches;
  case Schedule::Burst:
    return 1;
  default:
    return asked.inFlight(stages - stage, microBatches);
  }
}

namespace {
/// Order of the passes of one stage: the forward passes that are ahead, then backward and forward
/// in turn, then the backward passes that are left. Narayanan et al., PipeDream-Flush (ICML 2021);
/// Huang et al., GPipe (NeurIPS 2019).
std::vector<StagePass> orderOfStage(const Plan &plan, int stage) {
  int m = plan.microBatches;
  int ahead =
      forwardPassesAhead(plan.schedule, stage, static_cast<int>(plan.stages.size()), m, plan);
  std::vector<StagePass> order;
  order.reserve(2 * size_t(m));
  for (int i = 0; i < ahead; ++i)
    order.push_back({stage, i, true});
  for (int i = 0; i < m; ++i) {
    order.push_back({stage, i, false});
    if (i + ahead < m)
      order.push_back({stage, i + ahead, true});
  }
  return order;
}

/// The devices run the passes by the times of the plan, each pass on all devices of its stage at
/// once.
class ListScheduling {
public:
  explicit ListScheduling(const Plan &plan)
      : plan(plan), graph(plan.stages), stages(graph.stages()), next(stages), neighbours(stages),
        clocks(stages), ends(size_t(stages) * plan.microBatches * 2, Seconds(-1)) {
    std::map<DeviceRef, std::vector<int>> users;
    for (int stage = 0; stage < stages; ++stage) {
      orders.push_back(orderOfStage(plan, stage));
      for (const Replica &replica : plan.stages[stage].replicas)
        for (const DeviceRef &device : replica.devices)
          users[device].push_back(stage);
    }
    for (const auto &[device, of] : users)
      for (int stage : of)
        neighbours[stage].insert(of.begin(), of.end());
  }

  std::vector<StagePass> run() {
    std::vector<StagePass> result;
    size_t all = size_t(stages) * plan.microBatches * 2;
    result.reserve(all);
    while (result.size() < all) {
      int stage = choose();
      execute(stage);
      result.push_back(orders[stage][next[stage]++]);
    }
    return result;
  }

private:
  Seconds &endOf(const StagePass &pass) {
    return ends[(size_t(pass.stage) * plan.microBatches + pass.microBatch) * 2 + pass.forward];
  }

  /// When what the next pass of `stage` needs is there; negative: not yet.
  Seconds arrival(int stage) {
    StagePass pass = orders[stage][next[stage]];
    Seconds last{};
    for (int index : pass.forward ? graph.into(stage) : graph.outOf(stage)) {
      const StageLink &link = graph.links()[index];
      pass.stage = pass.forward ? link.from : link.to;
      if (endOf(pass) < Seconds(0))
        return Seconds(-1);
      last = std::max(last, endOf(pass));
    }
    return last;
  }

  /// The stage whose next pass comes next; there is one, since no order of a stage waits for a
  /// later pass of itself.
  int choose() {
    int best = -1;
    Seconds first{};
    for (int stage = 0; stage < stages; ++stage) {
      if (next[stage] == orders[stage].size() || arrival(stage) < Seconds(0))
        continue;
      Seconds begin = std::max(clocks[stage], arrival(stage));
      bool backward = !orders[stage][next[stage]].forward;
      bool preferred = best < 0 || begin < first ||
                       (begin == first && (backward || orders[best][next[best]].forward));
      if (preferred) {
        best = stage;
        first = begin;
      }
    }
    assert(best >= 0 && "the passes of a pipeline do not wait in a circle");
    return best;
  }

  void execute(int stage) {
    const StagePass &pass = orders[stage][next[stage]];
    const Stage &of = plan.stages[stage];
    Seconds end =
        std::max(clocks[stage], arrival(stage)) + (pass.forward ? of.forward : of.backward);
    clocks[stage] = end;
    for (int other : neighbours[stage])
      clocks[other] = std::max(clocks[other], end);
    endOf(pass) = end;
  }

  const Plan &plan;
  const StageGraph graph;
  const int stages;
  std::vector<std::vector<StagePass>> orders; // by stage
  std::vector<size_t> next;                   // of each order
  std::vector<std::set<int>> neighbours;      // by stage: those that share a device with it
  std::vector<Seconds> clocks;                // by stage: when all its devices are free
  std::vector<Seconds> ends;                  // by pass; negative: not yet
};
} // namespace

std::vector<StagePass> passOrder(const Plan &plan) { return ListScheduling(plan).run(); }

} // namespace heterplan
