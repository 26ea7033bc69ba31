// The cheapest stages within a limit as a shortest path over cut positions. Devices beyond those
// there are cost a price of their own, a Lagrange multiplier for each type, raised by subgradient
// ascent (Held and Karp, 1971); the paths on the way are candidates.
#include "search/exact/steady/Bottleneck.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int mostAscents = 40;

class ShortestPaths : public BottleneckSolver {
public:
  explicit ShortestPaths(const Evaluator &evaluator) : evaluator(evaluator) {}
  Expected<Answer> solve(const CountTable &counts, int microBatches, double cutoff) override;

private:
  struct Step {
    double cost = infinity;
    int begin = -1, previous = -1; // position and type that it comes from
  };
  double shortest(const CountTable &counts, ArrayRef<double> prices);
  Placement path(const CountTable &counts, int microBatches) const;

  const Evaluator &evaluator;
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

Expected<BottleneckSolver::Answer> ShortestPaths::solve(const CountTable &counts, int microBatches,
                                                        double cutoff) {
  const std::vector<int> &available = evaluator.space.available;
  const std::vector<DeviceType> &types = evaluator.problem.cluster.types;
  double all = 0; // price of every device: no placement costs more
  for (size_t type = 0; type < available.size(); ++type)
    all += types[type].price.value() * available[type];
  double ceiling = std::min(cutoff, all * (1 + 1e-9));
  Answer answer;
  answer.price = -infinity;
  std::vector<double> prices(available.size()), multipliers(available.size());
  double scale = 1;
  for (int ascent = 0; ascent < mostAscents; ++ascent) {
    double rebate = 0;
    for (size_t type = 0; type < available.size(); ++type) {
      prices[type] = types[type].price.value() + multipliers[type];
      rebate += multipliers[type] * available[type];
    }
    double cost = shortest(counts, prices);
    if (cost == infinity || cost - rebate > ceiling * (1 + 1e-9) + 1e-300)
      return Answer{infinity, std::move(answer.placements)};
    double bound = cost - rebate;
    scale = bound > answer.price ? scale : scale * 0.7;
    answer.price = std::max(answer.price, bound);
    answer.placements.push_back(path(counts, microBatches));
    std::vector<int> use(available.size());
    double paid = 0, norm = 0, slack = 0;
    for (const PlacedStage &stage : answer.placements.back().stages) {
      auto [type, count] = stage.group.counts.front();
      use[type] += count;
      paid += count * types[type].price.value();
    }
    bool within = true;
    for (size_t type = 0; type < available.size(); ++type) {
      double over = use[type] - available[type];
      within &= over <= 0;
      if (over <= 0 && multipliers[type] == 0)
        continue;
      norm += over * over;
      slack += std::abs(over) * multipliers[type];
    }
    if (within && slack <= 1e-12 * std::max(1.0, paid))
      break; // optimal: nothing that costs extra is left over
    double step =
        scale * std::max(ceiling == infinity ? paid : std::min(ceiling, paid * 1.5), paid * 0.05) *
        0.2 / std::max(norm, 1e-12);
    for (size_t type = 0; type < available.size(); ++type)
      multipliers[type] = std::max(0.0, multipliers[type] + step * (use[type] - available[type]));
    if (scale < 1e-3)
      break;
  }
  answer.price *= 1 - 1e-12;
  return answer;
}
} // namespace

std::unique_ptr<BottleneckSolver> makeShortestPaths(const Evaluator &evaluator) {
  return std::make_unique<ShortestPaths>(evaluator);
}

} // namespace heterplan
