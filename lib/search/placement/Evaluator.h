// The time, the cost and the memory of a placement. Strategies propose placements and the Evaluator
// evaluates them, by the model that ir/Plan.h states.
#pragma once

#include "search/placement/NodePacking.h"
#include "search/placement/StageEvaluator.h"

#include <array>
#include <map>
#include <optional>
#include <vector>

namespace heterplan {

struct PlacedStage {
  int begin = 0, end = 0; // layers
  DeviceGroup group;
  /// Stated by somebody: of a full micro-batch, by type of the group, largest first. Empty: those
  /// that take least.
  std::vector<std::vector<int64_t>> shares = {};
  /// How the devices run the stage; none: in the mode that adds least to an iteration by itself.
  std::optional<ExecutionMode> mode = std::nullopt;
  LayerRange layers() const { return {begin, end}; }
  /// Leaves shares and mode to the evaluator, since the layers or the devices have changed.
  void decideAnew() {
    shares.clear();
    mode.reset();
  }
  bool operator==(const PlacedStage &) const = default;
};

/// The decisions of a strategy. Stages in order of the layers, covering all of them.
struct Placement {
  std::vector<PlacedStage> stages;
  int microBatches = 1;
  bool operator==(const Placement &) const = default;
};

struct Evaluation {
  std::vector<Stage> stages;         // figures filled in; devices not yet
  std::vector<StageEvaluation> runs; // how each stage runs, without its neighbours
  Seconds iteration{};
  Dollars traffic{};      // of an iteration: what leaves zones
  DollarsPerHour price{}; // of devices and traffic
  /// Larger is never better: seconds of an iteration, or dollars per 10^6 samples.
  double objective = 0;
};

/// Evaluation::objective of a figure in the units of Plan::objectiveValue.
double objectiveOf(const Request &request, double value);

/// `placement` with the execution mode of each stage stated as `evaluation` has it.
Placement withModes(Placement placement, const Evaluation &evaluation);

/// One behind the last of the stages of `placement` that lie in one node with stage `begin`, the
/// first of these.
size_t endOfChain(const Placement &placement, size_t begin);
/// `placement` with its stage `index` and the next one in one node, or not.
void setBeside(Placement &placement, size_t index, bool areBeside);
/// `placement` with no neighbours in one node.
Placement apart(Placement placement);

/// `few`, the cuts of `placement`, and of `all` those some steps from these.
std::vector<int> cutsNear(const Placement &placement, llvm::ArrayRef<int> few,
                          llvm::ArrayRef<int> all);

/// Which placements are measured: those of the search space, or others too, which may be cut
/// anywhere.
/// Assigned: of all those whose devices are known to suffice.
enum class Among { SearchSpace, All, Assigned };

class Evaluator {
public:
  /// `cuts`: of the space; where none are given, `narrowCuts`.
  explicit Evaluator(const Problem &problem, std::vector<int> cuts = {});

  const Problem &problem;
  const SearchSpace space;
  const IterationRules &rules;
  StageEvaluator stages;
  const std::vector<Cut> &cuts;

  /// From a stage to the next one. Cached for groups of one type.
  TransferPath pathBetween(const DeviceGroup &before, const DeviceGroup &behind);

  /// Figures of a placement whatever its time and cost; none when devices, memory or pins do
  /// not allow it.
  std::optional<Evaluation> measure(const Placement &placement, Among among = Among::SearchSpace);
  /// None when it breaks a constraint: devices, memory, pins, or a limit on time or money.
  std::optional<Evaluation> evaluate(const Placement &placement);
  /// `placement` with neighbours in one node wherever that saves time and finds room, decided from
  /// the front on.
  Placement shareNodes(Placement placement);
  /// `placement` with the simplest execution mode of each stage with which the objective is the
  /// same, up to rounding.
  Placement simplifyModes(Placement placement);
  /// Keeps stages of several types together in one node.
  Placement keepTogether(Placement placement);
  /// Objective of a time and price, in the units of Evaluation::objective.
  double objectiveOf(Seconds iteration, DollarsPerHour price) const;
  /// Whether the limits on time and money hold (relative tolerance 1e-9).
  bool meetsLimits(Seconds iteration, DollarsPerHour price) const;

  /// The first failure of the cost model, if any.
  llvm::Error takeError() { return stages.costs.times.takeError(); }

private:
  bool devicesSuffice(const Placement &placement);
  bool inSpace(const Placement &placement) const;
  bool neighboursAllowed(const Placement &placement) const;
  void fillTransfers(const Placement &placement, Evaluation &evaluation);
  Dollars trafficOf(const Placement &placement) const;
  /// How a stage runs, and its figures but for what it receives.
  struct KnownStage {
    StageEvaluation run;
    Stage figures;
  };
  const KnownStage &stageAt(const PlacedStage &placed, int microBatches, StagePlace place);
  KnownStage measureStage(const PlacedStage &placed, int microBatches, StagePlace place);
  Stage stageOf(const PlacedStage &placed, const StageEvaluation &run, int microBatches);
  std::vector<Replica> slowestOfEachType(const PlacedStage &placed, const StageEvaluation &run,
                                         const BatchSplit &split);

  std::map<std::vector<NodeItem>, bool> rooms;  // whether there is one
  std::map<std::vector<int>, KnownStage> known; // stages without stated modes and shares
  KnownStage stated;                            // the last one with any
  /// By types, counts and, where they do not fill nodes, most devices in one; and whether they
  /// share one.
  std::map<std::array<int, 7>, TransferPath> paths;
};

} // namespace heterplan
