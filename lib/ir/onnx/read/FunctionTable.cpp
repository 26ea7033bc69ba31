#include "ir/onnx/read/FunctionTable.h"

#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {

constexpr double mostNodes = 1 << 22;
constexpr double mostBytes = double(1) * (1 << 30);
constexpr int deepestNesting = 100;
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

} // namespace

Function::Function() = default;
Function::Function(Function &&) noexcept = default;
Function::~Function() = default;

std::string Function::name() const { return StringRef(proto->name()).take_front(200).str(); }

Error FunctionTable::read() {
  if (Error error = index())
    return error;
  eachProto(model.graph().node(), [&](const onnx::NodeProto &node) {
    if (int callee = indexOf(node); callee >= 0)
      called.push_back(callee);
  });
  for (int function : called)
    if (Error error = measure(function))
      return error;
  if (Error error = checkSize())
    return error;
  return checkVersions();
}

const Function *FunctionTable::find(const onnx::NodeProto &node) const {
  int found = indexOf(node);
  return found < 0 ? nullptr : &functions[found];
}

int FunctionTable::indexOf(const onnx::NodeProto &node) const {
  auto found = byKey.find(keyOf(node.domain(), node.op_type(), unknownField(node, overloadOfNode)));
  return found == byKey.end() ? -1 : found->second;
}

Error FunctionTable::index() {
  for (const auto &proto : model.functions()) {
    Function function;
    function.proto = &proto;
    for (const std::string &bytes : unknownField(proto, defaultsOfFunction))
      if (!function.defaults.emplace_back().ParseFromString(bytes))
        return Diagnostic(Diag::MalformedModel, at(proto.name()))
               << "a default of the function's attributes does not parse";
    std::string key = keyOf(proto.domain(), proto.name(), unknownField(proto, overloadOfFunction));
    if (!byKey.try_emplace(key, static_cast<int>(functions.size())).second)
      return Diagnostic(Diag::DuplicateName, at(proto.name()))
             << "function '" << function.name() << "' is defined twice";
    functions.push_back(std::move(function));
  }
  return Error::success();
}

/// Size and nesting of `root` and all that it calls, callees first, without recursion.
Error FunctionTable::measure(int root) {
  std::vector<std::pair<int, size_t>> open; // function and the next of its calls
  auto enter = [&](int index) {
    Function &function = functions[index];
    function.state = Function::Open;
    eachProto(function.proto->node(), [&](const onnx::NodeProto &node) {
      ++function.nodes;
      if (int callee = indexOf(node); callee >= 0)
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
             << "function '" << functions[callee].name() << "' calls itself"
             << (callee == index ? "" : " through '" + function.name() + "'");
    if (functions[callee].state == Function::Unseen)
      enter(callee);
  }
  return Error::success();
}

void FunctionTable::finish(Function &function) {
  function.state = Function::Done;
  for (int callee : function.calls) {
    function.nodes += functions[callee].nodes;
    function.bytes += functions[callee].bytes;
    function.depth = std::max(function.depth, functions[callee].depth + 1);
  }
}

Error FunctionTable::checkSize() const {
  double nodes = 0, bytes = 0;
  for (int index : called) {
    const Function &function = functions[index];
    nodes += function.nodes;
    bytes += function.bytes;
    if (function.depth > deepestNesting)
      return Diagnostic(Diag::AbsurdSize, at(function.proto->name()))
             << "functions call each other " << function.depth << " deep; up to " << deepestNesting
             << " are accepted";
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
Error FunctionTable::checkVersions() {
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

void FunctionTable::importDomains(const onnx::FunctionProto &function) {
  for (const auto &wanted : function.opset_import()) {
    bool known = isDefault(wanted.domain());
    for (const auto &import : model.opset_import())
      known = known || import.domain() == wanted.domain();
    if (!known)
      *model.add_opset_import() = wanted;
  }
}

Error FunctionTable::compareVersions(const Function &function, int64_t own, int64_t version) const {
  std::string differs;
  eachProto(function.proto->node(), [&](const onnx::NodeProto &node) {
    if (!isDefault(node.domain()) || indexOf(node) >= 0 || !differs.empty())
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
         << "function '" << function.name() << "' uses operator set " << own << " and the model "
         << version << ", in which '" << differs << "' differs";
}

} // namespace heterplan
