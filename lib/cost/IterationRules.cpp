#include "cost/IterationRules.h"

#include "ir/StageGraph.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
/// One iteration after another, with a flush between them.
class Synchronous1F1B : public IterationRules {
public:
  Seconds iteration(const std::vector<Stage> &stages, int microBatches,
                    Schedule schedule) const override {
    return iterationTime(stages, microBatches, schedule);
  }
  double fillWeight() const override { return 1; }
  bool mergesNeighbours() const override { return false; }
  bool transfersArePartOfStages() const override { return false; }
  bool savesMemory() const override { return true; }
  bool fitsSizes() const override { return false; }
  std::unique_ptr<const HeterPsModel> fit(const LayerGraph &, const Cluster &, Samples, int,
                                          HeterPsModel::Price) const override {
    return nullptr;
  }
};

/// One iteration of stages on a pool: passes by what stages follow, then per device its sums and
/// its updates.
class PoolRun {
public:
  PoolRun(const std::vector<Stage> &stages, int microBatches)
      : stages(stages), graph(stages), microBatches(microBatches), forwards(stages.size()),
        backwards(stages.size()) {}

  Seconds run() {
    for (int s = 0; s < graph.stages(); ++s)
      forwards[s] = latest(graph.into(s), forwards, &StageLink::from) + stages[s].forward;
    for (int s = graph.stages(); s-- > 0;) {
      Seconds begin =
          graph.outOf(s).empty() ? forwards[s] : latest(graph.outOf(s), backwards, &StageLink::to);
      backwards[s] = begin + stages[s].backward;
    }
    Seconds batch = *std::max_element(backwards.begin(), backwards.end());
    for (Seconds &end : backwards)
      end += batch * double(microBatches - 1);
    for (int s = graph.stages(); s-- > 0;)
      sum(s);
    Seconds end{};
    for (const auto &[device, clock] : clocks)
      end = std::max(end, clock.free + clock.updates);
    return end;
  }

private:
  struct Clock {
    Seconds free{}, updates{}; // when its sums and passes so far are done, and what comes behind
  };

  Seconds latest(const std::vector<int> &links, const std::vector<Seconds> &ends,
                 int StageLink::*side) const {
    Seconds result{};
    for (int link : links)
      result = std::max(result, ends[graph.links()[link].*side]);
    return result;
  }

  /// Synchronises the gradients of a stage after its devices have synchronised those of later
  /// stages.
  void sum(int stage) {
    std::vector<Clock *> members;
    for (const Replica &replica : stages[stage].replicas)
      for (const DeviceRef &device : replica.devices)
        members.push_back(&clocks[device]);
    Seconds begin = backwards[stage];
    for (const Clock *member : members)
      begin = std::max(begin, member->free);
    for (Clock *member : members) {
      member->free = begin + stages[stage].sync - stages[stage].update;
      member->updates += stages[stage].update;
    }
  }

  const std::vector<Stage> &stages;
  const StageGraph graph;
  const int microBatches;
  std::vector<Seconds> forwards, backwards; // ends, by stage
  std::map<DeviceRef, Clock> clocks;
};

/// Stages on sets of devices of one pool, each once those that it follows are done; the sums of
/// their gradients, one after another on each device, run beside the backward passes that come next
/// (DeepPool, Park et al., arXiv 2112.10065, section 4).
class StagesInTurn : public Synchronous1F1B {
public:
  Seconds iteration(const std::vector<Stage> &stages, int microBatches, Schedule) const override {
    return PoolRun(stages, microBatches).run();
  }
  bool savesMemory() const override { return false; }
  bool stagesShareDevices() const override { return true; }
};

/// The time between two iterations of a pipeline that never drains (HeterPS, section 4: throughput
/// = min_i B/ET_i).
class SteadyPipeline : public IterationRules {
public:
  Seconds iteration(const std::vector<Stage> &stages, int microBatches, Schedule) const override {
    Seconds slowest{};
    for (const Stage &stage : stages)
      slowest = std::max(slowest, stage.time());
    return slowest * double(microBatches);
  }
  double fillWeight() const override { return 0; }
  bool mergesNeighbours() const override { return true; }
  bool transfersArePartOfStages() const override { return true; }
  bool savesMemory() const override { return false; }
  bool fitsSizes() const override { return true; }
  std::unique_ptr<const HeterPsModel> fit(const LayerGraph &graph, const Cluster &cluster,
                                          Samples batch, int microBatches,
                                          HeterPsModel::Price price) const override {
    return std::make_unique<const HeterPsModel>(graph, cluster, batch, microBatches, price);
  }
};
} // namespace

const IterationRules &rulesOf(IterationModel model) {
#define HETERPLAN_ITERATION_MODEL(enumerator, name, cls, help) static const cls rulesOf##enumerator;
#include "ir/IterationModels.def"
  static const IterationRules *const rules[] = {
#define HETERPLAN_ITERATION_MODEL(enumerator, name, cls, help) &rulesOf##enumerator,
#include "ir/IterationModels.def"
  };
  return *rules[static_cast<size_t>(model)];
}

} // namespace heterplan
