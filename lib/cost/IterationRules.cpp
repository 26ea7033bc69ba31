#include "cost/IterationRules.h"

#include <algorithm>

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

/// Stages one after another on nested sets of devices of one pool; the sums of their gradients, one
/// after another as well, run beside the backward passes of the stages before (DeepPool, Park et
/// al., arXiv 2112.10065, section 4).
class StagesInTurn : public Synchronous1F1B {
public:
  Seconds iteration(const std::vector<Stage> &stages, int microBatches, Schedule) const override {
    Seconds passes{}, updates{}, sums{}; // the last: still open behind the passes
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
      passes += stage->time();
      updates += stage->update;
      sums = std::max(Seconds(), sums - stage->backward) + stage->sync - stage->update;
    }
    return passes * double(microBatches) + sums + updates;
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
