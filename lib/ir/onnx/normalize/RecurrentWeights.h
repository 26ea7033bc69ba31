// Exporters slice each weight of an LSTM or a GRU by its gates and join the slices in ONNX's order.
// PyTorch's kernel wants the order of the module, so that a training step would reorder every
// weight and every gradient twice.
#pragma once

#include "ir/Graph.h"

namespace heterplan {

/// Gives each LSTM, GRU and RNN the parameters of the module in place of what an exporter makes of
/// them (see ModuleWeights.h), if PyTorch has a kernel for the node. Nodes stay as they are if
/// their weights are anything else. The nodes that nothing uses any more are left to prune().
void takeModuleWeights(Graph &graph);

} // namespace heterplan
