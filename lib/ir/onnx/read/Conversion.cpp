#include "ir/onnx/read/Conversion.h"

#include "ir/Bodies.h"
#include "ir/onnx/batch/SampleRows.h"
#include "ir/onnx/fold/FoldingSupport.h"
#include "ir/onnx/normalize/Normalization.h"
#include "ir/onnx/read/Attributes.h"
#include "ir/onnx/read/Scopes.h"
#include "ir/onnx/read/TensorReader.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "onnx/onnx_pb.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {

/// Values that copies of shared initializers may take in all.
constexpr size_t copyLimit = size_t(64) << 20;
/// Values of constants that are read from files of the model's folder, in all.
constexpr int64_t readLimit = int64_t(64) << 20;

class Converter {
public:
  Converter(const onnx::ModelProto &model, ModelFile &file,
            std::vector<const onnx::NodeProto *> &nodes)
      : model(model), file(file), graph(file.graph), messages(nodes), scopes(file),
        constants(file.graph.folder) {}

  Error run() {
    if (Error error = checkModel())
      return error;
    scopes.enter(model.graph());
    if (Error error = readInitializers(model.graph()))
      return error;
    if (Error error = readInputs())
      return error;
    if (Error error = readNodes(model.graph(), "", graph.nodes))
      return error;
    if (Error error = readOutputs(model.graph(), "", graph.outputs))
      return error;
    if (graph.outputs.empty())
      return malformed("", "the graph has no outputs");
    file.literal.assign(graph.tensors.size(), false);
    for (TensorId id : literals)
      file.literal[id] = true;
    return Error::success();
  }

private:
  const onnx::ModelProto &model;
  ModelFile &file;
  Graph &graph;
  std::vector<const onnx::NodeProto *> &messages;
  Scopes scopes;
  ConstantValues constants;
  int64_t leftToRead = readLimit;
  std::vector<TensorId> literals; // values of Constant nodes: never trained
  size_t copied = 0;
  StringSet<> cutShort; // files of external data

  Error unsupported(StringRef element, StringRef what, StringRef accepted) {
    return Diagnostic(Diag::UnsupportedOperator, file.at(element)).note({}, accepted.str())
           << what << " is not supported";
  }
  Error malformed(StringRef element, StringRef what) {
    return Diagnostic(Diag::MalformedModel, file.at(element)) << what;
  }

  Error checkModel() {
    if (!model.has_graph())
      return malformed("", "has no graph; it is not an ONNX model");
    graph.opset = canonicalOpset;
    return Error::success();
  }

  /// Absent data are usual where only a plan is wanted; a file that is too short is a mistake.
  void noteCutShort(const onnx::TensorProto &proto) {
    for (const auto &entry : proto.external_data()) {
      SmallString<256> path(graph.folder);
      sys::path::append(path, entry.value());
      if (entry.key() == "location" && sys::fs::exists(path) &&
          cutShort.insert(entry.value()).second)
        graph.notes.push_back("the external data '" + entry.value() +
                              "' are cut short: parameters beyond their end have no values");
    }
  }

  Error fill(GraphTensor &tensor, const onnx::TensorProto &proto) {
    Location place = file.at(tensor.name);
    auto type = elementType(proto.data_type(), place);
    if (!type)
      return type.takeError();
    SmallVector<int64_t, 4> dims(proto.dims().begin(), proto.dims().end());
    auto count = checkedCount(dims, place);
    if (!count)
      return count.takeError();
    tensor.type = *type;
    tensor.role = TensorRole::Constant;
    for (int64_t dim : dims)
      tensor.shape.push_back({0, dim});
    if (isExternal(proto)) {
      auto external = externalData(proto, graph.folder, place);
      if (!external)
        return external.takeError();
      tensor.external = std::move(*external);
      if (!tensor.external)
        noteCutShort(proto);
      readIntegers(tensor, dims);
      return Error::success();
    }
    auto data = inlineData(proto, place);
    if (!data)
      return data.takeError();
    if (data->type != DataType::String)
      tensor.data = std::move(*data);
    return Error::success();
  }

  /// Positions, sizes and conditions are no weights: their values decide what the graph computes.
  /// They are read into memory where exporters put them into the file of the weights.
  void readIntegers(GraphTensor &tensor, ArrayRef<int64_t> dims) {
    if (!tensor.external || !folding::isInteger(tensor.type) ||
        tensor.external->length > std::min(largestFolded, leftToRead))
      return;
    const StringRef bytes = constants.bytesOf(tensor);
    if (bytes.size() != static_cast<size_t>(tensor.external->length))
      return;
    leftToRead -= tensor.external->length;
    tensor.data = TensorData{tensor.type, {dims.begin(), dims.end()}, bytes.str()};
    tensor.external.reset();
  }

