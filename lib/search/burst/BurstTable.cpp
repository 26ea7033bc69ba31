#include "search/burst/BurstTable.h"

#include "search/problem/Cuts.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

BurstTable::BurstTable(BurstCosts &costs, ArrayRef<int> cutPositions, const BurstGoal &goal)
    : positions(cutPositions), limit(goal.amplificationLimit),
      farthestEnd(costs.problem.graph.layers.size(), costs.problem.graph.size()) {
  for (int width : costs.pool.widths())
    if (width <= goal.mostDevices)
      counts.push_back(width);
  for (auto [first, second] : separatedPairs(costs.problem))
    for (int layer = 0; layer <= first; ++layer)
      farthestEnd[layer] = std::min(farthestEnd[layer], second);
  for (int layer = 0; layer < costs.problem.graph.size(); ++layer) {
    std::vector<bool> &row = allowed.emplace_back();
    for (int count : counts)
      row.push_back(limit == 0 || keepsLimit(costs.amplification(layer, count)));
  }
  for (const PoolClass &each : costs.pool.classes())
    rooms.push_back(costs.problem.roomOf(each.type).memory.value());
  runs.resize(positions.size() * positions.size() * counts.size());
  moves.resize(positions.size() * counts.size() * counts.size());
  for (int end = 1; end <= cuts(); ++end)
    for (int width = 0; width < widths(); ++width)
      fillRuns(costs, end, width);
  for (int cut = 1; cut < cuts(); ++cut)
    fillMoves(costs, cut);
}

bool BurstTable::keepsLimit(double amplification) const {
  constexpr double rounding = 1e-9;
  return limit == 0 || amplification <= limit * (1 + rounding);
}

/// All runs that end at `end`, the shortest first.
void BurstTable::fillRuns(BurstCosts &costs, int end, int width) {
  for (int begin = end; begin-- > 0;) {
    for (int layer = positions[begin]; layer < positions[begin + 1]; ++layer)
      if (!allowed[layer][width])
        return;
    LayerRange range = layers(begin, end);
    if (farthestEnd[range.begin] < range.end)
      return;
    StageCost cost = costs.stage(range, counts[width]);
    runs[place(begin, end, width)] = {(cost.forward + cost.backward + cost.update).value(),
                                      cost.backward.value(), BurstCosts::sumOf(cost).value()};
  }
}

void BurstTable::fillMemory(BurstCosts &costs) {
  memory.resize(runs.size() * rooms.size());
  for (int end = 1; end <= cuts(); ++end)
    for (int width = 0; width < widths(); ++width)
      for (int begin = end; begin-- > 0 && run(begin, end, width).time >= 0;) {
        StageCost cost = costs.stage(layers(begin, end), counts[width]);
        double *needs = &memory[place(begin, end, width) * rooms.size()];
        int first = 0; // device of its type
        for (const PoolClass &each : costs.pool.classes()) {
          if (first >= counts[width])
            break;
          *needs++ = costs.memory(cost, costs.pool.kindOf(counts[width], first)).value();
          first += each.count;
        }
      }
}

void BurstTable::fillMoves(BurstCosts &costs, int cut) {
  int position = positions[cut];
  for (size_t before = 0; before < counts.size(); ++before)
    for (size_t after = 0; after < counts.size(); ++after) {
      if (before == after)
        continue;
      int from = counts[before], to = counts[after];
      if (limit != 0 &&
          !(allowed[position][after] && keepsLimit(costs.amplificationBehind(position, from, to))))
        continue;
      const BoundaryCost cost = costs.boundary(position, from, to);
      moves[(size_t(cut) * counts.size() + before) * counts.size() + after] = {
          cost.receive.value(), cost.receiveGradient.value()};
    }
}

} // namespace heterplan
