#include "ir/onnx/read/ExporterTraces.h"

#include "ir/Bodies.h"
#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include "onnx/onnx_pb.h"

#include <google/protobuf/unknown_field_set.h>

using namespace llvm;

namespace heterplan {

namespace {
/// The libonnx that is linked does not know the metadata of newer files, field `number` of `proto`.
std::string metadataIn(const google::protobuf::Message &proto, int number, const std::string &key) {
  const auto &unknown = proto.GetReflection()->GetUnknownFields(proto);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto &field = unknown.field(i);
    onnx::StringStringEntryProto entry;
    if (field.number() == number &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParseFromString(field.length_delimited()) && entry.key() == key)
      return entry.value();
  }
  return "";
}

/// The newer exporter says that a product came from a normalisation; the older one gives weights
/// that it computed the name of the operator and a number.
bool isFolded(const onnx::NodeProto &node) {
  StringRef op = node.op_type();
  if ((op != "Conv" && op != "ConvTranspose" && op != "Gemm") || node.input_size() < 2)
    return false;
  return StringRef(node.input(1)).startswith("onnx::Conv") ||
         StringRef(metadataOf(node, "pkg.torch.onnx.class_hierarchy")).contains("batch_norm");
}
} // namespace

std::string metadataOf(const onnx::ValueInfoProto &value, const std::string &key) {
  return metadataIn(value, 4, key);
}

std::string metadataOf(const onnx::NodeProto &node, const std::string &key) {
  return metadataIn(node, 9, key);
}

std::map<std::string, std::string> listedParameters(const onnx::ModelProto &model) {
  std::string text =
      metadataIn(model.graph(), 16, "pkg.torch.export.ExportedProgram.graph_signature");
  std::map<std::string, std::string> listed;
  SmallVector<StringRef, 32> lines;
  StringRef(text).split(lines, '\n');
  for (StringRef line : lines) { // p_head_weight: PARAMETER target='head.weight'
    auto [placeholder, rest] = line.split(": PARAMETER target='");
    if (!rest.empty())
      listed[placeholder.trim().str()] = rest.take_until([](char c) { return c == '\''; }).str();
  }
  return listed;
}

std::vector<std::string> parametersRead(const onnx::ModelProto &model,
                                        const std::map<std::string, std::string> &listed) {
  std::vector<std::string> read;
  StringSet<> known;
  for (const onnx::NodeProto &node : model.graph().node()) {
    std::string call = metadataOf(node, "pkg.torch.onnx.fx_node");
    SmallVector<StringRef, 16> parts; // "... (args = (%view, %p_head_weight), kwargs = {})"
    StringRef(call).split(parts, '%');
    for (StringRef part : parts) {
      StringRef name = part.take_while([](char c) { return isAlnum(c) || c == '_'; });
      if (auto found = listed.find(name.str());
          found != listed.end() && known.insert(found->second).second)
        read.push_back(found->second);
    }
  }
  return read;
}

std::string boundingFunction(const onnx::NodeProto &node) {
  StringRef op = node.op_type();
  if (!node.domain().empty() || (op != "Clip" && op != "Max" && op != "Min"))
    return "";
  std::string call = metadataOf(node, "pkg.torch.onnx.fx_node");
  if (call.empty())
    return metadataOf(node, "heterplan.function");
  StringRef name = StringRef(call).split("torch.ops.aten.").second; // "hardtanh.default](args ..."
  name = name.take_until([](char c) { return c == '.' || c == ']'; });
  name.consume_back("_"); // in place
  if (op == "Clip" && (name == "hardtanh" || name == "relu6"))
    return "hardtanh";
  return name == "clip" || name.startswith("clamp") ? "clamp" : "";
}

namespace {
/// The number that bounds `node` at input `index`; nothing if there is none, or if it is computed.
std::optional<double> boundOf(const Graph &graph, const GraphNode &node, size_t index) {
  if (index >= node.inputs.size() || node.inputs[index] == noTensor)
    return std::nullopt;
  const GraphTensor &tensor = graph.tensors[node.inputs[index]];
  if (tensor.role != TensorRole::Constant || !tensor.data ||
      tensor.data->bytes.size() != static_cast<size_t>(sizeOf(tensor.type)) ||
      !folding::isComputable(tensor.type) || !isFloating(tensor.type))
    return std::nullopt;
  return folding::loadReal(*tensor.data, 0);
}
} // namespace

void noteBounds(const Graph &graph, std::vector<std::string> &notes) {
  std::vector<StringRef> unknown;
  eachNode(graph.nodes, [&](const GraphNode &node) {
    if (node.op != "Clip" || !node.domain.empty() || node.attributes.count("function") ||
        node.outputs[0] == noTensor || !graph.tensors[node.outputs[0]].differentiable)
      return;
    auto low = boundOf(graph, node, 1), high = boundOf(graph, node, 2);
    if (low && high && (*low != 0 || *high != 6))
      unknown.push_back(node.name);
  });
  if (!unknown.empty())
    notes.push_back(
        "the file does not say whether '" + unknown[0].take_front(100).str() + "'" +
        (unknown.size() > 1 ? " and " + std::to_string(unknown.size() - 1) + " more are" : " is") +
        " hardtanh(), which has no gradient at its bounds, or clamp(), which has one: "
        "clamp() is assumed; heterplan.export states it");
}

void noteFoldedNormalization(const onnx::ModelProto &model, std::vector<std::string> &notes) {
  auto folded = count_if(model.graph().node(), isFolded);
  if (!folded)
    return;
  notes.push_back(
      "the weights of " + std::to_string(folded) +
      " convolutions or products were computed at export, mostly from batch "
      "normalisation that is folded into them, and are trained in its place; to keep it, "
      "export in training mode, with do_constant_folding=False (dynamo: optimize=False)");
}

} // namespace heterplan
