// A topological order of the layers in which the cuts between stages are narrow: little crosses
// them. Branches that lie side by side in a model can stand in many orders.
#pragma once

#include "search/problem/Problem.h"

#include <optional>
#include <vector>

namespace heterplan {

/// The bytes of a sample that cross the cuts of an order, forward and backward: the mean over 15
/// places that divide the work into 16 equal parts, of the narrowest cut near each place.
struct OrderWidth {
  Bytes given{};  // in the order of the problem
  Bytes narrow{}; // in the order that was found
};

struct NarrowOrder {
  std::vector<int> layers; // indices, in the order that was found
  OrderWidth width;
  /// Whether it is worth a search: the cuts are narrower by a tenth at least.
  bool isMuchNarrower() const { return narrowShare * width.given > width.narrow; }

private:
  static constexpr double narrowShare = 0.9;
};

/// The order with the narrowest cuts that a beam search finds, which keeps layers together that the
/// cuts of `problem` may not part. Nothing if it finds none that is narrower than the given one.
/// O(layers · width of the graph).
std::optional<NarrowOrder> narrowOrder(const Problem &problem);

} // namespace heterplan
