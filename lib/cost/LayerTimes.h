// Times of layers as prefix sums: what layers [begin, end) take on one device type at one local
// batch is a difference of two numbers.
#pragma once

#include "cost/CostModel.h"
#include "cost/Uncertainty.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace heterplan {

/// Layers [begin, end) of a graph.
struct LayerRange {
  int begin = 0, end = 0;
  bool operator==(const LayerRange &) const = default;
};

/// By layer; none where the cost model failed.
using LayerCosts = std::vector<std::optional<LayerCost>>;

/// The time of each layer on one device, and the sums over the first i layers. A backward pass
/// takes its part of adding the gradients of all micro-batches.
class LayerTimes {
public:
  /// `layers` outlive this. All of the `microBatches` but the first add gradients.
  LayerTimes(const LayerCosts &layers, int64_t microBatches);

  Seconds forward(LayerRange range) const {
    return sums[range.end].forward - sums[range.begin].forward;
  }
  Seconds backward(LayerRange range) const {
    return sums[range.end].backward - sums[range.begin].backward;
  }
  Seconds update(LayerRange range) const {
    return sums[range.end].update - sums[range.begin].update;
  }
  /// Whether the cost model knows all layers of `range`; those that it does not know add nothing.
  bool known(LayerRange range) const {
    return sums[range.end].unknown == sums[range.begin].unknown;
  }

  /// Adds what `range` takes in an iteration, adding gradients not counted, to `into`: each forward
  /// pass `forwardPasses` times, each backward pass `backwardPasses` times, and the update.
  void addByOrigin(LayerRange range, double forwardPasses, double backwardPasses, double updates,
                   TimeSum &into) const;

private:
  /// Sums over the layers before a position.
  struct Sums {
    Seconds forward{}, backward{}, update{};
    int64_t unknown = 0;
  };
  const LayerCosts &layers;
  std::vector<Sums> sums;
};

/// Asks the cost model on demand and keeps the answers, its failures too: a layer that it fails for
/// is not known, and `takeError` tells why. A table is not thread-safe; tables that share the
/// answers of the cost model may be used by one thread each.
class LayerTimesTable {
public:
  /// Whether a layer can be on a type at all; where it cannot be, it needs no time and takes none.
  using MayRun = std::function<bool(int layer, int type)>;
  /// All outlive the table.
  LayerTimesTable(const LayerGraph &graph, const Cluster &cluster, const CostModel &costs,
                  MayRun mayRun);
  LayerTimesTable(const LayerTimesTable &) = delete;

  /// From now on both tables keep one set of answers and failures. Both must be tables of one
  /// graph, cluster, cost model and `mayRun`. Results of `at` stay valid as long as this table.
  void shareWith(LayerTimesTable &other);
  /// From now on both tables keep one set of answers of the cost model, and failures; each may be
  /// used by a thread of its own. Conditions as for shareWith().
  void shareCostsWith(LayerTimesTable &other);

  /// On one device of type `type` with `samples` samples in each of `microBatches`; stays valid.
  const LayerTimes &at(int type, int64_t samples, int64_t microBatches = 1) {
    BySamples &times = timesOf(type, microBatches);
    if (size_t(samples) < times.few.size())
      if (const LayerTimes *known = times.few[samples].get())
        return *known;
    return add(times, type, samples, microBatches);
  }
  /// The cost of each layer according to the cost model, for any number of micro-batches; stays
  /// valid.
  const LayerCosts &costsOf(int type, int64_t samples);
  /// The first failure of the cost model, if any.
  llvm::Error takeError();

private:
  /// The tables of one type by number of samples. Balancing shares asks for most small numbers of
  /// samples again and again.
  struct BySamples {
    std::vector<std::unique_ptr<LayerTimes>> few; // by samples
    llvm::DenseMap<int64_t, std::unique_ptr<LayerTimes>> more;
  };
  /// By type and number of micro-batches.
  using Tables = std::map<std::pair<int, int64_t>, BySamples>;
  /// The answers of the cost model.
  struct Answers {
    ~Answers() { llvm::consumeError(std::move(failure)); }
    std::mutex mutex; // of all that follows
    llvm::DenseMap<std::pair<int, int64_t>, std::unique_ptr<LayerCosts>> asked;
    llvm::Error failure = llvm::Error::success();
    std::pair<int, int64_t> failed{}; // type and samples for which it failed
  };
  /// The latest answer, by type.
  struct Latest {
    int64_t microBatches = 0;
    BySamples *times = nullptr;
  };

  BySamples &timesOf(int type, int64_t microBatches) {
    Latest &last = latest[type];
    if (last.microBatches != microBatches)
      last = {microBatches, &(*tables)[{type, microBatches}]};
    return *last.times;
  }
  const LayerTimes &add(BySamples &times, int type, int64_t samples, int64_t microBatches);
  LayerCosts ask(int type, int64_t samples);
  void keepFailure(llvm::Error failure, std::pair<int, int64_t> asked);

  const LayerGraph &graph;
  const Cluster &cluster;
  const CostModel &costs;
  MayRun mayRun;
  std::shared_ptr<Answers> answers;
  std::shared_ptr<Tables> tables;
  std::vector<std::shared_ptr<void>> earlier; // before they were shared; references lead there
  std::vector<Latest> latest;
};

} // namespace heterplan
