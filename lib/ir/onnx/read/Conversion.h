// From ONNX's messages to a raw Graph: names become numbers, attributes and constants become
// values. Everything that the rest of the importer relies on is checked here, with a place.
#pragma once

#include "ir/onnx/read/ModelFile.h"

#include "llvm/Support/Error.h"

#include <vector>

namespace onnx {
class ModelProto;
class NodeProto;
} // namespace onnx

namespace heterplan {

/// Fills `file.graph` and `file.inputDims` from `model`, whose functions are inlined and whose
/// nodes are in their canonical form; `nodes[i]` is the message of the node whose number is i.
/// Fails on names that are missing, twice defined or never produced, on cycles, on sizes that
/// overflow, on paths that leave the folder, on maps and on large sparse tensors.
llvm::Error convert(const onnx::ModelProto &model, ModelFile &file,
                    std::vector<const onnx::NodeProto *> &nodes);

} // namespace heterplan