  Error readInitializers(const onnx::GraphProto &proto) {
    for (const auto &initializer : proto.initializer()) {
      auto id = scopes.define(initializer.name(), "initializer");
      if (!id)
        return id.takeError();
      if (Error error = fill(graph.tensors[*id], initializer))
        return error;
    }
    for (const auto &initializer : proto.sparse_initializer()) {
      auto id = scopes.define(initializer.values().name(), "sparse initializer");
      if (!id)
        return id.takeError();
      auto data = sparseData(initializer, file.at(initializer.values().name()));
      if (!data)
        return data.takeError();
      setConstant(graph.tensors[*id], std::move(*data));
    }
    return Error::success();
  }

  static void setConstant(GraphTensor &tensor, TensorData &&data) {
    tensor.type = data.type;
    tensor.role = TensorRole::Constant;
    for (int64_t dim : data.shape)
      tensor.shape.push_back({0, dim});
    if (data.type != DataType::String)
      tensor.data = std::move(data);
  }

  Error readInputs() {
    StringSet<> initializers;
    for (const GraphTensor &tensor : graph.tensors)
      initializers.insert(tensor.name);
    for (const auto &input : model.graph().input()) {
      if (initializers.erase(input.name()))
        continue; // the default value of an input is the value of an initializer
      if (Error error = readInput(input))
        return error;
    }
    return Error::success();
  }

  /// The type of what a container holds, and which container it is.
  static const onnx::TypeProto &elementOf(const onnx::TypeProto &type, Container &container) {
    const onnx::TypeProto *inner = &type;
    bool optional = inner->has_optional_type();
    if (optional)
      inner = &inner->optional_type().elem_type();
    bool sequence = inner->has_sequence_type();
    if (sequence)
      inner = &inner->sequence_type().elem_type();
    container = optional && sequence ? Container::OptionalSequence
                : optional           ? Container::Optional
                : sequence           ? Container::Sequence
                                     : Container::None;
    return *inner;
  }

  Error readInput(const onnx::ValueInfoProto &input) {
    auto id = scopes.define(input.name(), "input");
    if (!id)
      return id.takeError();
    Container container = Container::None;
    const onnx::TypeProto &inner = elementOf(input.type(), container);
    if (!inner.has_tensor_type())
      return unsupported(input.name(), "an input of this kind",
                         "tensors, sequences and optionals of them are accepted");
    const auto &type = inner.tensor_type();
    auto element = elementType(type.elem_type(), file.at(input.name()));
    if (!element)
      return element.takeError();
    if (!type.has_shape() && container == Container::None)
      return Diagnostic(Diag::UnknownShape, file.at(input.name()))
             << "input '" << input.name() << "' has no shape";
    std::vector<DeclaredDim> dims;
    for (const auto &dim : type.shape().dim())
      dims.push_back(
          {dim.has_dim_param() ? dim.dim_param() : "",
           dim.has_dim_value() ? std::optional<int64_t>(dim.dim_value()) : std::nullopt});
    GraphTensor &tensor = graph.tensors[*id];
    tensor.type = *element;
    tensor.role = TensorRole::Input;
    tensor.container = container;
    tensor.dynamic = !type.has_shape();
    graph.inputs.push_back(*id);
    file.inputDims.push_back(std::move(dims));
    return Error::success();
  }

  /// Appends the nodes of `proto`, which is the model's graph or a body of the node `parent`.
  Error readNodes(const onnx::GraphProto &proto, StringRef parent, std::vector<GraphNode> &nodes) {
    for (int i = 0; i < proto.node_size(); ++i) {
      scopes.advance(i);
      if (Error error = readNode(proto.node(i), i, parent, nodes))
        return error;
    }
    return Error::success();
  }

  std::string nodeName(const onnx::NodeProto &proto, int index, StringRef parent) {
    if (!proto.name().empty())
      return scopes.uniqueNodeName(proto.name());
    std::string name = proto.op_type() + "_" + std::to_string(index);
    return scopes.uniqueNodeName(parent.empty() ? name : parent.str() + "/" + name);
  }

  Error readNode(const onnx::NodeProto &proto, int index, StringRef parent,
                 std::vector<GraphNode> &nodes) {
    std::string name = nodeName(proto, index, parent);
    if (proto.op_type().empty())
      return malformed(name, "a node has no operator");
    if (proto.op_type() == "Constant")
      return readConstant(proto, name);
    GraphNode node;
    node.name = std::move(name);
    node.op = proto.op_type();
    node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    if (Error error = readOperands(proto, node))
      return error;
    if (node.op == "Identity" && node.inputs.size() == 1 && proto.output_size() == 1) {
      Expected<bool> dropped = readIdentity(node.inputs[0], proto.output(0));
      if (!dropped)
        return dropped.takeError();
      if (*dropped)
        return Error::success();
    }
    if (Error error = readAttributes(proto, node))
      return error;
    if (Error error = readResults(proto, node))
      return error;
    node.number = static_cast<int>(messages.size());
    messages.push_back(&proto);
    nodes.push_back(std::move(node));
    return Error::success();
  }

