// Exporters write a linear layer on three or more axes as a Transpose of the weight, a MatMul and
// an Add; PyTorch has one function for it, which launches one kernel where these launch two.
#pragma once

#include "codegen/Scope.h"
#include "ir/Graph.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace heterplan {

/// The linear layers of a graph, as nodes that generated code has in the place of others.
class LinearNodes {
public:
  /// `layerOf`: the layer of each node that belongs to one; nodes of one layer are joined only.
  LinearNodes(const Graph &graph, const GraphUse &use, const llvm::DenseMap<int, int> &layerOf);

  /// Whether another node computes what `node` would.
  bool isJoined(int node) const { return joined.count(node); }
  /// `node` itself, or the Gemm that takes its place: x, weight and bias, where x may have any
  /// number of axes.
  const GraphNode &nodeAt(int node) const;

private:
  const Graph &graph;
  llvm::DenseMap<int, GraphNode> gemms; // by the Add
  llvm::DenseSet<int> joined;           // their other nodes
};

} // namespace heterplan
