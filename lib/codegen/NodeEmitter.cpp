#include "codegen/NodeEmitter.h"

#include "codegen/Constants.h"
#include "codegen/Operators.h"
#include "ir/Attention.h"
#include "ir/Bias.h"
#include "ir/ModuleWeights.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace heterplan {

bool NodeEmitter::has(int index) const {
  return index < inputCount() && node.inputs[index] != noTensor;
}

bool NodeEmitter::isUsed(int index) const {
  if (index >= outputCount() || node.outputs[index] == noTensor)
    return false;
  TensorId tensor = node.outputs[index];
  return scope.use().returned[tensor] || scope.use().inBody[tensor] ||
         !scope.use().consumers[tensor].empty();
}

const GraphTensor &NodeEmitter::input(int index) const {
  return scope.graph().tensors[node.inputs[index]];
}

const GraphTensor &NodeEmitter::output(int index) const {
  return scope.graph().tensors[node.outputs[index]];
}

namespace {
/// Whether `tensor` is one number that Python can write.
bool isNumber(const GraphTensor &tensor) {
  bool known = isLiteral(tensor) || tensor.role == TensorRole::Size;
  return known && fixedElementCount(tensor) == 1;
}
} // namespace

std::string NodeEmitter::operand(int index, int beside) {
  const GraphTensor &tensor = input(index), &other = input(beside);
  bool harmless = tensor.shape.size() <= other.shape.size() && !isNumber(other);
  return isNumber(tensor) && harmless ? *number(index) : in(index);
}

std::optional<std::string> NodeEmitter::number(int index) {
  auto all = numbers(index);
  return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
}

std::optional<std::vector<std::string>> NodeEmitter::numbers(int index) {
  if (!has(index))
    return std::nullopt;
  const GraphTensor &tensor = input(index);
  std::vector<std::string> result;
  if (tensor.role == TensorRole::Size)
    for (Dim dim : tensor.sizes) {
      std::string size = scope.size(dim);
      result.push_back(StringRef(size).contains(' ') ? "(" + size + ")" : size);
    }
  else if (isLiteral(tensor))
    for (int64_t i = 0, count = *fixedElementCount(tensor); i < count; ++i)
      result.push_back(elementLiteral(tensor, i));
  else
    return std::nullopt;
  return result;
}

std::vector<std::string> NodeEmitter::allInputs() {
  std::vector<std::string> result;
  for (int i = 0; i < inputCount(); ++i)
    if (has(i))
      result.push_back(in(i));
  return result;
}

int64_t NodeEmitter::integer(StringRef name, int64_t fallback) const {
  auto entry = node.attributes.find(name.str());
  if (entry == node.attributes.end())
    return fallback;
  const auto *value = std::get_if<int64_t>(&entry->second);
  return value ? *value : fallback;
}

double NodeEmitter::real(StringRef name, double fallback) const {
  auto entry = node.attributes.find(name.str());
  if (entry == node.attributes.end())
    return fallback;
  const auto *value = std::get_if<double>(&entry->second);
  return value ? *value : fallback;
}

std::string NodeEmitter::text(StringRef name, StringRef fallback) const {
  auto entry = node.attributes.find(name.str());
  if (entry == node.attributes.end())
    return fallback.str();
  const auto *value = std::get_if<std::string>(&entry->second);
  return value ? *value : fallback.str();
}

const TensorData *NodeEmitter::tensor(StringRef name) const {
  auto entry = node.attributes.find(name.str());
  return entry == node.attributes.end() ? nullptr : std::get_if<TensorData>(&entry->second);
}

Integers NodeEmitter::integers(StringRef name) const {
  auto entry = node.attributes.find(name.str());
  if (entry == node.attributes.end())
    return {};
  const auto *values = std::get_if<Integers>(&entry->second);
  return values ? *values : Integers{};
}

Expected<Integers> NodeEmitter::integers(StringRef name, size_t count, int64_t fallback) const {
  if (!hasAttribute(name))
    return Integers(count, fallback);
  Integers values = integers(name);
  if (values.size() != count)
    return refuse(
        ("attribute '" + name + "' has " + Twine(values.size()) + " values, not " + Twine(count))
            .str());
  return values;
}

std::string NodeEmitter::lookup(int table, int indices) {
  if (!scope.tables.contains(node.inputs[table]))
    return "";
  scope.lookups.push_back({node.inputs[table], node.inputs[indices]});
  return python::call("self.lookup", {python::quote(input(table).name), in(indices)});
}

bool NodeEmitter::isStored(int index) const {
  return has(index) && heterplan::isStored(input(index).role);
}

bool NodeEmitter::isBiasOf(int index, int product) const {
  if (!has(index) || !has(product) || !isBias(input(index)))
    return false;
  const int producer = scope.use().producers[node.inputs[product]];
  return producer >= 0 && takesBias(scope.graph().nodes[producer]);
}

