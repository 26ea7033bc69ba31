// Attributes of ONNX nodes as values of our own.
#pragma once

#include "ir/Graph.h"
#include "support/Diagnostic.h"

#include "llvm/Support/Error.h"

namespace onnx {
class AttributeProto;
}

namespace heterplan {

/// UnsupportedOperator for graphs, types, sparse and external tensors; `place` names the node.
llvm::Expected<Attribute> readAttribute(const onnx::AttributeProto &attribute,
                                        const Location &place);

/// Fails where an attribute that operators divide by is not positive.
llvm::Error checkAttributes(const GraphNode &node, const Location &place);

/// The tensor that a Constant node with this attribute gives; of strings only type and shape.
llvm::Expected<TensorData> constantData(const onnx::AttributeProto &attribute,
                                        const Location &place);

} // namespace heterplan
