// The one place that prices a placement. Strategies propose, the Evaluator says what it takes,
// costs and needs, by the model that Plan.h states, and turns the chosen one into a Plan.
#pragma once

#include "cost/HeterPs.h"
#include "search/PriceTable.h"
#include "search/SearchSpace.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace heterplan {

struct PlacedStage {
  int begin = 0, end = 0; // layers
  DeviceGroup group;
};

/// What a strategy decides. Stages in order of the layers, covering all of them.
struct Placement {
  std::vector<PlacedStage> stages;
  int microBatches = 1;
};

/// A stage on its own, without its neighbours: one micro-batch, computing only.
struct StageTimes {
  bool fits = false; // memory holds, at least one sample a device, pins and separations hold
  double forward = 0, backward = 0; // seconds
  double sync = 0, update = 0;      // seconds; sync includes update
  Samples largestShare{};
};
struct StagePrice {
  StageTimes times;
  std::vector<std::vector<int64_t>> shares; // by type of the group, largest first
};

struct Evaluation {
  std::vector<Stage> stages; // figures filled in; devices not yet
  Seconds iteration{};
  DollarsPerHour price{};
  /// Larger is never better: seconds of an iteration, or dollars per 10^6 samples.
  double objective = 0;
};

class Evaluator {
public:
  explicit Evaluator(const Problem &problem);

  const Problem &problem;
  const SearchSpace space;
  const std::vector<Cut> cuts;

  /// Prices layers [begin, end) on `group` for micro-batches of `batch` samples. `last`: no stage
  /// follows, so that replicas need not wait for each other between the passes.
  StagePrice priceStage(int begin, int end, const DeviceGroup &group, int64_t batch, bool last,
                        int inFlight);
  /// The same for `count` devices of one type, whose all-reduce costs `reduce`: the fast path.
  StageTimes uniformTimes(int begin, int end, int type, int count, const AllReduceCost &reduce,
                          int64_t batch, int inFlight);
  /// Layers [begin, end) may be one stage on `type` as far as pins and separations go.
  bool mayRun(int begin, int end, int type) const;
  /// Most micro-batches of `share` samples that fit in the memory of one device of `type`; 0: not
  /// even one.
  int mostInFlight(int begin, int end, int type, int64_t share) const;
  /// Most samples of a micro-batch that fit in the memory of one device of `type`.
  int64_t mostSamples(int begin, int end, int type, int inFlight, int64_t batch) const;

  Bytes parametersOf(int begin, int end) const;

  TransferPath pathBetween(const DeviceGroup &from, const DeviceGroup &to);

  /// Fewest devices of `type` with which a micro-batch takes layers [begin, end) at most `limit`
  /// seconds, transfers of heterplan's own pricing not counted; 0: no number that there is.
  int leastCount(int begin, int end, int type, double limit, int64_t batch, int inFlight);

  /// The fitted model of HeterPS, or null where plans are not priced by it.
  const HeterPsModel *heterPs() const { return steadyModel.get(); }
  /// iteration = w·(Σ τ + exposed synchronisation) + (m − w)·max τ with this w: 1, or 0 where the
  /// pricing is steady.
  double fillWeight() const { return steadyModel ? 0 : 1; }

  /// Figures of a placement whatever its throughput and price; none when devices, memory or pins do
  /// not allow it.
  std::optional<Evaluation> measure(const Placement &placement);
  /// None when it breaks a constraint: devices, memory, pins, floor or budget.
  std::optional<Evaluation> evaluate(const Placement &placement);
  /// Objective of a time and price, in the units of Evaluation::objective.
  double objectiveOf(Seconds iteration, DollarsPerHour price) const;
  /// Whether the floor and the budget hold (relative tolerance 1e-9).
  bool meetsLimits(Seconds iteration, DollarsPerHour price) const;

  /// The plan of a feasible placement, devices assigned; `bound` is in the units of
  /// Evaluation::objective and at most the placement's.
  llvm::Expected<Plan> plan(const Placement &placement, double bound);

  PriceTable &prices() { return table; }

private:
  /// Memory of a device: fixed + samples·(inFlight·kept + scratch).
  struct MemoryNeed {
    double fixed = 0, kept = 0, scratch = 0;
  };
  const MemoryNeed &memoryNeed(int begin, int end) const;
  bool devicesSuffice(const Placement &placement) const;
  bool stagesAllowed(const Placement &placement) const;
  const AllReduceCost &reduceCost(const DeviceGroup &group);
  void fillTransfers(const Placement &placement, const std::vector<StagePrice> &prices,
                     std::vector<Stage> &stages);
  StageTimes steadyTimes(int begin, int end, int type, int count, int64_t share) const;
  std::vector<std::vector<int64_t>> balancedShares(int begin, int end, const DeviceGroup &group,
                                                   int64_t batch, int inFlight);
  StageTimes mixedTimes(int begin, int end, const DeviceGroup &group,
                        const std::vector<std::vector<int64_t>> &shares, bool last);
  std::vector<Replica> slowestOfEachType(const PlacedStage &placed, const StagePrice &price);
  void fillProvenance(const Placement &placement, const Evaluation &evaluation, Plan &plan);

  PriceTable table;
  std::unique_ptr<const HeterPsModel> steadyModel;
  std::map<std::pair<int, int>, AllReduceCost> reduceCosts; // by type and count
  std::map<std::array<int, 4>, TransferPath> paths;         // by types and counts
  std::vector<std::vector<int>> forbidden; // [type][position]: pins against it before position
  std::vector<int> farthestEnd;  // by position: end of the longest stage there without a separation
  std::vector<Bytes> parameters; // of the layers before each position
  mutable llvm::DenseMap<std::pair<int, int>, MemoryNeed> memory;
};

} // namespace heterplan
