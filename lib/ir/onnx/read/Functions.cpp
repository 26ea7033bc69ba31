#include "ir/onnx/read/Functions.h"

#include "ir/onnx/read/FunctionTable.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include "onnx/onnx_pb.h"

using namespace llvm;

namespace heterplan {

namespace {

constexpr size_t longestName = 240;

class Inliner {
public:
  Inliner(onnx::ModelProto &model, StringRef path) : model(model), table(model, path) {}

  Error run() {
    if (Error error = table.read())
      return error;
    collectNames(model.graph());
    if (Error error = expandGraph(*model.mutable_graph()))
      return error;
    model.clear_functions();
    return Error::success();
  }

private:
  /// The meaning of a function's names in one call of it.
  struct Call {
    const Function &function;
    std::string prefix;
    const onnx::NodeProto &node;
    StringMap<std::string> names;
  };

  onnx::ModelProto &model;
  FunctionTable table;
  StringSet<> used; // names of tensors
  StringMap<int> suffixes;

  void collectNames(const onnx::GraphProto &graph) {
    for (const auto &initializer : graph.initializer())
      used.insert(initializer.name());
    for (const auto &input : graph.input())
      used.insert(input.name());
    eachProto(graph.node(), [&](const onnx::NodeProto &node) {
      for (const std::string &output : node.output())
        used.insert(output);
      for (const auto &attribute : node.attribute()) {
        for (const auto &input : attribute.g().input())
          used.insert(input.name());
        for (const auto &initializer : attribute.g().initializer())
          used.insert(initializer.name());
      }
    });
  }

  /// `name` inside `call`, as a name that nothing else has.
  std::string fresh(const Call &call, StringRef name) {
    std::string wanted = call.prefix + "/" + name.str();
    if (wanted.size() > longestName)
      wanted = wanted.substr(wanted.size() - longestName);
    std::string result = wanted;
    while (!used.insert(result).second)
      result = wanted + "_" + std::to_string(++suffixes[wanted]);
    return result;
  }

  Error expandGraph(onnx::GraphProto &graph) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(graph.mutable_node());
    for (auto &node : nodes)
      if (Error error = expandNode(std::move(node), graph))
        return error;
    return Error::success();
  }

  /// Appends `node` to `graph`, or what it calls.
  Error expandNode(onnx::NodeProto &&node, onnx::GraphProto &graph) {
    if (const Function *function = table.find(node))
      return expandCall(*function, node, graph);
    for (auto &attribute : *node.mutable_attribute()) {
      if (attribute.has_g())
        if (Error error = expandGraph(*attribute.mutable_g()))
          return error;
      for (auto &body : *attribute.mutable_graphs())
        if (Error error = expandGraph(body))
          return error;
    }
    *graph.add_node() = std::move(node);
    return Error::success();
  }

  Error expandCall(const Function &function, const onnx::NodeProto &node, onnx::GraphProto &graph) {
    const onnx::FunctionProto &proto = *function.proto;
    if (node.input_size() > proto.input_size() || node.output_size() > proto.output_size())
      return Diagnostic(Diag::MalformedModel, table.at(node.name()))
             << "function '" << function.name() << "' has " << proto.input_size() << " inputs and "
             << proto.output_size() << " outputs; a call gives it " << node.input_size() << " and "
             << node.output_size();
    Call call{function, node.name().empty() ? node.op_type() : node.name(), node, {}};
    for (int i = 0; i < proto.input_size(); ++i)
      call.names[proto.input(i)] = i < node.input_size() ? node.input(i) : "";
    std::vector<int> copies; // outputs that are inputs of the function, or given twice
    for (int i = 0; i < node.output_size(); ++i)
      if (!node.output(i).empty() &&
          !call.names.try_emplace(proto.output(i), node.output(i)).second)
        copies.push_back(i);
    for (onnx::NodeProto inner : proto.node()) {
      adapt(inner, call);
      if (Error error = expandNode(std::move(inner), graph))
        return error;
    }
    for (int i : copies) {
      auto *copy = graph.add_node();
      copy->set_op_type("Identity");
      copy->set_name(call.prefix + "/" + proto.output(i));
      copy->add_input(call.names[proto.output(i)]);
      copy->add_output(node.output(i));
    }
    return Error::success();
  }

  void rename(std::string &name, Call &call) {
    if (name.empty())
      return;
    auto [entry, first] = call.names.try_emplace(name);
    if (first)
      entry->second = fresh(call, name);
    name = entry->second;
  }

  /// Turns `node` of the function's text into one of `call`.
  void adapt(onnx::NodeProto &node, Call &call) {
    for (std::string &name : *node.mutable_input())
      rename(name, call);
    for (std::string &name : *node.mutable_output())
      rename(name, call);
    std::string name = call.prefix + "/" + (node.name().empty() ? node.op_type() : node.name());
    node.set_name(name.size() > longestName ? name.substr(name.size() - longestName) : name);
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> attributes;
    attributes.Swap(node.mutable_attribute());
    for (auto &attribute : attributes) {
      if (!attribute.ref_attr_name().empty()) {
        resolve(attribute, call, node);
        continue;
      }
      if (attribute.has_g())
        adaptGraph(*attribute.mutable_g(), call);
      for (auto &graph : *attribute.mutable_graphs())
        adaptGraph(graph, call);
      *node.add_attribute() = std::move(attribute);
    }
  }

  void adaptGraph(onnx::GraphProto &graph, Call &call) {
    for (auto *values : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
      for (auto &value : *values)
        rename(*value.mutable_name(), call);
    for (auto &initializer : *graph.mutable_initializer())
      rename(*initializer.mutable_name(), call);
    for (auto &initializer : *graph.mutable_sparse_initializer())
      rename(*initializer.mutable_values()->mutable_name(), call);
    for (auto &node : *graph.mutable_node())
      adapt(node, call);
  }

  /// Gives `node` the attribute of the call that `reference` names, or the function's default;
  /// without either the operator's own default counts.
  static void resolve(const onnx::AttributeProto &reference, const Call &call,
                      onnx::NodeProto &node) {
    auto take = [&](const auto &attributes) {
      for (const onnx::AttributeProto &attribute : attributes)
        if (attribute.name() == reference.ref_attr_name()) {
          auto *result = node.add_attribute();
          *result = attribute;
          result->set_name(reference.name());
          return true;
        }
      return false;
    };
    if (!take(call.node.attribute()))
      take(call.function.defaults);
  }
};

} // namespace

Error inlineFunctions(onnx::ModelProto &model, StringRef path) {
  return model.functions_size() ? Inliner(model, path).run() : Error::success();
}

} // namespace heterplan
