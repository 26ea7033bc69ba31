// The text by which equal layers are recognised, and under which profiles keep their times.
#pragma once

#include "ir/onnx/group/Operators.h"

#include <string>

namespace heterplan {

/// Signature of the layer made of `nodes` (indices in order), `heavy` among them. It reads
///   Conv[dilations=1x1,group=1,...] Nx64x56x56,64x64x3x3,64->Nx256x56x56 +Relu float32 #<hash>
/// that is: the heavy operator with its attributes, shapes of operands and results (N is the
/// batch), the operators that ride on it, the element type, and a hash of everything that decides
/// the cost: all operators, attributes, shapes, types, roles and how they are connected. Names do
/// not enter.
std::string signatureOf(const GraphFacts &facts, llvm::ArrayRef<int> nodes, int heavy);

} // namespace heterplan
