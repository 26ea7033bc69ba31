#include "cost/LayerTimes.h"

#include <cassert>
#include <utility>

using namespace llvm;

namespace heterplan {

LayerTimes::LayerTimes(const LayerCosts &layers, int64_t microBatches) : layers(layers), sums(1) {
  double added = double(microBatches - 1) / double(microBatches); // gradients, a backward pass
  sums.reserve(layers.size() + 1);
  for (const std::optional<LayerCost> &known : layers) {
    LayerCost cost = known.value_or(LayerCost());
    Sums next = sums.back();
    next.forward += cost.forward;
    next.backward += cost.backward + cost.accumulate * added;
    next.update += cost.update;
    next.unknown += !known;
    sums.push_back(next);
  }
}

void LayerTimes::addByOrigin(LayerRange range, double forwardPasses, double backwardPasses,
                             double updates, TimeSum &into) const {
  for (int i = range.begin; i < range.end; ++i) {
    LayerCost cost = layers[i].value_or(LayerCost());
    double passes =
        forwardPasses == backwardPasses
            ? forwardPasses * (cost.forward + cost.backward).value()
            : forwardPasses * cost.forward.value() + backwardPasses * cost.backward.value();
    into.add(cost.provenance, passes + updates * cost.update.value(), halfWidthOf(cost));
  }
}

LayerTimesTable::LayerTimesTable(const LayerGraph &graph, const Cluster &cluster,
                                 const CostModel &costs, MayRun mayRun)
    : graph(graph), cluster(cluster), costs(costs), mayRun(std::move(mayRun)),
      answers(std::make_shared<Answers>()), tables(std::make_shared<Tables>()),
      latest(cluster.types.size()) {}

void LayerTimesTable::shareCostsWith(LayerTimesTable &other) {
  assert(&graph == &other.graph && &cluster == &other.cluster && &costs == &other.costs);
  if (answers != other.answers)
    earlier.push_back(std::exchange(answers, other.answers));
}

void LayerTimesTable::shareWith(LayerTimesTable &other) {
  shareCostsWith(other);
  if (tables == other.tables)
    return;
  earlier.push_back(std::exchange(tables, other.tables));
  latest.assign(latest.size(), {});
}

const LayerTimes &LayerTimesTable::add(BySamples &times, int type, int64_t samples,
                                       int64_t microBatches) {
  constexpr int64_t most = 4096;
  if (samples < most && size_t(samples) >= times.few.size())
    times.few.resize(samples + 1);
  std::unique_ptr<LayerTimes> &entry = samples < most ? times.few[samples] : times.more[samples];
  if (!entry)
    entry = std::make_unique<LayerTimes>(costsOf(type, samples), microBatches);
  return *entry;
}

const LayerCosts &LayerTimesTable::costsOf(int type, int64_t samples) {
  std::lock_guard lock(answers->mutex);
  std::unique_ptr<LayerCosts> &entry = answers->asked[{type, samples}];
  if (!entry)
    entry = std::make_unique<LayerCosts>(ask(type, samples));
  return *entry;
}

LayerCosts LayerTimesTable::ask(int type, int64_t samples) {
  LayerCosts found(graph.layers.size());
  for (int i = 0; i < graph.size(); ++i) {
    if (!mayRun(i, type)) {
      found[i] = LayerCost();
      continue;
    }
    Expected<LayerCost> cost = costs.price(graph.layers[i], cluster.types[type], Samples(samples));
    if (cost)
      found[i] = *cost;
    else
      keepFailure(cost.takeError(), {type, samples});
  }
  return found;
}

/// Keeps the failure of the least type and samples, whatever the order in which threads ask; of its
/// layers the first one.
void LayerTimesTable::keepFailure(Error failure, std::pair<int, int64_t> asked) {
  const bool hasOther = bool(answers->failure);
  if (!hasOther || asked < answers->failed) {
    std::swap(answers->failure, failure);
    answers->failed = asked;
  }
  consumeError(std::move(failure));
}

Error LayerTimesTable::takeError() {
  std::lock_guard lock(answers->mutex);
  Error result = std::move(answers->failure);
  answers->failure = Error::success();
  return result;
}

} // namespace heterplan
