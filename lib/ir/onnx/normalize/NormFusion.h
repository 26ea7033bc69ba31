// Makes one operator of the operators that exporters write for a root mean square normalisation.
#pragma once

#include "ir/Graph.h"

namespace heterplan {

/// Replaces scale · (x · 1/√(mean(x²) + ε)) by ONNX's RMSNormalization, which PyTorch computes by
/// one kernel that keeps x only. The mean is over the last axes, whose shape the scale has. Casts
/// of x to single precision, and of what is scaled back to the type of x, belong to the operator.
/// A normalisation of which a part is used elsewhere stays as it is, and so does a layer
/// normalisation, whose data are centred. The nodes that nothing uses any more are left to prune().
void fuseNormalizations(Graph &graph);

} // namespace heterplan
