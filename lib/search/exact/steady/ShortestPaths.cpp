// The cheapest stages within a limit as a shortest path over cut positions. Devices beyond those
// there are cost a price of their own, a Lagrange multiplier for each type, raised by subgradient
// ascent (Held and Karp, 1971); the paths on the way are candidates.
#include "search/exact/SubgradientAscent.h"
#include "search/exact/steady/Bottleneck.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// More stages behind one count as so many.
constexpr int deepestStage = 7;

class ShortestPaths : public BottleneckSolver {
public:
  ShortestPaths(const Evaluator &evaluator, const Tuning &tuning)
      : evaluator(evaluator), tuning(tuning) {}
  int deepest(int microBatches) const override {
    return std::min({deepestStage, microBatches - 1, evaluator.space.maxStages - 1});
  }
  Expected<Answer> solve(const CountTable &counts, int microBatches, double cutoff) override;

private:
  /// A stage, with the best stages behind it.
  struct Step {
    double cost = infinity;
    int end = -1;
    size_t next = none; // the step behind it
  };
  /// The least cost of stages from some position on, and of those whose first one is of another
  /// type.
  struct Least {
    double cost = infinity, second = infinity;
    size_t step = none, secondStep = none;

    void add(double of, size_t at) {
      if (of < cost) {
        second = cost;
        secondStep = step;
        cost = of;
        step = at;
      } else if (of < second) {
        second = of;
        secondStep = at;
      }
    }
  };
  static constexpr size_t none = -1;

  size_t stepAt(const CountTable &counts, int begin, int behind, int type) const {
    return (size_t(begin) * counts.depths() + behind) * counts.types + type;
  }
  double shortest(const CountTable &counts, ArrayRef<double> prices);
  void addStages(const CountTable &counts, ArrayRef<double> prices, int begin, int end, int behind,
                 const Least &rest);
  Placement path(const CountTable &counts, int microBatches) const;
  std::vector<double> surplus(const Placement &placement) const;

  const Evaluator &evaluator;
  const Tuning &tuning;
  std::vector<Step> steps; // by begin, stages behind and type
  size_t first = none;     // step of the shortest path
};

/// Cost of the shortest path where a device of type t costs prices[t].
double ShortestPaths::shortest(const CountTable &counts, ArrayRef<double> prices) {
  const int depths = counts.depths(), last = counts.positions - 1;
  steps.assign(size_t(counts.positions) * depths * counts.types, Step());
  std::vector<Least> least(size_t(counts.positions) * depths); // by begin and stages behind
  Least whole;
  for (int begin = last; begin-- > 0;) {
    addStages(counts, prices, begin, last, /*behind=*/0, {0, 0});
    for (int end = begin + 1; end < last; ++end)
      for (int behind = 0; behind < depths; ++behind)
        addStages(counts, prices, begin, end, std::min(behind + 1, depths - 1),
                  least[size_t(end) * depths + behind]);
    for (int behind = 0; behind < depths; ++behind)
      for (int type = 0; type < counts.types; ++type) {
        const size_t at = stepAt(counts, begin, behind, type);
        least[size_t(begin) * depths + behind].add(steps[at].cost, at);
        if (begin == 0)
          whole.add(steps[at].cost, at);
      }
  }
  first = whole.step;
  return whole.cost;
}

/// Puts the stages between two positions, of each type, before the `rest`. `behind`: stages behind
/// them.
void ShortestPaths::addStages(const CountTable &counts, ArrayRef<double> prices, int begin, int end,
                              int behind, const Least &rest) {
  if (rest.cost == infinity)
    return;
  const bool apart = evaluator.rules.mergesNeighbours(); // neighbours differ in type
  for (int type = 0; type < counts.types; ++type) {
    const int count = counts.at(begin, end, type, behind);
    const bool second = apart && rest.step != none && int(rest.step % counts.types) == type;
    const double cost = (second ? rest.second : rest.cost) + count * prices[type];
    Step &step = steps[stepAt(counts, begin, behind, type)];
    if (count > 0 && cost < step.cost)
      step = {cost, end, second ? rest.secondStep : rest.step};
  }
}

Placement ShortestPaths::path(const CountTable &counts, int microBatches) const {
  Placement placement;
  placement.microBatches = microBatches;
  const std::vector<int> &positions = evaluator.space.positions;
  int begin = 0;
  for (size_t at = first; at != none; at = steps[at].next) {
    const int type = int(at % counts.types), behind = int(at / counts.types % counts.depths());
    const int end = steps[at].end;
    placement.stages.push_back({positions[begin], positions[end],
                                DeviceGroup{{{type, counts.at(begin, end, type, behind)}}}});
    begin = end;
  }
  return placement;
}

/// How many more devices of each type than there are a placement takes, as shares.
std::vector<double> ShortestPaths::surplus(const Placement &placement) const {
  const std::vector<int> &available = evaluator.space.available;
  std::vector<double> more(available.size(), -1);
  for (const PlacedStage &stage : placement.stages) {
    auto [type, count] = stage.group.counts.front();
    more[type] += double(count) / available[type];
  }
  return more;
}

Expected<BottleneckSolver::Answer> ShortestPaths::solve(const CountTable &counts, int microBatches,
                                                        double cutoff) {
  const std::vector<int> &available = evaluator.space.available;
  const std::vector<DeviceType> &types = evaluator.problem.cluster.types;
  double all = 0; // price of every device: no placement costs more
  for (size_t type = 0; type < available.size(); ++type)
    all += types[type].price.value() * available[type];
  const double ceiling = std::min(cutoff, all * (1 + 1e-9));
  Answer answer;
  // Multipliers: of all devices of a type together.
  SubgradientAscent ascent(std::vector<double>(available.size(), 0), tuning);
  for (int step = 0; step < tuning.ascentSteps; ++step) {
    std::vector<double> prices(available.size());
    for (size_t type = 0; type < available.size(); ++type)
      prices[type] =
          types[type].price.value() + ascent.multipliers[type] / std::max(available[type], 1);
    const double cost = shortest(counts, prices);
    const double rebate =
        std::accumulate(ascent.multipliers.begin(), ascent.multipliers.end(), 0.0);
    if (cost == infinity || cost - rebate > ceiling * (1 + 1e-9) + 1e-300)
      return Answer{infinity, std::move(answer.placements)};
    ascent.take(cost - rebate);
    answer.placements.push_back(path(counts, microBatches));
    if (!ascent.step(surplus(answer.placements.back()),
                     tuning.aimedBeyond * std::min(ceiling, ascent.best())))
      break;
  }
  answer.price = ascent.best() * (1 - 1e-12);
  return answer;
}
} // namespace

std::unique_ptr<BottleneckSolver> makeShortestPaths(const Evaluator &evaluator,
                                                    const Tuning &tuning) {
  return std::make_unique<ShortestPaths>(evaluator, tuning);
}

} // namespace heterplan
