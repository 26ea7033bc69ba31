#include "codegen/Scope.h"

#include <functional>

using namespace llvm;

namespace heterplan {

GraphUse::GraphUse(const Graph &graph)
    : consumers(graph.tensors.size()), producers(graph.tensors.size(), -1),
      returned(graph.tensors.size()), inBody(graph.tensors.size()) {
  python::Identifiers identifiers;
  for (const GraphTensor &tensor : graph.tensors)
    names.push_back(tensor.role == TensorRole::Input || tensor.role == TensorRole::Activation
                        ? identifiers.make(tensor.name)
                        : "");
  for (const std::string &name : names)
    allNames.insert(name);
  for (const GraphNode &node : graph.nodes)
    noteBodies(node);
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (TensorId tensor : graph.nodes[node].inputs)
      if (tensor != noTensor)
        consumers[tensor].push_back(static_cast<int>(node));
    for (TensorId tensor : graph.nodes[node].outputs)
      if (tensor != noTensor)
        producers[tensor] = static_cast<int>(node);
  }
  for (TensorId tensor : graph.outputs)
    returned[tensor] = true;
}

/// Marks the tensors that bodies read as used, although no node of the graph consumes them.
void GraphUse::noteBodies(const GraphNode &node) {
  for (const GraphBody &body : node.bodies) {
    for (TensorId tensor : body.outputs)
      inBody[tensor] = true;
    for (const GraphNode &inner : body.nodes) {
      for (TensorId tensor : inner.inputs)
        if (tensor != noTensor)
          inBody[tensor] = true;
      noteBodies(inner);
    }
  }
}

namespace {
bool isStored(const GraphTensor &tensor) { return heterplan::isStored(tensor.role); }
} // namespace

std::string Scope::deviceOf(TensorId tensor) const {
  const std::string &name = theUse.names[tensor];
  switch (theGraph.tensors[tensor].container) {
  case Container::None:
    return name + ".device";
  case Container::Optional:
    return "None if " + name + " is None else " + name + ".device";
  default: // None is PyTorch's default device
    return name + "[0].device if " + name + " else None";
  }
}

void Scope::addArgument(TensorId tensor) {
  variables[tensor] = tensor;
  bool plain = theGraph.tensors[tensor].container == Container::None;
  if (deviceExpression.empty() || (plain && !deviceOfTensor))
    deviceExpression = deviceOf(tensor);
  deviceOfTensor |= plain;
  if (!batchExpression.empty())
    return;
  const Shape &shape = theGraph.tensors[tensor].shape;
  const auto *grows = llvm::find_if(shape, [](Dim dim) { return dim.perSample > 0; });
  if (grows == shape.end())
    return;
  std::string size = theUse.names[tensor] + ".shape[" + std::to_string(grows - shape.begin()) + "]";
  if (grows->fixed)
    size = "(" + size + (grows->fixed < 0 ? " + " : " - ") +
           std::to_string(std::abs(grows->fixed)) + ")";
  if (grows->perSample > 1)
    size += " // " + std::to_string(grows->perSample);
  batchExpression = size;
}

void Scope::beginLayer(DenseMap<TensorId, int> local) { localUses = std::move(local); }

void Scope::beginBody(StringRef name, ArrayRef<TensorId> parameters) {
  std::vector<std::string> names;
  for (TensorId tensor : parameters) {
    variables[tensor] = tensor;
    noteInside(tensor);
    names.push_back(theUse.names[tensor]);
  }
  add(python::call(("def " + name).str(), names) + ":");
  ++depth;
}

void Scope::endBody(ArrayRef<TensorId> results) {
  std::vector<std::string> values;
  for (TensorId tensor : results)
    values.push_back(expression(tensor));
  add("return " + python::tuple(values));
  --depth;
  body += "\n";
}

void Scope::beginSegment() {
  outside = {std::move(body), {}, std::move(defined), usesBatch, usesDevice, usesStored};
  body.clear();
  defined.clear();
  reads.clear();
  inside.clear();
  usesBatch = usesDevice = usesStored = false;
  inSegment = true;
}

ScopeSegment Scope::endSegment() {
  ScopeSegment segment{std::move(body), std::move(reads), std::move(defined),
                       usesBatch,       usesDevice,       usesStored};
  body = std::move(outside.body);
  defined = std::move(outside.defined);
  usesBatch |= outside.usesBatch;
  usesDevice |= outside.usesDevice;
  usesStored = outside.usesStored;
  inSegment = false;
  return segment;
}

void Scope::noteInside(TensorId variable) {
  if (inSegment)
    inside.insert(variable);
}

