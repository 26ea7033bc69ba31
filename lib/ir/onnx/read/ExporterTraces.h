// The traces that PyTorch's exporters leave in a file: metadata on values and nodes, and the names
// of tensors that they computed.
#pragma once

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

/// Adds to `notes` how many weights of `model` the exporter has made from others: batch
/// normalisation that it folded into the operator before, which is not trained as it was.
void noteFoldedNormalization(const onnx::ModelProto &model, std::vector<std::string> &notes);

} // namespace heterplan
