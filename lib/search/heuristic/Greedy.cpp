// A quick feasible plan: every one-stage plan, and pipelines of 2 to 8 stages of equal work on
// equal parts of one type.
#include "search/exact/CountBounds.h"
#include "search/placement/SearchBudget.h"
#include "search/placement/Strategy.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int mostStages = 8;

class GreedySearch {
public:
  explicit GreedySearch(Evaluator &evaluator) : evaluator(evaluator) {}

  void run() {
    for (int m : evaluator.space.microBatches)
      for (const GroupOption &option : evaluator.space.options)
        if (!option.group.sharesNode() &&
            evaluator.space.isUseful(option, evaluator.stages.fullSize(m)) &&
            mayImprove(option.group, /*stages=*/1, m))
          consider({{{0, evaluator.problem.graph.size(), option.group}}, m});
    for (auto [bound, choice] : CountBounds(evaluator, /*wholeModelGroups=*/false).inOrder())
      for (size_t type = 0; type < evaluator.space.available.size(); ++type)
        for (int stages = 2; stages <= mostStages && bound < bestObjective; ++stages)
          considerPipelines(static_cast<int>(type), stages, evaluator.space.microBatches[choice]);
  }

  std::optional<Placement> best;
  double bestObjective = std::numeric_limits<double>::infinity();

private:
  /// Whether a plan of `stages` stages on `each` may be better than the best one, by the times of
  /// layers alone. All stages together take as long as the layers, and the slowest one at least the
  /// mean. Most plans need no evaluation.
  bool mayImprove(const DeviceGroup &each, int stages, int microBatches) {
    if (each.counts.size() > 1 || evaluator.stages.costs.fit()) // of stages, not of layers
      return true;
    const auto [type, count] = each.counts.front();
    const int64_t share = (evaluator.stages.fullSize(microBatches) + count - 1) / count;
    const LayerTimes &times = evaluator.stages.timesOf(type, share, microBatches);
    const LayerRange all{0, evaluator.problem.graph.size()};
    const double weight = evaluator.rules.fillWeight();
    const Seconds least = (times.forward(all) + times.backward(all)) *
                          ((weight + (microBatches - weight) / stages) * (1 - 1e-9));
    const DollarsPerHour price =
        evaluator.problem.cluster.types[size_t(type)].price * double(count * stages);
    return evaluator.objectiveOf(least, price) < bestObjective &&
           evaluator.meetsLimits(least, price);
  }

  /// Equal pipelines of `stages` stages on all, half, a quarter, ... of the devices of `type`.
  void considerPipelines(int type, int stages, int microBatches) {
    int64_t batch = evaluator.stages.fullSize(microBatches);
    for (int64_t each = std::min<int64_t>(evaluator.space.available[type] / stages, batch);
         each >= 1; each /= 2) {
      DeviceGroup group{{{type, static_cast<int>(each)}}};
      if (!mayImprove(group, stages, microBatches))
        continue;
      std::optional<Placement> placement = evenPipeline(group, stages, microBatches);
      if (placement)
        consider(std::move(*placement));
    }
  }

  /// Cuts where the time of the layers passes each 1/stages of the whole.
  std::optional<Placement> evenPipeline(const DeviceGroup &group, int stages, int microBatches) {
    auto [type, count] = group.counts.front();
    int64_t share = (evaluator.stages.fullSize(microBatches) + count - 1) / count;
    const LayerTimes &times = evaluator.stages.timesOf(type, share, microBatches);
    const std::vector<int> &positions = evaluator.space.positions;
    auto timeBefore = [&](int position) {
      return (times.forward({0, position}) + times.backward({0, position})).value();
    };
    double total = timeBefore(positions.back());
    Placement placement;
    placement.microBatches = microBatches;
    size_t from = 0;
    for (int stage = 1; stage <= stages; ++stage) {
      size_t to = from + 1;
      while (to + 1 < positions.size() && timeBefore(positions[to]) < total * stage / stages)
        ++to;
      if (stage == stages)
        to = positions.size() - 1;
      if (to >= positions.size() || to <= from)
        return std::nullopt; // fewer cuts than stages
      placement.stages.push_back({positions[from], positions[to], group});
      from = to;
    }
    return placement;
  }

  void consider(Placement placement) {
    placement = evaluator.shareNodes(std::move(placement));
    std::optional<Evaluation> evaluation = evaluator.evaluate(placement);
    if (evaluation && evaluation->objective < bestObjective) {
      bestObjective = evaluation->objective;
      best = std::move(placement);
    }
  }

  Evaluator &evaluator;
};
} // namespace

std::optional<Placement> greedyPlacement(Evaluator &evaluator) {
  GreedySearch search(evaluator);
  search.run();
  return std::move(search.best);
}

Expected<Solution> Greedy::run(Evaluator &evaluator, const SearchOptions &options) {
  std::optional<Placement> best = greedyPlacement(evaluator);
  Termination end = SearchBudget(options).termination(/*proven=*/false, best.has_value());
  return Solution{std::move(best), std::nullopt, end};
}

} // namespace heterplan
