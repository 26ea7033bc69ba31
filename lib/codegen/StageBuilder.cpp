#include "codegen/StageBuilder.h"

#include "codegen/Constants.h"
#include "codegen/LookupIndices.h"
#include "codegen/NodeEmitter.h"
#include "support/Diagnostic.h"

using namespace llvm;

namespace heterplan {

StringMap<int> StageSource::numbersOf(const Graph &graph) {
  StringMap<int> numbers;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    numbers[graph.nodes[i].name] = static_cast<int>(i);
  return numbers;
}

DenseMap<int, int> StageSource::layersOf(const StringMap<int> &nodes, const LayerGraph &layers) {
  DenseMap<int, int> result;
  for (int layer = 0; layer < layers.size(); ++layer)
    for (const std::string &name : layers.layers[layer].nodes)
      if (auto node = nodes.find(name); node != nodes.end())
        result[node->second] = layer;
  return result;
}

Error StageBuilder::invalid(StringRef why, StringRef name) const {
  return Diagnostic(Diag::InvalidPlan, {model.layers.model, 0, 0, ""})
         << why << " '" << name << "'; plan, layers and model do not belong together";
}

Error StageBuilder::addTables() {
  for (const TableShards &shards : tables) {
    auto tensor = model.tensorByName.find(shards.table);
    if (tensor == model.tensorByName.end())
      return invalid("the graph has no table", shards.table);
    stage.tables.push_back(tensor->second);
    scope.tables.insert(tensor->second);
  }
  return Error::success();
}

Error StageBuilder::addBoundary() {
  for (int index : boundary.received) {
    const std::string &name = model.layers.tensors[index].name;
    auto tensor = model.tensorByName.find(name);
    if (tensor == model.tensorByName.end())
      return invalid("the graph has no tensor", name);
    stage.receives.push_back(tensor->second);
    scope.addArgument(tensor->second);
  }
  return Error::success();
}

/// Whether this stage computes `tensor`, which its layers do not: no layer does, or one of an
/// earlier stage that does not send it, since it depends on the inputs only (say, a mask).
bool StageBuilder::computesAgain(TensorId tensor) const {
  int producer = tensor == noTensor ? -1 : model.use.producers[tensor];
  if (producer < 0 || is_contained(stage.receives, tensor))
    return false;
  auto layer = model.layerOf.find(producer);
  return layer == model.layerOf.end() ||
         (layer->second < begin && !model.graph.tensors[tensor].differentiable);
}

/// Adds `node` to the stage, and before it what it needs that the stage computes again.
void StageBuilder::collect(int first) {
  std::vector<std::pair<int, bool>> stack{{first, false}};
  while (!stack.empty()) {
    auto [node, ready] = stack.back();
    stack.pop_back();
    if (ready && node != first)
      preamble.push_back(node);
    if (ready || !collected.insert(node).second)
      continue;
    stack.push_back({node, true});
    for (TensorId tensor : model.graph.nodes[node].inputs)
      if (computesAgain(tensor))
        stack.push_back({model.use.producers[tensor], false});
  }
}

Error StageBuilder::findInputs() {
  for (int layer = begin; layer < end; ++layer) {
    layerNodes.emplace_back();
    for (const std::string &name : model.layers.layers[layer].nodes) {
      auto node = model.nodeByName.find(name);
      if (node == model.nodeByName.end())
        return invalid("the graph has no node", name);
      layerNodes.back().push_back(node->second);
      collect(node->second);
    }
  }
  DenseSet<TensorId> read;
  for (int node : collected)
    for (TensorId tensor : model.graph.nodes[node].inputs)
      if (tensor != noTensor)
        read.insert(tensor), ++remainingUses[tensor];
  for (TensorId input : model.graph.inputs)
    if (read.count(input) || (end == model.layers.size() && model.use.returned[input])) {
      stage.inputs.push_back(input);
      scope.addArgument(input);
    }
  return Error::success();
}

Error StageBuilder::emitNodes(ArrayRef<int> nodes) {
  for (int node : nodes) {
    if (model.linear.isJoined(node))
      continue;
    if (Error error = emitNode(scope, model.linear.nodeAt(node)))
      return error;
  }
  return Error::success();
}

/// The tensors that only `nodes` use, with how often.
DenseMap<TensorId, int> StageBuilder::localTensors(ArrayRef<int> nodes) const {
  DenseMap<TensorId, int> uses, result;
  DenseSet<TensorId> renamed;
  for (int node : nodes) {
    const GraphNode &value = model.graph.nodes[node];
    for (TensorId tensor : value.inputs)
      if (tensor != noTensor)
        ++uses[tensor];
    if (value.op == "Identity" && !value.inputs.empty())
      renamed.insert(value.inputs[0]);
  }
  for (int node : nodes)
    for (TensorId tensor : model.graph.nodes[node].outputs) {
      bool local = tensor != noTensor && remainingUses.lookup(tensor) == uses.lookup(tensor) &&
                   !renamed.count(tensor) && !is_contained(stage.sends, tensor);
      if (local)
        result[tensor] = uses.lookup(tensor);
    }
  return result;
}

bool StageBuilder::isDead(TensorId variable) const {
  return none_of(scope.namesOf(variable), [&](TensorId tensor) {
    return remainingUses.lookup(tensor) > 0 || is_contained(stage.sends, tensor);
  });
}

/// Lets go of variables after their last use: autograd keeps what the backward pass needs.
void StageBuilder::release(std::vector<std::string> dead) {
  for (TensorId tensor : scope.defined)
    if (isDead(tensor))
      dead.push_back(model.use.names[tensor]);
  llvm::erase_if(scope.defined, [&](TensorId tensor) { return isDead(tensor); });
  constexpr size_t namesInLine = 6;
  for (ArrayRef<std::string> rest = dead; !rest.empty();) {
    ArrayRef<std::string> line = rest.take_front(std::min(rest.size(), namesInLine));
    scope.add("del " + python::join(line));
    rest = rest.drop_front(line.size());
  }
}

/// `last`: the layer after the function that the code is in; whatever has a name then ends there.
Error StageBuilder::emitLayer(int layer, int last) {
  std::vector<int> nodes = nodesOf(layer);
  const Layer &value = model.layers.layers[layer];
  scope.body += "\n";
  scope.addComment(value.name, std::string(" (") + nameOf(value.kind) + ")");
  scope.beginLayer(localTensors(nodes));
  if (gathers)
    scope.add("self.begin_layer()");
  if (Error error = emitNodes(nodes))
    return error;
  if (gathers)
    noteGathered();
  for (int node : nodes)
    for (TensorId tensor : model.graph.nodes[node].inputs)
      if (tensor != noTensor)
        --remainingUses[tensor];
  std::vector<std::string> shortNames = scope.endLayer();
  stage.layers.push_back(value.name);
  if (layer + 1 < last)
    release(std::move(shortNames));
  return Error::success();
}

/// Notes the parameters that the layer is the first to use.
void StageBuilder::noteGathered() {
  size_t known = 0;
  for (const std::vector<TensorId> &layer : stage.gathered)
    known += layer.size();
  stage.gathered.emplace_back(scope.parameters.begin() + known, scope.parameters.end());
}

Error StageBuilder::emitLayers(int first, int last) {
  for (int layer = first; layer < last; ++layer)
    if (Error error = emitLayer(layer, last))
      return error;
  return Error::success();
}

std::vector<std::string> StageBuilder::argumentsOf(const ScopeSegment &code) const {
  std::vector<std::string> arguments;
  for (TensorId tensor : code.reads)
    arguments.push_back(model.use.names[tensor]);
  if (code.usesBatch)
    arguments.emplace_back("n");
  if (code.usesDevice)
    arguments.emplace_back("device");
  return arguments;
}

/// Its layers become a method. It takes the variables from before that they read, and returns those
/// that are used after them.
Error StageBuilder::emitSegment(int first, int last) {
  scope.beginSegment();
  if (Error error = emitLayers(first, last))
    return error;
  ScopeSegment code = scope.endSegment();
  StageSegment segment{model.layers.layers[first].name,
                       argumentsOf(code),
                       {},
                       std::move(code.body),
                       code.usesStored};
  for (TensorId tensor : code.defined)
    if (!isDead(tensor)) {
      segment.results.push_back(model.use.names[tensor]);
      scope.defined.push_back(tensor);
    }
  std::vector<std::string> arguments = segment.arguments;
  arguments.insert(arguments.begin(), "self.segment" + std::to_string(stage.segments.size()));
  std::string call = python::call("self.checkpoint", arguments);
  scope.add(segment.results.empty() ? call : python::tuple(segment.results) + " = " + call);
  if (last < end)
    release({});
  stage.segments.push_back(std::move(segment));
  return Error::success();
}

Error StageBuilder::emitSegments(ArrayRef<std::string> firstLayers) {
  int first = begin;
  for (size_t segment = 0; segment < firstLayers.size(); ++segment) {
    bool isLast = segment + 1 == firstLayers.size();
    int last = first + 1;
    while (last < end && (isLast || model.layers.layers[last].name != firstLayers[segment + 1]))
      ++last;
    if (Error error = emitSegment(first, last))
      return error;
    first = last;
  }
  return Error::success();
}

/// Every name can be a key of state_dict() but one: PyTorch stores its own flag under it.
Error StageBuilder::checkNames() const {
  for (const auto *tensors :
       {&scope.parameters, &stage.tables, &scope.frozen, &scope.buffers, &scope.constants})
    for (TensorId tensor : *tensors)
      if (StringRef(model.graph.tensors[tensor].name).rsplit('.').second == "training" ||
          model.graph.tensors[tensor].name == "training")
        return Diagnostic(Diag::NotGeneratable,
                          {model.graph.name, 0, 0, model.graph.tensors[tensor].name})
               << "a tensor cannot be called 'training' in PyTorch";
  return Error::success();
}

/// The last stage returns the outputs of the model. Outputs that are computed earlier and do not
/// reach it cannot be returned; without the first, there is nothing to compute the loss from.
Error StageBuilder::addOutputs() {
  for (TensorId output : model.graph.outputs) {
    bool here = scope.variable(output) != noTensor && scope.knows(output);
    if (here || model.graph.tensors[output].role != TensorRole::Activation)
      stage.sends.push_back(output);
    else if (stage.sends.empty())
      return Diagnostic(Diag::NotGeneratable, {model.graph.name, 0, 0, ""})
             << "output '" << model.graph.tensors[output].name
             << "' is computed in an earlier stage and not carried to the last one";
  }
  return Error::success();
}

Error StageBuilder::addResults() {
  for (TensorId tensor : stage.sends) {
    if (!scope.knows(tensor))
      return invalid("no layer up to here computes the tensor", model.graph.tensors[tensor].name);
    stage.results.push_back(scope.expression(tensor));
  }
  return Error::success();
}

Error StageBuilder::findSends() {
  for (int index : boundary.sent) {
    const std::string &name = model.layers.tensors[index].name;
    auto tensor = model.tensorByName.find(name);
    if (tensor == model.tensorByName.end())
      return invalid("the graph has no tensor", name);
    stage.sends.push_back(tensor->second);
  }
  return Error::success();
}

/// Outputs of the model that no later layer reads.
void StageBuilder::addOwnResults() {
  for (TensorId output : model.graph.outputs) {
    int producer = model.use.producers[output];
    if (producer >= 0 && collected.count(producer) && !is_contained(stage.sends, output))
      stage.sends.push_back(output);
  }
}

Error StageBuilder::addIndices() {
  Expected<LookupIndices> indices =
      lookupIndices(model.graph, model.use, stage.inputs, scope.lookups);
  if (!indices)
    return indices.takeError();
  stage.indices = std::move(indices->expressions);
  stage.indicesBody = std::move(indices->body);
  scope.usesHelpers |= indices->usesHelpers;
  return Error::success();
}

/// Inputs whose size alone is read: the batch has to come from some argument.
Error StageBuilder::addSizes() {
  for (TensorId input : model.graph.inputs)
    if (scope.lacksArgument() && !is_contained(stage.inputs, input)) {
      stage.inputs.push_back(input);
      scope.addArgument(input);
    }
  if (scope.lacksArgument())
    return Diagnostic(Diag::NotGeneratable, {model.graph.name, 0, 0, ""})
           << "a size depends on the batch, but no argument of the stage does";
  return Error::success();
}

Error StageBuilder::emitBody(ArrayRef<std::string> segments) {
  if (Error error = emitNodes(preamble))
    return error;
  return segments.empty() ? emitLayers(begin, end) : emitSegments(segments);
}

StageModule StageBuilder::finish() {
  for (const auto *tensors : {&stage.receives, &stage.inputs})
    for (TensorId tensor : *tensors)
      stage.arguments.push_back(model.use.names[tensor]);
  for (TensorId tensor : stage.inputs)
    stage.inputArguments.push_back(model.use.names[tensor]);
  stage.lookups = scope.lookups;
  stage.parameters = scope.parameters;
  stage.frozen = scope.frozen;
  stage.buffers = scope.buffers;
  for (TensorId tensor : scope.constants)
    (isLiteral(model.graph.tensors[tensor]) ? stage.literals : stage.constants).push_back(tensor);
  stage.body = scope.firstStatements() + scope.body;
  stage.usesHelpers = scope.usesHelpers;
  stage.usesStored = scope.usesStored;
  return std::move(stage);
}

Expected<StageModule> StageBuilder::build(ArrayRef<std::string> segments) {
  bool last = end == model.layers.size() && !alone;
  if (Error error = addTables())
    return error;
  if (Error error = addBoundary())
    return error;
  if (Error error = findInputs())
    return error;
  if (last)
    for (TensorId output : model.graph.outputs)
      ++remainingUses[output];
  else if (Error error = findSends())
    return error;
  if (alone)
    addOwnResults();
  if (Error error = emitBody(segments))
    return error;
  if (last)
    if (Error error = addOutputs())
      return error;
  if (Error error = addResults())
    return error;
  if (Error error = checkNames())
    return error;
  if (Error error = addSizes())
    return error;
  if (Error error = addIndices())
    return error;
  return finish();
}

} // namespace heterplan
