// Removes everything that evaluation has made redundant: branches that are never taken, operands
// that only state a shape, nodes that compute constants or unused values.
#pragma once

#include "ir/Graph.h"

namespace heterplan {

/// Replaces each If whose condition is a constant by the branch that it takes.
void takeBranches(Graph &graph);

/// Drops computed operands that state a shape: whoever runs these nodes takes it from the output.
/// They stay where the shape is only a bound.
void dropShapeOperands(Graph &graph);

/// Makes one Gelu of the operators that exporters write for x · (1 + erf(x / √2)) / 2, and one
/// Swish of x · sigmoid(x): PyTorch has one kernel for each, which keeps x only. The nodes that
/// nothing uses any more are left to prune().
void fuseActivations(Graph &graph);

/// Drops nodes that compute constants or nothing that is used, in bodies too, and tensors that are
/// left over.
void prune(Graph &graph);

} // namespace heterplan
