#include "ir/onnx/Conversion.h"

#include "ir/onnx/Attributes.h"
#include "ir/onnx/Normalization.h"
#include "ir/onnx/TensorReader.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include "onnx/onnx_pb.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {

/// Values that copies of shared initializers may take in all.
constexpr size_t copyLimit = size_t(64) << 20;

class Converter {
public:
  Converter(const onnx::ModelProto &model, ModelFile &file,
            std::vector<const onnx::NodeProto *> &nodes)
      : model(model), file(file), graph(file.graph), messages(nodes) {}

  Error run() {
    if (Error error = checkModel())
      return error;
    if (Error error = readInitializers())
      return error;
    if (Error error = readInputs())
      return error;
    indexProducers();
    for (int i = 0; i < model.graph().node_size(); ++i)
      if (Error error = readNode(i))
        return error;
    return readOutputs();
  }

private:
  const onnx::ModelProto &model;
  ModelFile &file;
  Graph &graph;
  std::vector<const onnx::NodeProto *> &messages;
  StringMap<TensorId> tensors;
  StringMap<int> producers; // tensor name to node of the model, to tell cycles from omissions
  StringMap<int> nodeNames;
  size_t copied = 0;

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
    if (model.graph().sparse_initializer_size())
      return unsupported("", "a sparse initializer", "dense initializers are accepted");
    graph.opset = canonicalOpset;
    return Error::success();
  }

  /// A new tensor called `name`; fails where the name is taken or empty.
  Expected<TensorId> define(StringRef name, StringRef what) {
    if (name.empty())
      return malformed(what, "a tensor has no name");
    TensorId id = static_cast<TensorId>(graph.tensors.size());
    if (!tensors.try_emplace(name, id).second)
      return Diagnostic(Diag::DuplicateName, file.at(name))
             << "tensor '" << name << "' is defined twice";
    graph.tensors.emplace_back();
    graph.tensors.back().name = name.str();
    return id;
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
      return Error::success();
    }
    auto data = inlineData(proto, place);
    if (!data)
      return data.takeError();
    tensor.data = std::move(*data);
    return Error::success();
  }

  Error readInitializers() {
    for (const auto &initializer : model.graph().initializer()) {
      auto id = define(initializer.name(), "initializer");
      if (!id)
        return id.takeError();
      if (Error error = fill(graph.tensors[*id], initializer))
        return error;
    }
    return Error::success();
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

  Error readInput(const onnx::ValueInfoProto &input) {
    auto id = define(input.name(), "input");
    if (!id)
      return id.takeError();
    if (!input.type().has_tensor_type())
      return unsupported(input.name(), "an input that is not a tensor", "tensors are accepted");
    const auto &type = input.type().tensor_type();
    auto element = elementType(type.elem_type(), file.at(input.name()));
    if (!element)
      return element.takeError();
    if (!type.has_shape())
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
    graph.inputs.push_back(*id);
    file.inputDims.push_back(std::move(dims));
    return Error::success();
  }

  void indexProducers() {
    for (int i = 0; i < model.graph().node_size(); ++i)
      for (const std::string &output : model.graph().node(i).output())
        producers.try_emplace(output, i);
  }

  std::string uniqueNodeName(const onnx::NodeProto &node, int index) {
    std::string wanted = node.name();
    if (wanted.empty())
      wanted = node.op_type() + "_" + std::to_string(index);
    std::string name = wanted;
    while (!nodeNames.try_emplace(name, 2).second)
      name = wanted + "_" + std::to_string(nodeNames[wanted]++);
    return name;
  }

  Error readNode(int index) {
    const onnx::NodeProto &proto = model.graph().node(index);
    std::string name = uniqueNodeName(proto, index);
    if (proto.op_type().empty())
      return malformed(name, "a node has no operator");
    for (const auto &attribute : proto.attribute())
      if (attribute.has_g() || attribute.graphs_size())
        return unsupported(name, "operator '" + proto.op_type() + "', which holds a subgraph,",
                           "operators without subgraphs are accepted");
    if (proto.op_type() == "Constant")
      return readConstant(proto, name);
    GraphNode node;
    node.name = std::move(name);
    node.op = proto.op_type();
    node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    if (Error error = readOperands(proto, index, node))
      return error;
    if (node.op == "Identity" && node.inputs.size() == 1 && proto.output_size() == 1) {
      Expected<bool> dropped = readIdentity(node.inputs[0], proto.output(0));
      if (!dropped)
        return dropped.takeError();
      if (*dropped)
        return Error::success();
    }
    if (Error error = readResults(proto, node))
      return error;
    if (Error error = readAttributes(proto, node))
      return error;
    node.number = static_cast<int>(messages.size());
    messages.push_back(&proto);
    graph.nodes.push_back(std::move(node));
    return Error::success();
  }

  Error readOperands(const onnx::NodeProto &proto, int index, GraphNode &node) {
    for (const std::string &input : proto.input()) {
      if (input.empty()) {
        node.inputs.push_back(noTensor);
        continue;
      }
      auto known = tensors.find(input);
      if (known == tensors.end())
        return missing(input, index, node);
      node.inputs.push_back(known->second);
    }
    while (!node.inputs.empty() && node.inputs.back() == noTensor)
      node.inputs.pop_back();
    return Error::success();
  }

  /// Why `input` is not there yet: never produced, produced later, or on a cycle.
  Error missing(StringRef input, int index, const GraphNode &node) {
    if (!producers.count(input))
      return malformed(node.name,
                       "reads '" + input.take_front(100).str() + "', which nothing produces");
    std::vector<bool> seen(model.graph().node_size());
    std::vector<int> work{producers[input]};
    while (!work.empty()) {
      int current = work.back();
      work.pop_back();
      if (current == index)
        return Diagnostic(Diag::CyclicGraph, file.at(node.name))
               << "operator '" << node.op << "' depends on its own result through '" << input
               << "'";
      if (seen[current])
        continue;
      seen[current] = true;
      for (const std::string &name : model.graph().node(current).input())
        if (auto producer = producers.find(name); producer != producers.end())
          work.push_back(producer->second);
    }
    return malformed(node.name, "reads '" + input.take_front(100).str() +
                                    "', which a later node produces; nodes must be in order");
  }

  /// Exporters share initializers of equal initial values through Identity nodes. Vectors (biases,
  /// scales) that merely start equal are parameters of their own; matrices are really shared.
  Expected<bool> readIdentity(TensorId source, StringRef output) {
    if (graph.tensors[source].role != TensorRole::Constant || output.empty())
      return false;
    bool share = !isFloating(graph.tensors[source].type) || graph.tensors[source].shape.size() != 1;
    if (share) {
      if (!tensors.try_emplace(output, source).second)
        return Diagnostic(Diag::DuplicateName, file.at(output))
               << "tensor '" << output << "' is defined twice";
      return true;
    }
    copied += graph.tensors[source].data ? graph.tensors[source].data->bytes.size() : 0;
    if (copied > copyLimit)
      return false;
    auto id = define(output, "Identity");
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
      auto id = define(output, node.name);
      if (!id)
        return id.takeError();
      node.outputs.push_back(*id);
    }
    return Error::success();
  }

  Error readAttributes(const onnx::NodeProto &proto, GraphNode &node) {
    for (const auto &attribute : proto.attribute()) {
      auto value = readAttribute(attribute, file.at(node.name));
      if (!value)
        return value.takeError();
      if (!node.attributes.emplace(attribute.name(), std::move(*value)).second)
        return Diagnostic(Diag::DuplicateName, file.at(node.name))
               << "attribute '" << attribute.name() << "' is given twice";
    }
    return checkAttributes(node, file.at(node.name));
  }

  Error readConstant(const onnx::NodeProto &proto, StringRef name) {
    if (proto.output_size() != 1 || proto.attribute_size() != 1 || proto.input_size())
      return malformed(name, "a Constant has one output and one attribute");
    auto id = define(proto.output(0), name);
    if (!id)
      return id.takeError();
    auto value = readAttribute(proto.attribute(0), file.at(name));
    if (!value)
      return value.takeError();
    auto data = constantData(*value);
    if (!data)
      return unsupported(name, "a Constant of this type",
                         "numbers, lists of them and tensors are accepted");
    GraphTensor &tensor = graph.tensors[*id];
    tensor.type = data->type;
    tensor.role = TensorRole::Constant;
    for (int64_t dim : data->shape)
      tensor.shape.push_back({0, dim});
    tensor.data = std::move(*data);
    constants.push_back(*id);
    return Error::success();
  }

  Error readOutputs() {
    for (const auto &output : model.graph().output()) {
      auto known = tensors.find(output.name());
      if (known == tensors.end())
        return malformed(output.name(), "is an output of the model that nothing produces");
      graph.outputs.push_back(known->second);
    }
    if (graph.outputs.empty())
      return malformed("", "the graph has no outputs");
    file.literal.assign(graph.tensors.size(), false);
    for (TensorId id : constants)
      file.literal[id] = true;
    return Error::success();
  }

  std::vector<TensorId> constants; // values of Constant nodes: never trained
};

} // namespace

Error convert(const onnx::ModelProto &model, ModelFile &file,
              std::vector<const onnx::NodeProto *> &nodes) {
  return Converter(model, file, nodes).run();
}

} // namespace heterplan
