// Lower bounds on the times of every stage that a pipeline may have, worked out afresh for the
// checker from the definitions in ir/Plan.h and cost/*.h. It shares no code with the search.
#pragma once

#include "cost/CostModel.h"
#include "search/verify/bound/DeviceChoices.h"
#include "search/verify/bound/RangeFacts.h"

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace heterplan {

/// The layers between two cuts on one choice of devices, with the least that each full micro-batch
/// takes, transfers included, and the synchronisation. Seconds.
struct StageBound {
  int begin = 0, end = 0; // cuts
  int choice = 0;         // index into DeviceChoices::choicesFor
  double time = 0, forward = 0, sync = 0;
  double receive = 0, gradient = 0; // the parts of `time` that are transfers
};

/// Plans that are no better than these limits need no bound. Infinite: no limit.
struct BoundLimits {
  double iteration = std::numeric_limits<double>::infinity(); // seconds
  double paid = std::numeric_limits<double>::infinity(); // price per hour times iteration, seconds
};

/// The stages for one number of micro-batches that a plan below the limits may have.
struct StageList {
  int microBatches = 1;
  std::vector<DeviceChoice> choices;
  std::vector<double> prices;     // by choice, dollars per hour
  std::vector<StageBound> stages; // by end, then begin
  /// The least times and payments of the layers before each cut, block by block.
  std::vector<double> timeBefore, paidBefore;
  double slowest = 0;      // the slowest stage of any plan takes at least this
  BoundLimits limits = {}; // of `stages`
  /// Plans of one stage, which are not among `stages`: each is bounded by itself.
  double leastAloneIteration = std::numeric_limits<double>::infinity();
  double leastAlonePaid = std::numeric_limits<double>::infinity();
};

class StageBounds {
public:
  /// The space of bounds on `plan`, or why there is none: see obstacle(). All outlive this.
  StageBounds(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
              const CostModel &costs);

  /// Why no bound of the plan can be worked out; "" if one can.
  const std::string &obstacle() const { return reason; }
  /// Numbers of micro-batches, ascending: of those with equal micro-batches the least, which is
  /// never worse.
  const std::vector<int> &microBatches() const { return numbers; }
  /// Cuts at which stages may begin or end, the ends of the model among them.
  int cutCount() const { return ranges->count(); }
  int available(int type) const { return devices->available(type); }
  /// The cut at `cut`.
  const Cut &crossing(int cut) const { return ranges->crossing(cut); }
  NeighbourLink between(const DeviceChoice &from, const DeviceChoice &to) const {
    return devices->between(from, to);
  }
  double partOfNode(const DeviceChoice &choice) const { return devices->partOfNode(choice); }
  int unitsOfNode() const { return devices->unitsOfNode(); }
  const Cluster &ofCluster() const { return cluster; }
  const Plan &ofPlan() const { return plan; }
  /// The longest iteration, and the highest price per hour, that the plan's limits allow.
  double longestIteration() const;
  double highestPrice() const;
  /// All but the stages.
  StageList begin(int microBatches);
  /// Adds the stages that a plan below `limits` may have, and its plans of one stage.
  void addStages(StageList &list, const BoundLimits &limits);

private:
  /// Sums over the layers before a cut, on one device with some samples.
  struct Sums {
    double forward = 0, backward = 0, accumulate = 0, update = 0;
    int unknown = 0; // layers that the cost model does not know
  };
  using Times = std::vector<Sums>; // by cut
  /// Passes and synchronisation (or update) of a stage in one execution mode, without transfers.
  struct Passes {
    double forward = 0, backward = 0, sync = 0;
  };

  std::string findObstacle() const;
  const Times &timesOf(int type, int64_t samples);
  std::optional<LayerCost> costOf(int layer, int type, int64_t samples);
  double computingOf(const Times &times, int begin, int end, int microBatches) const;
  Passes passesOf(const RangeFacts &facts, Passes computing, const DeviceChoice &choice,
                  const ExecutionMode &mode) const;
  bool fits(int begin, int end, int type, int most, bool rowsAreEven, double samples, int inFlight,
            const ExecutionMode &mode) const;
  bool isBeyondLimits(const StageList &list, const StageBound &stage) const;
  void addStage(StageList &list, int begin, int end, int choice);
  void addMode(StageList &list, int begin, int end, int choice, const Passes &computing,
               const ExecutionMode &mode) const;
  void addBlocks(StageList &list);
  void addWholeModelMixes(StageList &list);
  void addAlone(StageList &list, double iteration, double price) const;
  int64_t batchOf(int microBatches) const;
  const std::vector<int64_t> &sharesOf(int64_t batch);
  /// The times of each share that sharesOf() lists.
  const std::vector<const Times *> &timesByShare(int type, int64_t batch);
  struct SharesOnType;
  size_t fittingShares(const std::vector<int64_t> &shares, const DeviceChoice &choice, int type,
                       int begin, int end, int inFlight) const;
  const std::vector<double> &perSample(int type, int64_t batch, int microBatches);
  double quickMixedTime(const DeviceChoice &choice, int begin, int end, int microBatches);
  double mixedTime(const DeviceChoice &choice, int begin, int end, int microBatches, int inFlight);

  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
  std::optional<DeviceChoices> devices; // unless there is an obstacle
  std::string reason;
  std::vector<int> numbers;
  std::optional<RangeTable> ranges;
  bool mayFall = false;                            // whether more samples may take less time
  std::map<int, std::vector<ExecutionMode>> modes; // admitted, by DeviceChoice::most
  std::vector<int> alike;                          // by layer: the first layer of its signature
  std::map<std::pair<int, int64_t>, Times> known;
  /// By type and micro-batch, for the number of micro-batches in hand.
  std::map<std::pair<int, int64_t>, std::vector<double>> samples;
  std::map<std::pair<int, int64_t>, std::vector<const Times *>> byShare; // likewise
  std::map<int64_t, std::vector<int64_t>> shareLists;                    // likewise
  std::map<std::tuple<int, int, int64_t>, std::optional<LayerCost>> layers;
};

} // namespace heterplan