bool NodeEmitter::isPlainAttention() const {
  return heterplan::isPlainAttention(scope.graph(), node);
}

bool NodeEmitter::isConstant(int index) const {
  return has(index) && input(index).role == TensorRole::Constant && hasValues(input(index));
}

Expected<Integers> NodeEmitter::constantIntegers(int index) const {
  auto values = has(index) ? integerValues(input(index)) : std::nullopt;
  if (!values)
    return refuse(("input " + Twine(index) + " must be a constant with known values").str());
  return *values;
}

Expected<double> NodeEmitter::constantReal(int index) const {
  if (!isConstant(index) || fixedElementCount(input(index)) != 1)
    return refuse(("input " + Twine(index) + " must be a constant of one element").str());
  return elementValue(input(index), 0);
}

Expected<std::optional<Integers>> NodeEmitter::attributeOrInput(StringRef name, int index) const {
  if (hasAttribute(name))
    return std::optional<Integers>(integers(name));
  if (!has(index))
    return std::optional<Integers>();
  auto values = constantIntegers(index);
  if (!values)
    return values.takeError();
  return std::optional<Integers>(std::move(*values));
}

Expected<int64_t> NodeEmitter::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    return refuse(("axis " + Twine(axis) + " is outside a tensor of rank " + Twine(rank)).str());
  return axis < 0 ? axis + rank : axis;
}

Expected<Integers> NodeEmitter::fixedSizes(const GraphTensor &tensor, size_t count) const {
  Integers sizes;
  if (tensor.shape.size() < count)
    return refuse("a tensor has too few dimensions");
  if (!isStatic(tensor))
    return refuse("a dimension that must be fixed depends on values");
  for (Dim dim : ArrayRef<Dim>(tensor.shape).take_back(count)) {
    if (dim.perSample)
      return refuse("a dimension that must be fixed depends on the batch");
    sizes.push_back(dim.fixed);
  }
  return sizes;
}

std::string NodeEmitter::outputSizes(int index) {
  const Shape &shape = output(index).shape;
  int open = 0;
  bool empty = false;
  for (Dim dim : shape) {
    open += dim.perSample != 0;
    empty |= dim == Dim{};
  }
  std::vector<std::string> sizes;
  for (Dim dim : shape)
    sizes.push_back(dim.perSample && open == 1 && !empty ? "-1" : size(dim));
  return shape.empty() ? "()" : python::join(sizes);
}

namespace {
struct PythonLiteral {
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return python::literal(static_cast<float>(value)); }
  std::string operator()(const std::string &value) const { return python::quote(value); }
  std::string operator()(const Integers &values) const { return python::tuple(values); }
  template <typename T> std::string operator()(const std::vector<T> &values) const {
    std::vector<std::string> items;
    items.reserve(values.size());
    for (const T &value : values)
      items.push_back((*this)(value));
    return python::tuple(items);
  }
  std::string operator()(const TensorData &) const { return "None"; }
};
} // namespace

std::string NodeEmitter::helper(StringRef name, const std::vector<std::string> &arguments) {
  scope.usesHelpers = true;
  return python::call(("ops." + name).str(), arguments);
}

std::vector<std::string> NodeEmitter::arguments(StringRef settings) {
  std::vector<std::string> arguments;
  for (size_t i = 0; i < node.operands().size(); ++i)
    arguments.push_back(optional(static_cast<int>(i)));
  SmallVector<StringRef, 8> names;
  settings.split(names, ' ', -1, false);
  for (StringRef name : names)
    if (int index = 0; name.consume_front("#") && !name.getAsInteger(10, index) && has(index))
      arguments[index] = setting(index);
  for (std::string &keyword : keywords(settings))
    arguments.push_back(std::move(keyword));
  return arguments;
}

std::vector<std::string> NodeEmitter::keywords(StringRef settings) const {
  SmallVector<StringRef, 8> names;
  settings.split(names, ' ', -1, false);
  std::vector<std::string> result;
  for (StringRef name : names)
    if (auto entry = node.attributes.find(name.str()); entry != node.attributes.end())
      result.push_back((name + "=" + std::visit(PythonLiteral(), entry->second)).str());
  return result;
}

std::string NodeEmitter::setting(int index) {
  auto values = has(index) ? numbers(index) : std::nullopt;
  if (!values || input(index).shape.size() > 1)
    return optional(index);
  return input(index).shape.empty() ? values->front() : "[" + python::join(*values) + "]";
}

