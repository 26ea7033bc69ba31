// The traces that PyTorch's exporters leave in a file: metadata on values and nodes, and the names
// of tensors that they computed.
#pragma once

#include "ir/Graph.h"

#include <map>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
class NodeProto;
class ValueInfoProto;
} // namespace onnx

namespace heterplan {

/// The entry `key` of the metadata of a value or a node; "" where it has none.
std::string metadataOf(const onnx::ValueInfoProto &value, const std::string &key);
std::string metadataOf(const onnx::NodeProto &node, const std::string &key);

/// The parameters of the module that a file of PyTorch's newer exporter lists, by the name that its
/// nodes have for them: "p_head_weight" to "head.weight". Empty for other files.
std::map<std::string, std::string> listedParameters(const onnx::ModelProto &model);

/// The values of `listed` that nodes of `model` read by their metadata, in the order of the nodes.
/// The optimiser of the exporter leaves these metadata as they are.
std::vector<std::string> parametersRead(const onnx::ModelProto &model,
                                        const std::map<std::string, std::string> &listed);

/// "hardtanh" or "clamp": the function of PyTorch that bounds the operand of `node`, by the
/// metadata of PyTorch's newer exporter or of heterplan.export; "" where they name neither. Both
/// become a Clip, but clamp() passes gradients at its bounds, and hardtanh() does not.
std::string boundingFunction(const onnx::NodeProto &node);

/// Adds to `notes` which nodes of `graph` bound a value with a gradient if the file does not say
/// which function of PyTorch they are. Bounds of 0 and 6 are a ReLU6 beyond doubt.
void noteBounds(const Graph &graph, std::vector<std::string> &notes);

/// Adds to `notes` how many weights of `model` the exporter has made from others: batch
/// normalisation that it folded into the operator before, which is not trained as it was.
void noteFoldedNormalization(const onnx::ModelProto &model, std::vector<std::string> &notes);

} // namespace heterplan
