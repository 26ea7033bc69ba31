// The one place that prices a placement. Strategies propose, the Evaluator says what it takes,
// costs and needs, by the model that Plan.h states, and turns the chosen one into a Plan.
#pragma once

#include "cost/HeterPs.h"
#include "search/placement/LayerTimes.h"
#include "search/problem/SearchSpace.h"

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
/// But for its sparse tables, whose rows its replicas exchange in each pass, and for what they sum.
struct StageTimes {
  bool fits = false; // memory holds, at least one sample a device, pins and separations hold
  double forward = 0, backward = 0; // seconds; they include `lookup` and `lookupGradient`
  double lookup = 0, lookupGradient = 0;
  double sync = 0, update = 0; // seconds; sync includes update
  Samples largestShare{};
};
struct StagePrice {
  StageTimes times;
  std::vector<std::vector<int64_t>> shares; // by type of the group, largest first
};

/// What a group takes to communicate among its replicas.
struct GroupCosts {
  CollectiveCost reduce, lookup, lookupGradient;
};
GroupCosts groupCosts(const Cluster &cluster, const DeviceGroup &group);

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
  /// The same for `count` devices of one type, which communicate at `costs`: the fast path.
  StageTimes uniformTimes(int begin, int end, int type, int count, const GroupCosts &costs,
                          int64_t batch, int inFlight);
  /// Whether of an even split of `batch` over `count` devices the largest share takes longest in
  /// every way, so that uniformTimes() is what priceStage() says.
  bool largestIsSlowest(int begin, int end, int type, int count, int64_t batch);
  /// Layers [begin, end) may be one stage on `type` as far as pins and separations go.
  bool mayRun(int begin, int end, int type) const;
  /// Most micro-batches of `share` samples that fit in the memory of one device of `type`, of
  /// `replicas` that share the sparse tables; 0: not even one.
  int mostInFlight(int begin, int end, int type, int replicas, int64_t share) const;
  /// Most samples of a micro-batch that fit in the memory of one such device.
  int64_t mostSamples(int begin, int end, int type, int replicas, int inFlight,
                      int64_t batch) const;
  /// Adds to `times` how long the largest share's rows of tables take in each pass.
  void addLookups(int begin, int end, const GroupCosts &costs, StageTimes &times) const;
  /// Seconds of each pass in which the replicas sum statistics (Layer::inPassAllReduces).
  double sumsOf(int begin, int end, const GroupCosts &costs) const;

  Bytes parametersOf(int begin, int end) const;
  /// Of those of which each replica holds all.
  Bytes denseParametersOf(int begin, int end) const;

  /// Cached for groups of one type; valid until the next call.
  const GroupCosts &costsOf(const DeviceGroup &group);
  TransferPath pathBetween(const DeviceGroup &from, const DeviceGroup &to);

  /// Fewest devices of `type` with which a micro-batch takes layers [begin, end) at most `limit`
  /// seconds, transfers of the synchronous model not counted; 0: no number that there is.
  int leastCount(int begin, int end, int type, double limit, int64_t batch, int inFlight);

  /// The fitted model of HeterPS, or null where plans are not priced by it.
  const HeterPsModel *heterPs() const { return steadyModel.get(); }
  /// iteration = w·(Σ τ + exposed synchronisation) + (m − w)·max τ with this w: 1, or 0 where the
  /// iterationModel is steady.
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

  LayerTimes &prices() { return table; }
  /// Sums for `share` of the `batch` samples of a micro-batch on one device of `type`.
  const PrefixSums &pricesOf(int type, int64_t share, int64_t batch) {
    return table.at(type, share, problem.request.globalBatch.value() / batch);
  }

private:
  /// Memory of a device: fixed + samples·(inFlight·kept + scratch).
  struct MemoryNeed {
    double fixed = 0, kept = 0, scratch = 0;
  };
  const MemoryNeed &memoryNeed(int begin, int end, int replicas) const;
  MemoryNeed findMemoryNeed(int begin, int end, int replicas) const;
  std::vector<TableShards> shardTables(const PlacedStage &placed) const;
  Bytes largestNeed(const PlacedStage &placed, const Stage &stage, int microBatches,
                    int inFlight) const;
  bool devicesSuffice(const Placement &placement) const;
  bool stagesAllowed(const Placement &placement) const;
  void fillTransfers(const Placement &placement, const std::vector<StagePrice> &prices,
                     std::vector<Stage> &stages);
  StageTimes steadyTimes(int begin, int end, int type, int count, int64_t share) const;
  std::vector<std::vector<int64_t>> balancedShares(int begin, int end, const DeviceGroup &group,
                                                   int64_t batch, int inFlight);
  std::vector<std::vector<int64_t>> sharesOf(int begin, int end, const DeviceGroup &group,
                                             int64_t batch, int inFlight);
  StageTimes mixedTimes(int begin, int end, const DeviceGroup &group,
                        const std::vector<std::vector<int64_t>> &shares, int64_t batch, bool last);
  bool isSlower(int begin, int end, int type, int64_t large, int64_t small, int64_t batch);
  Stage stageOf(const PlacedStage &placed, const StagePrice &price, int64_t batch);
  std::vector<Replica> slowestOfEachType(const PlacedStage &placed, const StagePrice &price,
                                         int64_t batch);
  void fillFits(Plan &plan) const;
  void addCommunication(const Placement &placement, const Evaluation &evaluation, int stage,
                        Plan &plan) const;
  void fillProvenance(const Placement &placement, const Evaluation &evaluation, Plan &plan);

  LayerTimes table;
  std::unique_ptr<const HeterPsModel> steadyModel;
  std::map<std::pair<int, int>, GroupCosts> groups; // by type and count
  std::map<std::array<int, 4>, TransferPath> paths; // by types and counts
  std::vector<std::vector<int>> forbidden; // [type][position]: pins against it before position
  std::vector<int> farthestEnd; // by position: end of the longest stage there without a separation
  /// Of the layers before each position: all parameters, dense ones, rows that a sample looks up,
  /// what replicas sum in each pass.
  std::vector<Bytes> parameters, dense, lookups, inPassAllReduceBytes;
  std::vector<int64_t> inPassAllReduces;
  /// By layers, and replicas where there are tables.
  mutable llvm::DenseMap<std::pair<std::pair<int, int>, int>, MemoryNeed> memory;
};

} // namespace heterplan
