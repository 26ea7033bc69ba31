// The best plan of several orders of the layers: that of the model file, and some with narrow cuts.
#pragma once

#include "search/Search.h"

namespace heterplan {

/// Whose order the stages keep: auto looks at several and searches the best one.
enum class OrderChoice { Auto, Given, Narrow };

struct BestOrder {
  SearchOutcome outcome;
  /// The layers in the order that `outcome` is about, if it is another than that of the problem.
  std::optional<LayerGraph> layers;
};

/// Whether the layers of `problem` may stand in another order than the given one. Bursts place
/// branches side by side instead, and devices that share layers keep the order of the model.
bool mayReorder(const Problem &problem);

/// The layers of `problem` in the order with the narrowest cuts; nothing if that is the given one.
std::optional<LayerGraph> inNarrowOrder(const Problem &problem);

/// Searches `problem` with `strategy`. If an order has narrower cuts than the given one, it looks
/// at it, then at orders that fit the best plan so far, and at the given order, and searches the
/// order of the best plan. Other orders must be better than the given one by 0.5 %. The bound of
/// the outcome is about the plans of its own order. Fails as search() does.
llvm::Expected<BestOrder> searchOrders(const Problem &problem, llvm::StringRef strategy,
                                       const SearchOptions &options);

} // namespace heterplan
