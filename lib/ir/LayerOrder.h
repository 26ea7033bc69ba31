// The order of the layers, of which each stage is a consecutive range: that of the model file, or
// another one in which the cuts between stages are narrower.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <utility>
#include <vector>

namespace heterplan {

struct LayerGraph;
struct Plan;

/// How the order of the layers was found.
enum class LayerOrder { Given, Narrow };
constexpr int layerOrders = 2;             // how many there are
const char *nameOf(LayerOrder layerOrder); // "given" | "narrow"

/// `graph` with the layers of `order`, which has each index once. Tensors flow forward in it.
LayerGraph permuted(LayerGraph graph, llvm::ArrayRef<int> order);

/// The layers that come before others in every order, though no tensor flows between them: the
/// first user of a tied parameter, which counts its bytes, before the others; and each layer before
/// the last one, where the loss is computed.
std::vector<std::pair<int, int>> fixedPairs(const LayerGraph &graph);

/// `graph` in the order of the layers of `plan`: as it is, unless the plan states an order of its
/// own. Such an order has each layer once, and tensors and fixedPairs() keep their direction.
/// Layers that no cut may part follow each other as in `graph`. Fails with UnknownLayer,
/// DuplicateName, CyclicGraph or InvalidPlan at the layer that is wrong.
llvm::Expected<LayerGraph> inOrderOf(const Plan &plan, LayerGraph graph);

} // namespace heterplan