void Scope::consume(ArrayRef<TensorId> operands) {
  if (depth) // a body may run again
    return;
  for (TensorId tensor : operands) {
    auto entry = localUses.find(tensor);
    if (entry == localUses.end() || --entry->second > 0)
      continue;
    auto name = llvm::find(names, shortNames[tensor]);
    if (name != names.end())
      taken[name - names.begin()] = false;
  }
}

std::vector<std::string> Scope::endLayer() {
  localUses.clear();
  taken.clear();
  shortNumber = 0;
  return std::exchange(names, {});
}

std::string Scope::takeShortName(TensorId tensor) {
  static constexpr StringLiteral letters = "xyzuvwabcdefghijklmqrst";
  size_t index = llvm::find(taken, false) - taken.begin();
  while (index == names.size()) {
    std::string name(1, letters[shortNumber % letters.size()]);
    if (shortNumber >= letters.size())
      name += std::to_string(shortNumber / letters.size());
    ++shortNumber;
    if (!theUse.allNames.contains(name))
      names.push_back(name);
  }
  taken.resize(names.size());
  taken[index] = true;
  return shortNames[tensor] = names[index];
}

std::string Scope::define(TensorId tensor) {
  variables[tensor] = tensor;
  noteInside(tensor);
  auto local = localUses.find(tensor);
  if (local != localUses.end())
    return local->second ? takeShortName(tensor) : "_";
  if (!depth) // locals of a body go with it
    defined.push_back(tensor);
  return theUse.names[tensor];
}

void Scope::alias(TensorId tensor, TensorId source) {
  auto variable = variables.find(source);
  TensorId target = variable == variables.end() ? source : variable->second;
  variables[tensor] = target;
  aliases[target].push_back(tensor);
}

SmallVector<TensorId, 2> Scope::namesOf(TensorId variable) const {
  SmallVector<TensorId, 2> result{variable};
  llvm::append_range(result, aliases.lookup(variable));
  return result;
}

bool Scope::knows(TensorId tensor) const {
  return variables.count(tensor) || isStored(theGraph.tensors[tensor]) ||
         theGraph.tensors[tensor].role == TensorRole::Size;
}

TensorId Scope::variable(TensorId tensor) const {
  auto entry = variables.find(tensor);
  TensorId source = entry == variables.end() ? tensor : entry->second;
  bool isVariable = theGraph.tensors[source].role == TensorRole::Input ||
                    theGraph.tensors[source].role == TensorRole::Activation;
  return isVariable ? source : noTensor;
}

std::string Scope::expression(TensorId tensor) {
  auto entry = variables.find(tensor);
  TensorId source = entry == variables.end() ? tensor : entry->second;
  if (theGraph.tensors[source].role == TensorRole::Size)
    return sizeTensor(theGraph.tensors[source]);
  if (!isStored(theGraph.tensors[source])) {
    if (inSegment && !inside.contains(source) && !llvm::is_contained(reads, source))
      reads.push_back(source);
    return nameOf(source);
  }
  registerStored(source);
  return "p(" + python::quote(theGraph.tensors[source].name) + ")";
}

std::string Scope::sizeTensor(const GraphTensor &tensor) {
  int64_t next = 0;
  std::function<std::string(size_t)> nested = [&](size_t axis) {
    if (axis == tensor.shape.size())
      return size(tensor.sizes[next++]);
    std::vector<std::string> items;
    for (int64_t i = 0; i < tensor.shape[axis].fixed; ++i)
      items.push_back(nested(axis + 1));
    return "[" + python::join(items) + "]";
  };
  return python::call("torch.tensor", {nested(0), "device=" + device()});
}

std::string Scope::nameOf(TensorId variable) const {
  auto name = shortNames.find(variable);
  return name == shortNames.end() ? theUse.names[variable] : name->second;
}

void Scope::registerStored(TensorId tensor) {
  usesStored = true;
  if (!stored.try_emplace(tensor, true).second)
    return;
  TensorRole role = theGraph.tensors[tensor].role;
  (role == TensorRole::Parameter ? parameters
   : role == TensorRole::Frozen  ? frozen
   : role == TensorRole::Buffer  ? buffers
                                 : constants)
      .push_back(tensor);
}

std::string Scope::size(Dim dim) {
  usesBatch |= dim.perSample != 0;
  return python::dimension(dim, "n");
}

std::string Scope::device() {
  usesDevice = true;
  return "device";
}

std::string Scope::firstStatements() const {
  return (usesBatch ? python::statement(8, "n = " + batchExpression) : "") +
         (usesDevice ? python::statement(8, "device = " + deviceExpression) : "");
}

void Scope::addComment(StringRef text, StringRef end) {
  body += python::commentLine(8 + 4 * depth, text, end);
}

void Scope::add(StringRef statement, StringRef remark) {
  body += python::statement(8 + 4 * depth, statement, remark);
}

} // namespace heterplan