Error NodeEmitter::defineBody(StringRef attribute) {
  const GraphBody *body = node.body(attribute);
  if (!body)
    return refuse(("it has no body '" + attribute + "'").str());
  scope.beginBody(attribute, body->inputs);
  for (const GraphNode &inner : body->nodes)
    if (Error error = emitNode(scope, inner))
      return error;
  for (TensorId tensor : body->outputs)
    if (!scope.knows(tensor))
      return refuse("its body returns what nothing computes");
  scope.endBody(body->outputs);
  return Error::success();
}

Error NodeEmitter::refuse(StringRef why) const {
  return Diagnostic(Diag::NotGeneratable, {scope.graph().name, 0, 0, node.name})
         << "operator " << node.op << " cannot be written in PyTorch: " << why;
}

namespace {
using EmitFunction = Expression (*)(NodeEmitter &);

EmitFunction functionOf(StringRef op) {
  return StringSwitch<EmitFunction>(op)
#define HETERPLAN_OPERATOR(op, function) .Case(op, emit##function)
#define HETERPLAN_SOURCE(op, function) .Case(op, emit##function)
#define HETERPLAN_UNARY(op, before, after)                                                         \
  .Case(op, [](NodeEmitter &e) -> Expression { return before + e.in(0) + after; })
#define HETERPLAN_HELPER(op, function, count, settings)                                            \
  .Case(op, [](NodeEmitter &e) -> Expression {                                                     \
    e.results = (count) == 1 ? 0 : (count);                                                        \
    return e.helper(function, e.arguments(settings));                                              \
  })
#include "codegen/Operators.def"
      .Default(nullptr);
}

std::string tableKey(StringRef domain, StringRef op) {
  return domain.empty() || domain == "ai.onnx" ? op.str() : (domain + ":" + op).str();
}

/// Whether `op` may be without inputs.
bool isSource(StringRef op) {
  return StringSwitch<bool>(op)
#define HETERPLAN_SOURCE(op, function) .Case(op, true)
#include "codegen/Operators.def"
      .Default(false);
}

bool isTorchType(DataType type) {
  return sizeOf(type) > 0 && type != DataType::UInt16 && type != DataType::UInt32 &&
         type != DataType::UInt64;
}

Error checkOperands(const Scope &scope, const GraphNode &node, const NodeEmitter &emitter) {
  if (!isSource(node.op) && (node.inputs.empty() || node.inputs[0] == noTensor))
    return emitter.refuse("it has no first input");
  for (TensorId tensor : node.outputs)
    if (tensor != noTensor && !isTorchType(scope.graph().tensors[tensor].type))
      return emitter.refuse("PyTorch does not compute with its type");
  for (TensorId tensor : node.inputs)
    if (tensor != noTensor && sizeOf(scope.graph().tensors[tensor].type) == 0)
      return emitter.refuse("PyTorch does not compute with its type");
  for (TensorId tensor : node.inputs)
    if (tensor != noTensor && !scope.knows(tensor))
      return emitter.refuse("its input '" + scope.graph().tensors[tensor].name +
                            "' is computed neither in this stage nor before it");
  return Error::success();
}

/// "a", or "a, b, _" for an operator that returns a tuple.
std::string targets(Scope &scope, const GraphNode &node, int results) {
  std::vector<std::string> names;
  for (TensorId tensor : node.outputs)
    if (names.empty() || results)
      names.push_back(tensor == noTensor ? "_" : scope.define(tensor));
  names.resize(std::max<size_t>(names.size(), results), "_");
  return python::join(names) + (results == 1 ? "," : "");
}

/// The shape of the first output that there is.
std::string remark(const Scope &scope, const GraphNode &node) {
  for (TensorId tensor : node.outputs)
    if (tensor != noTensor)
      return python::remark(scope.graph().tensors[tensor]);
  return "";
}
} // namespace

bool hasRule(StringRef domain, StringRef op) { return functionOf(tableKey(domain, op)) != nullptr; }

Error emitNode(Scope &scope, const GraphNode &node) {
  NodeEmitter emitter(scope, node);
  EmitFunction function =
      takesModuleWeights(node) ? emitModuleRecurrent : functionOf(tableKey(node.domain, node.op));
  if (!function)
    return emitter.refuse("there is no rule for it" +
                          (node.domain.empty() ? "" : " in domain '" + node.domain + "'"));
  if (Error error = checkOperands(scope, node, emitter))
    return error;
  if (node.op == "Identity") { // nothing to compute
    scope.alias(node.outputs[0], node.inputs[0]);
    return Error::success();
  }
  Expression expression = function(emitter);
  if (!expression)
    return expression.takeError();
  for (int i = 1; !emitter.results && i < emitter.outputCount(); ++i)
    if (emitter.isUsed(i))
      return emitter.refuse(("its output " + Twine(i) + " is used").str());
  scope.consume(node.inputs); // the result may take the name of an operand
  scope.add(targets(scope, node, emitter.results) + " = " + *expression, remark(scope, node));
  return Error::success();
}

} // namespace heterplan