  Error readOperands(const onnx::NodeProto &proto, GraphNode &node) {
    for (const std::string &input : proto.input()) {
      node.inputs.push_back(input.empty() ? noTensor : scopes.find(input));
      if (!input.empty() && node.inputs.back() == noTensor)
        return scopes.missing(input, node);
    }
    while (!node.inputs.empty() && node.inputs.back() == noTensor)
      node.inputs.pop_back();
    return Error::success();
  }

  /// Exporters share initializers of equal initial values through Identity nodes. Vectors (biases,
  /// scales) that merely start equal are parameters of their own; matrices are really shared.
  Expected<bool> readIdentity(TensorId source, StringRef output) {
    if (graph.tensors[source].role != TensorRole::Constant || output.empty())
      return false;
    bool share = !isFloating(graph.tensors[source].type) || graph.tensors[source].shape.size() != 1;
    if (share) {
      if (Error error = scopes.alias(output, source))
        return error;
      return true;
    }
    copied += graph.tensors[source].data ? graph.tensors[source].data->bytes.size() : 0;
    if (copied > copyLimit)
      return false;
    auto id = scopes.define(output, "Identity");
    if (!id)
      return id.takeError();
    std::string name = graph.tensors[*id].name;
    graph.tensors[*id] = graph.tensors[source];
    graph.tensors[*id].name = std::move(name);
    ++file.separated;
    return true;
  }

  Error readResults(const onnx::NodeProto &proto, GraphNode &node) {
    for (const std::string &output : proto.output()) {
      if (output.empty()) {
        node.outputs.push_back(noTensor);
        continue;
      }
      auto id = scopes.define(output, node.name);
      if (!id)
        return id.takeError();
      node.outputs.push_back(*id);
    }
    return Error::success();
  }

  Error readAttributes(const onnx::NodeProto &proto, GraphNode &node) {
    for (const auto &attribute : proto.attribute()) {
      if (attribute.has_g()) {
        if (Error error = readBody(attribute, node))
          return error;
        continue;
      }
      if (attribute.type() == onnx::AttributeProto::TYPE_PROTO)
        continue; // of Optional; inference reads it from the message
      auto value = readAttribute(attribute, file.at(node.name));
      if (!value)
        return value.takeError();
      if (!node.attributes.emplace(attribute.name(), std::move(*value)).second)
        return Diagnostic(Diag::DuplicateName, file.at(node.name))
               << "attribute '" << attribute.name() << "' is given twice";
    }
    setCaptures(node);
    return checkAttributes(node, file.at(node.name));
  }

  /// The subgraph that is an attribute of `node`. Its tensors join those of the graph; initializers
  /// and constants become captured values, so that parameters are found where they are used.
  Error readBody(const onnx::AttributeProto &attribute, GraphNode &node) {
    const onnx::GraphProto &proto = attribute.g();
    if (node.body(attribute.name()))
      return Diagnostic(Diag::DuplicateName, file.at(node.name))
             << "attribute '" << attribute.name() << "' is given twice";
    GraphBody body;
    body.attribute = attribute.name();
    scopes.enter(proto);
    if (Error error = readInitializers(proto))
      return error;
    for (const auto &input : proto.input()) {
      auto id = scopes.define(input.name(), node.name);
      if (!id)
        return id.takeError();
      body.inputs.push_back(*id);
    }
    if (Error error = readNodes(proto, node.name, body.nodes))
      return error;
    if (Error error = readOutputs(proto, node.name, body.outputs))
      return error;
    scopes.leave();
    node.bodies.push_back(std::move(body));
    return Error::success();
  }

  Error readConstant(const onnx::NodeProto &proto, StringRef name) {
    if (proto.output_size() != 1 || proto.attribute_size() != 1 || proto.input_size())
      return malformed(name, "a Constant has one output and one attribute");
    auto id = scopes.define(proto.output(0), name);
    if (!id)
      return id.takeError();
    auto data = constantData(proto.attribute(0), file.at(name));
    if (!data)
      return data.takeError();
    setConstant(graph.tensors[*id], std::move(*data));
    literals.push_back(*id);
    return Error::success();
  }

  Error readOutputs(const onnx::GraphProto &proto, StringRef parent,
                    std::vector<TensorId> &outputs) {
    for (const auto &output : proto.output()) {
      outputs.push_back(scopes.find(output.name()));
      if (outputs.back() == noTensor)
        return malformed(parent.empty() ? StringRef(output.name()) : parent,
                         parent.empty() ? "is an output of the model that nothing produces"
                                        : "a subgraph returns '" + output.name().substr(0, 100) +
                                              "', which nothing produces");
    }
    return Error::success();
  }
};

} // namespace

Error convert(const onnx::ModelProto &model, ModelFile &file,
              std::vector<const onnx::NodeProto *> &nodes) {
  return Converter(model, file, nodes).run();
}

} // namespace heterplan
