#include "ir/onnx/Functions.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

#include <algorithm>
#include <vector>

using namespace llvm;

namespace heterplan {

namespace {

constexpr double mostNodes = 1 << 22;
constexpr double mostBytes = double(1) * (1 << 30);
constexpr int deepestNesting = 100;
constexpr size_t longestName = 240;
// Fields that libonnx 1.12 does not know.
constexpr int overloadOfNode = 8, overloadOfFunction = 13, defaultsOfFunction = 11;

/// Values of the unknown field `number` of `message`, in order.
std::vector<std::string> unknownField(const google::protobuf::Message &message, int number) {
  std::vector<std::string> values;
  const auto &fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i)
    if (fields.field(i).number() == number &&
        fields.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      values.push_back(fields.field(i).length_delimited());
  return values;
}

std::string keyOf(StringRef domain, StringRef name, const std::vector<std::string> &overload) {
  std::string key = (domain == "ai.onnx" ? "" : domain).str() + '\0' + name.str() + '\0';
  return overload.empty() ? key : key + overload.back();
}

bool isDefault(StringRef domain) { return domain.empty() || domain == "ai.onnx"; }

template <typename Proto> int64_t defaultOpset(const Proto &proto) {
  int64_t version = 0;
  for (const auto &import : proto.opset_import())
    if (isDefault(import.domain()))
      version = std::max<int64_t>(version, import.version());
  return version;
}

/// Calls `use` with each node of `nodes` and of the subgraphs in them.
template <typename Nodes, typename Use> void eachNode(Nodes &nodes, Use use) {
  for (auto &node : nodes) {
    use(node);
    for (auto &attribute : node.attribute()) {
      if (attribute.has_g())
        eachNode(attribute.g().node(), use);
      for (auto &graph : attribute.graphs())
        eachNode(graph.node(), use);
    }
  }
}

struct Function {
  const onnx::FunctionProto *proto = nullptr;
  std::vector<onnx::AttributeProto> defaults;
  std::vector<int> calls; // functions, one for each call
  enum { Unseen, Open, Done } state = Unseen;
  // Of the body after inlining:
  double nodes = 0, bytes = 0;
  int depth = 1;
};

class Inliner {
public:
  Inliner(onnx::ModelProto &model, StringRef path) : model(model), path(path) {}

  Error run() {
    if (Error error = indexFunctions())
      return error;
    eachNode(model.graph().node(), [&](const onnx::NodeProto &node) {
      if (int callee = find(node); callee >= 0)
        called.push_back(callee);
    });
    for (int function : called)
      if (Error error = measure(function))
        return error;
    if (Error error = checkSize())
      return error;
    if (Error error = checkVersions())
      return error;
    collectNames(model.graph());
    if (Error error = expandGraph(*model.mutable_graph()))
      return error;
    model.clear_functions();
    return Error::success();
  }

private:
  /// What the names of a function mean in one call of it.
  struct Call {
    const Function &function;
    std::string prefix;
    const onnx::NodeProto &node;
    StringMap<std::string> names;
  };

  onnx::ModelProto &model;
  StringRef path;
  std::vector<Function> functions;
  StringMap<int> byKey;
  std::vector<int> called; // by the graph, one for each call
  StringSet<> used;        // names of tensors
  StringMap<int> suffixes;

  Location at(StringRef element) const { return {path.str(), 0, 0, element.str()}; }

  static std::string nameOf(const Function &function) {
    return StringRef(function.proto->name()).take_front(200).str();
  }

  int find(const onnx::NodeProto &node) const {
    auto found =
        byKey.find(keyOf(node.domain(), node.op_type(), unknownField(node, overloadOfNode)));
    return found == byKey.end() ? -1 : found->second;
  }

  Error indexFunctions() {
    for (const auto &proto : model.functions()) {
      Function function;
      function.proto = &proto;
      for (const std::string &bytes : unknownField(proto, defaultsOfFunction))
        if (!function.defaults.emplace_back().ParseFromString(bytes))
          return Diagnostic(Diag::MalformedModel, at(proto.name()))
                 << "a default of the function's attributes does not parse";
      std::string key =
          keyOf(proto.domain(), proto.name(), unknownField(proto, overloadOfFunction));
      if (!byKey.try_emplace(key, static_cast<int>(functions.size())).second)
        return Diagnostic(Diag::DuplicateName, at(proto.name()))
               << "function '" << nameOf(function) << "' is defined twice";
      functions.push_back(std::move(function));
    }
    return Error::success();
  }

