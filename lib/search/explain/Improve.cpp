#include "search/explain/Improve.h"

#include "search/problem/MicroBatchCounts.h"

#include <algorithm>

namespace heterplan {

namespace {
constexpr int mostMicroBatches = 4096;

class Neighbours {
public:
  Neighbours(Evaluator &evaluator, const Placement &placement, double objective)
      : evaluator(evaluator), problem(evaluator.problem), placement(placement), least(objective) {}

  std::optional<Improvement> best() {
    for (size_t stage = 0; stage < placement.stages.size(); ++stage) {
      moveBoundary(stage);
      resize(stage);
      balance(stage);
    }
    changeMicroBatches();
    return found;
  }

private:
  void consider(Placement candidate, const std::string &change) {
    candidate = evaluator.shareNodes(evaluator.keepTogether(apart(std::move(candidate))));
    std::optional<Evaluation> value = evaluator.measure(candidate, Among::All);
    if (!value || !evaluator.meetsLimits(value->iteration, value->price) ||
        value->objective >= least * (1 - 1e-9))
      return;
    least = value->objective;
    found = Improvement{change, value->objective};
  }

  /// Gives the last layer before the boundary behind `stage` to the next stage, or takes its first.
  void moveBoundary(size_t stage) {
    if (stage + 1 == placement.stages.size())
      return;
    for (int step : {-1, 1}) {
      Placement candidate = placement;
      PlacedStage &before = candidate.stages[stage], &after = candidate.stages[stage + 1];
      before.end = after.begin = before.end + step;
      before.decideAnew();
      after.decideAnew();
      if (before.begin >= before.end || after.begin >= after.end)
        continue;
      const Layer &moved = problem.graph.layers[step < 0 ? after.begin : before.end - 1];
      consider(candidate, "layer '" + moved.name + "' in stage " +
                              std::to_string(step < 0 ? stage + 1 : stage));
    }
  }

  /// One device more, or less, of each type.
  void resize(size_t stage) {
    for (size_t type = 0; type < problem.cluster.types.size(); ++type)
      for (int step : {-1, 1}) {
        Placement candidate = placement;
        PlacedStage &placed = candidate.stages[stage];
        auto &counts = placed.group.counts;
        placed.group.spread.clear();
        placed.group.inOneNode = false;
        auto entry = std::find_if(counts.begin(), counts.end(),
                                  [&](auto each) { return each.first == int(type); });
        if (entry == counts.end() && step > 0)
          entry =
              counts.insert(std::upper_bound(counts.begin(), counts.end(), std::pair(int(type), 0)),
                            {int(type), 0});
        if (entry == counts.end() || (entry->second += step) < 0 ||
            entry->second > problem.cluster.deviceCount(int(type)))
          continue;
        if (entry->second == 0)
          counts.erase(entry);
        placed.decideAnew();
        if (!counts.empty())
          consider(candidate, std::string(step > 0 ? "one more " : "one less ") +
                                  problem.cluster.types[type].name + " in stage " +
                                  std::to_string(stage));
      }
  }

  void balance(size_t stage) {
    Placement candidate = placement;
    if (candidate.stages[stage].shares.empty())
      return;
    candidate.stages[stage].shares.clear();
    consider(candidate, "balanced shares in stage " + std::to_string(stage));
  }

  void changeMicroBatches() {
    for (int count : usefulMicroBatches(problem.request.globalBatch)) {
      if (count > mostMicroBatches || count == placement.microBatches)
        continue;
      Placement candidate = placement;
      candidate.microBatches = count;
      for (PlacedStage &stage : candidate.stages)
        stage.decideAnew();
      consider(candidate, std::to_string(count) + " micro-batches instead of " +
                              std::to_string(placement.microBatches));
    }
  }

  Evaluator &evaluator;
  const Problem &problem;
  const Placement &placement;
  double least;
  std::optional<Improvement> found;
};
} // namespace

std::optional<Improvement> bestChange(Evaluator &evaluator, const Placement &placement,
                                      double objective) {
  return Neighbours(evaluator, placement, objective).best();
}

} // namespace heterplan
