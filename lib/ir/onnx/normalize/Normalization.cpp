#include "ir/onnx/normalize/Normalization.h"

#include "ir/onnx/infer/Inference.h"
#include "ir/onnx/normalize/Rewriting.h"

#include "llvm/ADT/StringMap.h"

#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

#include <algorithm>
#include <exception>

using namespace llvm;

namespace heterplan {

using namespace rewriting;

namespace {

constexpr int64_t libraryOpset = 17; // of libonnx 1.12

StringRef domainOf(StringRef domain) { return domain == "ai.onnx" ? "" : domain; }

/// Rules by domain and operator, in the order of the tables.
const std::vector<const Rule *> &rulesOf(StringRef domain, StringRef op) {
  static const StringMap<std::vector<const Rule *>> table = [] {
    StringMap<std::vector<const Rule *>> result;
    for (ArrayRef<Rule> rules : {versionRules(), fusedRules()})
      for (const Rule &rule : rules)
        result[(StringRef(rule.domain) + "." + rule.op).str()].push_back(&rule);
    return result;
  }();
  static const std::vector<const Rule *> none;
  auto found = table.find((domain + "." + op).str());
  return found == table.end() ? none : found->second;
}

class Normalizer {
public:
  Normalizer(onnx::ModelProto &model, const Location &place)
      : model(model), place(place), names(model) {}

  Error run() {
    if (!model.has_graph())
      return Error::success(); // which is told when it is converted
    if (Error error = readVersions())
      return error;
    return visit(*model.mutable_graph());
  }

private:
  onnx::ModelProto &model;
  const Location &place;
  NameTable names;
  StringMap<int64_t> versions; // by domain

  Error readVersions() {
    for (const auto &import : model.opset_import()) {
      int64_t &version = versions[domainOf(import.domain())];
      version = std::max<int64_t>(version, import.version());
    }
    if (versions.empty() || (versions.count("") && versions[""] < 1))
      return Diagnostic(Diag::MalformedModel, place)
             << "does not state the operator set that it uses";
    if (versions.lookup("") > canonicalOpset)
      return Diagnostic(Diag::UnsupportedOperator, place)
                 .note({}, "export the model with opset_version=" + std::to_string(canonicalOpset))
             << "operator set " << versions[""] << " is not supported; up to " << canonicalOpset
             << " are";
    return Error::success();
  }

  Error visit(onnx::GraphProto &graph) {
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    graph.mutable_node()->Reserve(nodes.size());
    for (int i = 0; i < nodes.size(); ++i) {
      onnx::NodeProto &node = *nodes.Mutable(i);
      if (node.name().empty())
        node.set_name(node.op_type() + "_" + std::to_string(i));
      for (auto &attribute : *node.mutable_attribute()) {
        if (attribute.has_g())
          if (Error error = visit(*attribute.mutable_g()))
            return error;
        for (auto &subgraph : *attribute.mutable_graphs())
          if (Error error = visit(subgraph))
            return error;
      }
      if (Error error = normalizeNode(node, *graph.mutable_node()))
        return error;
    }
    return Error::success();
  }

  /// Appends to `out` what stands for `node`.
  Error normalizeNode(onnx::NodeProto &node, Nodes &out) {
    StringRef domain = domainOf(node.domain());
    auto imported = versions.find(domain);
    int64_t version = imported == versions.end() ? 1 : imported->second;
    if (Error error = checkNode(node, domain, version))
      return error;
    Rewriting rewriting(node, version, out, names, place);
    for (const Rule *rule : rulesOf(domain, node.op_type())) {
      if (version >= rule->below || rewriting.replaced)
        continue;
      if (Error error = checkRequired(node, rule->required))
        return error;
      if (Error error = rule->rewrite(rewriting))
        return error;
    }
    if (!rewriting.replaced)
      out.Add()->Swap(&node);
    return Error::success();
  }

  Error malformed(const onnx::NodeProto &node, const Twine &what) {
    return Diagnostic(Diag::MalformedModel, {place.file, 0, 0, node.name()})
           << "operator '" << node.op_type() << "': " << what.str();
  }

  Error checkNode(const onnx::NodeProto &node, StringRef domain, int64_t version) {
    const InferenceRule *rule = findInference(domain, node.op_type());
    bool newer = domain.empty() && version > libraryOpset;
    const onnx::OpSchema *schema =
        rule && newer ? nullptr : schemaOf(node.op_type(), domain, version);
    if (schema)
      return checkBySchema(node, *schema);
    return rule ? checkCounts(node, *rule) : Error::success();
  }

  /// Exporters use operators before their set has them: then the newest form counts.
  static const onnx::OpSchema *schemaOf(const std::string &op, StringRef domain, int64_t version) {
    bool known = domain.empty();
    int capped = static_cast<int>(std::min(version, known ? libraryOpset : int64_t(1) << 30));
    const auto *schema = onnx::OpSchemaRegistry::Schema(op, capped, domain.str());
    return schema || !known ? schema
                            : onnx::OpSchemaRegistry::Schema(op, libraryOpset, domain.str());
  }

  static bool isEmptyList(const onnx::AttributeProto &each) {
    using Kind = onnx::AttributeProto;
    return (each.type() == Kind::INTS && each.ints_size() == 0) ||
           (each.type() == Kind::FLOATS && each.floats_size() == 0);
  }

  /// The library misses the field of a list that has no elements: it is not shown such.
  static void verify(const onnx::NodeProto &node, const onnx::OpSchema &schema) {
    if (none_of(node.attribute(), isEmptyList))
      return schema.Verify(node);
    onnx::NodeProto shown = node;
    auto &attributes = *shown.mutable_attribute();
    attributes.erase(remove_if(attributes, isEmptyList), attributes.end());
    schema.Verify(shown);
  }

  Error checkBySchema(const onnx::NodeProto &node, const onnx::OpSchema &schema) {
    try {
      verify(node, schema);
    } catch (const std::exception &exception) {
      return malformed(node, StringRef(exception.what()).split('\n').first.take_front(300));
    }
    return Error::success();
  }

  Error checkCounts(const onnx::NodeProto &node, const InferenceRule &rule) {
    auto within = [](int count, const CountRange &range) {
      return count >= range.least && count <= range.most;
    };
    if (!within(node.input_size(), rule.inputs))
      return malformed(node, Twine(node.input_size()) + " inputs; " + Twine(rule.inputs.least) +
                                 " to " + Twine(rule.inputs.most) + " are accepted");
    if (!within(node.output_size(), rule.outputs))
      return malformed(node, Twine(node.output_size()) + " outputs; " + Twine(rule.outputs.least) +
                                 " to " + Twine(rule.outputs.most) + " are accepted");
    return checkRequired(node, rule.required);
  }

  Error checkRequired(const onnx::NodeProto &node, int count) {
    for (int i = 0; i < count; ++i)
      if (i >= node.input_size() || node.input(i).empty())
        return malformed(node, "input " + Twine(i) + " is left out, but required");
    return Error::success();
  }
};

} // namespace

Error normalize(onnx::ModelProto &model, const Location &place) {
  return Normalizer(model, place).run();
}

} // namespace heterplan
