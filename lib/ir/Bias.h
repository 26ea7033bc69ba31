// The biases of matrix products. Autocast leaves a bias in fp32; generated code casts it to the
// type of the product, and costs count it so. Both ask here what a bias is.
#pragma once

#include "ir/Graph.h"

namespace heterplan {

/// Whether `node` is a matrix product, to whose result a bias may be added.
inline bool takesBias(const GraphNode &node) { return node.op == "MatMul" && node.domain.empty(); }

/// Whether `tensor`, added to the result of a matrix product, is its bias.
inline bool isBias(const GraphTensor &tensor) {
  return tensor.shape.size() == 1 && isWeight(tensor.role);
}

} // namespace heterplan
