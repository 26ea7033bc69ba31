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

class ShortestPaths : public BottleneckSolver {
public:
  ShortestPaths(const Evaluator &evaluator, const Tuning &tuning)
      : evaluator(evaluator), tuning(tuning) {}
  Expected<Answer> solve(const CountTable &counts, int microBatches, double cutoff) override;

private:
  struct Step {
    double cost = infinity;
    int begin = -1, previous = -1; // position and type that it comes from
  };
  double shortest(const CountTable &counts, ArrayRef<double> prices);
  Placement path(const CountTable &counts, int microBatches) const;
  std::vector<double> surplus(const Placement &placement) const;

  const Evaluator &evaluator;
  const Tuning &tuning;
  std::vector<Step> steps; // by position and type of the stage that ends there
  int last = -1;           // type of the last stage of the shortest path
};

/// Cost of the shortest path where a device of type t costs prices[t].
double ShortestPaths::shortest(const CountTable &counts, ArrayRef<double> prices) {
  int types = counts.types;
  bool apart = evaluator.rules.mergesNeighbours(); // neighbours differ in type
  steps.assign(size_t(counts.positions) * types, Step());
  struct Least {
    double cost = infinity, second = infinity;
    int type = -1, secondType = -1;
  };
  std::vector<Least> least(counts.positions);
  least[0] = {0, 0, -1, -1};
  for (int end = 1; end < counts.positions; ++end) {
    Step *here = &steps[size_t(end) * types];
    for (int begin = 0; begin < end; ++begin) {
      const Least &from = least[begin];
      if (from.cost == infinity)
        continue;
      for (int type = 0; type < types; ++type) {
        int count = counts.at(begin, end, type);
        bool second = apart && from.type == type && begin > 0;
        double cost = (second ? from.second : from.cost) + count * prices[type];
        if (count > 0 && cost < here[type].cost)
          here[type] = {cost, begin, second ? from.secondType : from.type};
      }
    }
    Least &of = least[end];
    for (int type = 0; type < types; ++type) {
      double cost = here[type].cost;
      if (cost < of.cost) {
        of.second = of.cost;
        of.secondType = of.type;
        of.cost = cost;
        of.type = type;
      } else if (cost < of.second) {
        of.second = cost;
        of.secondType = type;
      }
    }
  }
  last = least.back().type;
  return least.back().cost;
}

Placement ShortestPaths::path(const CountTable &counts, int microBatches) const {
  Placement placement;
  placement.microBatches = microBatches;
  const std::vector<int> &positions = evaluator.space.positions;
  for (int end = counts.positions - 1, type = last; end > 0;) {
    const Step &step = steps[size_t(end) * counts.types + type];
    placement.stages.push_back({positions[step.begin], positions[end],
                                DeviceGroup{{{type, counts.at(step.begin, end, type)}}}});
    end = step.begin;
    type = step.previous;
  }
  std::reverse(placement.stages.begin(), placement.stages.end());
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