  /// Size and nesting of `root` and all that it calls, callees first, without recursion.
  Error measure(int root) {
    std::vector<std::pair<int, size_t>> open; // function and the next of its calls
    auto enter = [&](int index) {
      Function &function = functions[index];
      function.state = Function::Open;
      eachNode(function.proto->node(), [&](const onnx::NodeProto &node) {
        ++function.nodes;
        if (int callee = find(node); callee >= 0)
          function.calls.push_back(callee);
      });
      function.bytes = static_cast<double>(function.proto->ByteSizeLong());
      open.push_back({index, 0});
    };
    if (functions[root].state == Function::Unseen)
      enter(root);
    while (!open.empty()) {
      auto &[index, next] = open.back();
      Function &function = functions[index];
      if (next == function.calls.size()) {
        finish(function);
        open.pop_back();
        continue;
      }
      int callee = function.calls[next++];
      if (functions[callee].state == Function::Open)
        return Diagnostic(Diag::CyclicGraph, at(function.proto->name()))
               << "function '" << nameOf(functions[callee]) << "' calls itself"
               << (callee == index ? "" : " through '" + nameOf(function) + "'");
      if (functions[callee].state == Function::Unseen)
        enter(callee);
    }
    return Error::success();
  }

  void finish(Function &function) {
    function.state = Function::Done;
    for (int callee : function.calls) {
      function.nodes += functions[callee].nodes;
      function.bytes += functions[callee].bytes;
      function.depth = std::max(function.depth, functions[callee].depth + 1);
    }
  }

  Error checkSize() const {
    double nodes = 0, bytes = 0;
    for (int index : called) {
      const Function &function = functions[index];
      nodes += function.nodes;
      bytes += function.bytes;
      if (function.depth > deepestNesting)
        return Diagnostic(Diag::AbsurdSize, at(function.proto->name()))
               << "functions call each other " << function.depth << " deep; up to "
               << deepestNesting << " are accepted";
      if (nodes > mostNodes || bytes > mostBytes)
        return Diagnostic(Diag::AbsurdSize, at(function.proto->name()))
               << "inlining the functions of the model would give more than "
               << static_cast<int64_t>(mostNodes) << " operators or "
               << static_cast<int64_t>(mostBytes) << " bytes";
    }
    return Error::success();
  }

  /// A function may import another version of the operators than the model where, as the standard
  /// wants it, the operators that it uses are the same in both.
  Error checkVersions() {
    int64_t version = defaultOpset(model);
    if (!version) {
      for (const Function &function : functions)
        if (function.state == Function::Done)
          version = std::max(version, defaultOpset(*function.proto));
      auto *import = version ? model.add_opset_import() : nullptr;
      if (import)
        import->set_version(version);
    }
    for (const Function &function : functions) {
      if (function.state != Function::Done)
        continue;
      importDomains(*function.proto);
      int64_t own = defaultOpset(*function.proto);
      if (own && own != version)
        if (Error error = compareVersions(function, own, version))
          return error;
    }
    return Error::success();
  }

  void importDomains(const onnx::FunctionProto &function) {
    for (const auto &wanted : function.opset_import()) {
      bool known = isDefault(wanted.domain());
      for (const auto &import : model.opset_import())
        known = known || import.domain() == wanted.domain();
      if (!known)
        *model.add_opset_import() = wanted;
    }
  }

  Error compareVersions(const Function &function, int64_t own, int64_t version) const {
    std::string differs;
    eachNode(function.proto->node(), [&](const onnx::NodeProto &node) {
      if (!isDefault(node.domain()) || find(node) >= 0 || !differs.empty())
        return;
      auto *here = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(own), "");
      auto *there = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(version), "");
      if (here && there && here->SinceVersion() != there->SinceVersion())
        differs = node.op_type();
    });
    if (differs.empty())
      return Error::success();
    return Diagnostic(Diag::UnsupportedOperator, at(function.proto->name()))
               .note({}, "export the model and its functions with one operator set")
           << "function '" << nameOf(function) << "' uses operator set " << own << " and the model "
           << version << ", in which '" << differs << "' differs";
  }

  void collectNames(const onnx::GraphProto &graph) {
    for (const auto &initializer : graph.initializer())
      used.insert(initializer.name());
    for (const auto &input : graph.input())
      used.insert(input.name());
    eachNode(graph.node(), [&](const onnx::NodeProto &node) {
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
    if (int callee = find(node); callee >= 0)
      return expandCall(functions[callee], node, graph);
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
      return Diagnostic(Diag::MalformedModel, at(node.name()))
             << "function '" << nameOf(function) << "' has " << proto.input_size() << " inputs and "
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
