// The best plan of two orders of the layers: that of the model file, and one with narrow cuts.
#pragma once

#include "search/Search.h"

namespace heterplan {

/// Whose order the stages keep: auto looks at both and searches the better one.
enum class OrderChoice { Auto, Given, Narrow };

struct BestOrder {
  SearchOutcome outcome;
  /// The layers in the order that `outcome` is about, if it is another than that of the problem.
  std::optional<LayerGraph> layers;
};

/// Whether the layers of `problem` may stand in another order than the given one. Bursts place
/// branches side by side instead, and devices that share layers keep the order of the model.
bool mayReorder(const Problem &problem);

/// `problem` with the narrow order of its layers; nothing if there is none.
std::optional<LayerGraph> inNarrowOrder(const Problem &problem);

/// Searches `problem` with `strategy`. If there is an order with much narrower cuts, it looks at
/// both orders, searches the one with the better plan so far, and the other one if that has no
/// plan. The bound of the outcome is about the plans of its own order. Fails as search() does.
llvm::Expected<BestOrder> searchOrders(const Problem &problem, llvm::StringRef strategy,
                                       const SearchOptions &options);

} // namespace heterplan
