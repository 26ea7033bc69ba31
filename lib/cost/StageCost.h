// The cost of a stage on an option: the only definition for searches, bounds, tables and plans. A
// new way of running a stage is a field of StageOption and its part of stageCost(). The checker
// (search/verify) computes it independently.
#pragma once

#include "cost/Collectives.h"
#include "cost/HeterPs.h"
#include "cost/LayerTimes.h"
#include "cost/StageMemory.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>
#include <optional>
#include <vector>

namespace heterplan {

/// How a stage runs: its devices and how they divide its work.
struct StageOption {
  DeviceGroup devices;
  Recomputation recomputation;
  StageSharding sharding; // of a degree of 1 so far
  /// The messages of a stage that receives or sends less than everything that crosses the cuts at
  /// its ends, because other stages lie beside it.
  std::optional<StageMessages> messages;
  /// By type of the group: the part of the rows of each sparse table that one device holds. Empty:
  /// the rows are divided evenly.
  std::vector<double> tableParts = {};
  int replicas() const { return devices.replicas(sharding.degree); }
  /// Rows of `table` on each device, in the order of the group.
  std::vector<int64_t> rowsOf(const SparseTable &table) const;
  bool operator==(const StageOption &) const = default;
};

/// How the samples of a micro-batch are divided over the devices of a stage.
struct BatchSplit {
  int64_t batch = 1; // samples of a micro-batch
  int microBatches = 1;
  /// No stage follows, so that replicas need not wait for each other between the passes.
  bool isLast = true;
  /// By type of the group, largest first; empty for a group of one type: as evenly as they go.
  llvm::ArrayRef<std::vector<int64_t>> shares;
};

/// The time of a stage for one micro-batch, without its neighbours.
struct StageCost {
  Seconds forward{}, backward{}; // of the slowest replica
  Seconds synchronization{};     // at the end of the iteration
  // What is inside:
  Seconds update{};                   // of `synchronization`
  Seconds lookup{}, lookupGradient{}; // rows of sparse tables: of `forward`, of `backward`
  Seconds inPassAllReduce{}; // of each pass; the sums of a pass serve when it is computed again
  Seconds recomputation{};   // of `backward`: the forward pass again
  Seconds reduceScatter{};   // of `backward`: gradients that are sharded
  Seconds gather{};          // of each pass: parameters that are sharded

  MemoryModel memory;
  Samples largestShare{};
  bool isKnown = true; // the cost model did not fail
  /// Its devices are of one type and the largest share takes longest in every way: the cost does
  /// not depend on BatchSplit::isLast.
  bool largestIsSlowest = true;
  /// The tables that gave the passes' times on the slowest replica; null if a fit gave them.
  const LayerTimes *slowestForward = nullptr, *slowestBackward = nullptr;
};

/// The time of one replica for one micro-batch without the lookup of rows, which all replicas make
/// together.
struct ReplicaCost {
  Seconds forward{}, backward{};
};

/// The time of a group's communication among its replicas.
struct GroupCosts {
  CollectiveCost reduce, scatter, lookup, lookupGradient, tiedSum;
};
GroupCosts groupCosts(const Cluster &cluster, const DeviceGroup &group);

/// Costs of the stages of one model on one cluster. Not thread-safe: it keeps what it was asked
/// for.
class StageCosts {
public:
  /// All outlive this.
  StageCosts(const LayerGraph &graph, const Cluster &cluster, const CostModel &costs,
             Optimizer optimizer, Samples globalBatch, LayerTimesTable::MayRun mayRun,
             Precision precision = Precision::Fp32, const ModeRequest &asked = {});

  /// The cost of layers `range` on `option`. Every device has at least one sample.
  StageCost stageCost(LayerRange range, const StageOption &option, const BatchSplit &split);
  /// The times of a stage, without its memory.
  StageCost stageTimes(LayerRange range, const StageOption &option, const BatchSplit &split);
  /// The cost of one of its replicas, of `type` with `share` samples of each micro-batch.
  ReplicaCost replicaCost(LayerRange range, const StageOption &option, const BatchSplit &split,
                          int type, int64_t share);
  /// Computing only, both passes, on one device.
  Seconds computing(LayerRange range, Recomputation recomputation, int type, int64_t share,
                    int microBatches);
  /// Whether `large` samples take at least as long as `small` in every way. Measured times may fall
  /// as the batch grows.
  bool isSlower(LayerRange range, int type, int64_t large, int64_t small, int microBatches);

  /// Stages take from now on what `fit` says, which knows no replicas.
  void useFit(std::unique_ptr<const HeterPsModel> fit) { fitted = std::move(fit); }
  /// Null where they take what their layers do.
  const HeterPsModel *fit() const { return fitted.get(); }

  const GroupCosts &costsOf(const DeviceGroup &group);

  /// The memory of stages on `group`, whose devices stand for shards of layers or for whole ones.
  StageMemory &memoryOf(const DeviceGroup &group) { return memoryOf(group.counts.front().first); }
  StageMemory &memoryOf(int type) { return partsOf(type).memory; }

  const std::vector<Cut> cuts;
  LayerTimesTable times;

private:
  /// The computation of a replica.
  struct Computing {
    Seconds forward{}, backward{}, again{}, update{};
    const LayerTimes *times = nullptr;
    Seconds both() const { return forward + backward; }
  };
  /// The collectives of the replicas within the passes.
  struct Together {
    Seconds inPassAllReduce{}, reduceScatter{}, gather{};
  };
  struct Slowest;
  /// The layers on devices that stand for equal numbers of devices.
  struct Parts {
    Parts(LayerGraph layers, llvm::ArrayRef<Cut> cuts, Optimizer optimizer, Samples globalBatch,
          Precision precision, const ModeRequest &asked);
    const LayerGraph graph;
    StageMemory memory;
    std::vector<int64_t> inPassAllReduces;   // of the layers before each position
    std::vector<Bytes> inPassAllReduceBytes; // likewise
  };
  Parts &partsOf(int type) { return *parts[type]; }
  Parts &partsOf(const StageOption &option) { return partsOf(option.devices.counts.front().first); }
  Slowest slowestOf(LayerRange range, const StageOption &option, const BatchSplit &split);
  Computing computingOf(LayerRange range, const StageOption &option, int type, int64_t share,
                        int microBatches);
  Together togetherOf(LayerRange range, const StageOption &option, const GroupCosts &costs);
  static ReplicaCost passesOf(const Computing &computing, const Together &together);
  void addSynchronization(LayerRange range, const StageOption &option, const GroupCosts &costs,
                          const Slowest &replicas, StageCost &cost);
  Seconds exposedSum(LayerRange range, const StageMemory &memory, const CollectiveCost &collective,
                     const Slowest &replicas) const;
  TableRows lookupsOf(LayerRange range, const StageOption &option);
  void addLookups(LayerRange range, const StageOption &option, const GroupCosts &costs,
                  StageCost &cost);
  StageCost fittedTimes(LayerRange range, const StageOption &option, const BatchSplit &split);

  const LayerGraph &graph;
  const Cluster &cluster;
  const ModeRequest asked;
  std::vector<std::shared_ptr<Parts>> parts; // by type
  std::unique_ptr<const HeterPsModel> fitted;
  std::vector<std::vector<std::unique_ptr<GroupCosts>>> groups; // of one type: by type and count
  DeviceGroup lastOther; // of several types, or spread over nodes
  GroupCosts other;      // of it
};

} // namespace heterplan
