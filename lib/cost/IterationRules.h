// How an iteration is timed: what stages take together, which may follow each other, what of their
// transfers is part of them, and how far below the iteration time a formula stays. One class for
// each line of ir/IterationModels.def; nothing else asks which one it is.
#pragma once

#include "cost/Collectives.h"
#include "cost/HeterPs.h"
#include "ir/Plan.h"

#include <memory>
#include <vector>

namespace heterplan {

/// The figures of stages that a lower bound of the iteration time needs, seconds.
struct StageSums {
  double fill = 0;    // Σ τ, transfers included
  double slowest = 0; // max τ
  double exposed = 0; // synchronisation that no backward pass hides
};

class IterationRules {
public:
  virtual ~IterationRules() = default;

  /// Time of an iteration of `stages`, whose figures are filled in, as it runs.
  virtual Seconds iteration(const std::vector<Stage> &stages, int microBatches,
                            Schedule schedule) const = 0;
  /// An iteration takes at least w·(Σ τ + exposed synchronisation) + (m − w)·max τ with this w, 0
  /// or 1, for m micro-batches; that exactly, unless a pipeline of three stages or more waits.
  virtual double fillWeight() const = 0;
  double leastIteration(const StageSums &sums, int microBatches) const {
    double weight = fillWeight();
    return weight * (sums.fill + sums.exposed) + (microBatches - weight) * sums.slowest;
  }
  /// The slowest stage alone decides.
  bool slowestDecides() const { return fillWeight() == 0; }

  /// A stage takes in all of its neighbours on its own type, so that neighbours differ in type.
  virtual bool mergesNeighbours() const = 0;
  /// Whether a stage on `next` may follow one on `group`.
  bool mayFollow(const DeviceGroup &group, const DeviceGroup &next) const {
    return !mergesNeighbours() || group.counts.front().first != next.counts.front().first;
  }
  /// Whether the times of stages include the messages between them.
  virtual bool transfersArePartOfStages() const = 0;
  /// Stages may compute activations again and divide their state.
  virtual bool savesMemory() const = 0;
  /// Stages lie on one pool of devices, each on as many as pay off: search/burst plans them.
  virtual bool stagesShareDevices() const { return false; }
  /// Costs are fitted for any number of devices of one type: sizes of stages are continuous, each
  /// device helps, nodes do not matter, and the number of micro-batches is given.
  virtual bool fitsSizes() const = 0;
  /// The sizes fitted to layers whose cost is `price`, or null.
  virtual std::unique_ptr<const HeterPsModel> fit(const LayerGraph &graph, const Cluster &cluster,
                                                  Samples batch, int microBatches,
                                                  HeterPsModel::Price price) const = 0;
};

const IterationRules &rulesOf(IterationModel model);

} // namespace heterplan
