// Topological orders of the layers in which the cuts between stages are narrow: little crosses
// them. Branches that lie side by side in a model can stand in many orders.
#pragma once

#include "search/problem/Problem.h"

#include <memory>
#include <optional>
#include <vector>

namespace heterplan {

class UnitGraph;

/// Some orders of the layers of a problem, the given one among them. Layers that the cuts of the
/// problem may not part stay together. Deterministic.
class LayerOrders {
public:
  /// O(layers · width of the graph).
  explicit LayerOrders(const Problem &problem);
  ~LayerOrders();

  /// The order with the narrowest cuts, as indices of layers; nothing if none has narrower ones
  /// than the given order. The width of an order is the mean over 15 places, which divide the work
  /// into 16 equal parts, of the bytes that cross the narrowest cut near each.
  std::optional<std::vector<int>> narrowest() const;
  /// The order with the best cuts for the devices of the stages of `plan`, as its times say it: the
  /// stages compute equally long, and little crosses the cuts. Nothing if none is better than the
  /// order of the plan.
  std::optional<std::vector<int>> fitting(const Plan &plan) const;

private:
  const Problem &problem;
  std::unique_ptr<UnitGraph> graph;     // null: the layers have no times, or one order
  std::vector<std::vector<int>> orders; // of units, the given one first

  std::vector<int> layersOf(llvm::ArrayRef<int> order) const;
};

} // namespace heterplan
