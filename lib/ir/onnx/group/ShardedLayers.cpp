#include "ir/onnx/group/ShardedLayers.h"

#include "ir/Bodies.h"
#include "ir/onnx/group/Grouping.h"
#include "ir/onnx/group/NodeTimes.h"
#include "ir/onnx/group/Operators.h"
#include "ir/onnx/group/Roles.h"
#include "ir/onnx/group/StageBoundaries.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace heterplan {

namespace {

constexpr FlopsPerSecond referencePeak(1e14);
constexpr BytesPerSecond referenceMemory(3e12);
constexpr int64_t referenceBatch = 8;

/// The latency of a collective: 10 µs, or a thousandth of the time of the model if that is less. A
/// tiny model is divided like a larger one of its form.
Seconds latencyFor(const std::vector<Seconds> &nodeTimes) {
  Seconds all;
  for (Seconds each : nodeTimes)
    all += each;
  return std::min(Seconds(10e-6), all / 1000);
}

ShardMachine referenceMachine(int degree, const std::vector<Seconds> &nodeTimes) {
  ShardMachine machine;
  machine.degree = degree;
  machine.batch = referenceBatch;
  machine.link = BytesPerSecond(300e9);
  machine.latency = latencyFor(nodeTimes);
  machine.memory = referenceMemory;
  machine.parameterPasses = 8; // of gradients that are accumulated, and of an optimizer
  return machine;
}

/// Bytes of the larger side of a collective, which is the whole tensor.
std::pair<Bytes, Bytes> bytesOf(const Graph &graph, const GraphNode &node) {
  Bytes perSample, fixed;
  for (TensorId id : {node.inputs[0], node.outputs[0]}) {
    const GraphTensor &tensor = graph.tensors[id];
    double none = elementCount(tensor.shape, 0), one = elementCount(tensor.shape, 1);
    perSample = std::max(perSample, Bytes((one - none) * double(sizeOf(tensor.type))));
    fixed = std::max(fixed, Bytes(none * double(sizeOf(tensor.type))));
  }
  return {perSample, fixed};
}

void add(std::vector<LayerCollective> &collectives, ShardCollective collective, bool backward,
         std::pair<Bytes, Bytes> bytes) {
  if (collective == ShardCollective::None)
    return;
  auto found = find_if(collectives, [&](const LayerCollective &each) {
    return each.collective == collective && each.backward == backward;
  });
  if (found == collectives.end())
    found = collectives.insert(collectives.end(), {collective, backward, 0, {}, {}});
  ++found->count;
  found->bytesPerSample += bytes.first;
  found->fixedBytes += bytes.second;
}

void addCollectives(const Graph &graph, LayerGraph &layers) {
  StringMap<const GraphNode *> nodes;
  for (const GraphNode &node : graph.nodes)
    nodes[node.name] = &node;
  for (Layer &layer : layers.layers)
    for (const std::string &name : layer.nodes) {
      const GraphNode *node = nodes.lookup(name);
      auto op = node ? shardOperator(*node) : std::nullopt;
      if (!op)
        continue;
      add(layer.shardCollectives, forwardCollective(*op), false, bytesOf(graph, *node));
      if (graph.tensors[node->outputs[0]].differentiable)
        add(layer.shardCollectives, backwardCollective(*op), true, bytesOf(graph, *node));
    }
}

/// By tensor: whether an operator uses it, or a view of it, in another type than products do.
std::vector<bool> usesOfWide(const Graph &graph) {
  std::vector<bool> isWide(graph.tensors.size());
  for (TensorId id : graph.outputs)
    isWide[id] = true;
  const auto use = [&](const GraphNode &node) {
    const bool passes = isView(node.op) && !isWide[node.outputs[0]];
    if (passes || autocastRule(node) == AutocastRule::Half)
      return;
    for (TensorId id : node.inputs)
      if (id != noTensor)
        isWide[id] = true;
  };
  for (const GraphNode &node : reverse(graph.nodes)) {
    use(node);
    for (const GraphBody &body : node.bodies)
      eachNode(body.nodes, use);
  }
  return isWide;
}

/// Shards cast tensors before they gather them, if products alone use what is gathered: less is
/// sent, and each shard casts its own part.
void castBeforeGathers(Graph &graph) {
  const std::vector<bool> isWide = usesOfWide(graph);
  for (GraphNode &node : graph.nodes) {
    const auto op = shardOperator(node);
    const bool gathers = op == ShardOperator::ShardGather || op == ShardOperator::ShardGatherSum;
    if (gathers && !isWide[node.outputs[0]])
      node.attributes[halfAttribute] = int64_t(1);
  }
}

/// Puts the tensors in the order of those that they are of the model.
void sortTensors(LayerGraph &layers, const LocalGraph &local) {
  StringMap<TensorId> originals;
  const std::vector<TensorId> known = local.originals();
  for (size_t id = 0; id < known.size(); ++id)
    originals[local.graph.tensors[id].name] = known[id];
  stable_sort(layers.tensors, [&](const LayerTensor &a, const LayerTensor &b) {
    return unsigned(originals.lookup(a.name)) < unsigned(originals.lookup(b.name));
  });
}

Error checkLayers(const LayerGraph &local, const LayerGraph &whole, int degree) {
  bool same = local.size() == whole.size();
  for (int i = 0; same && i < whole.size(); ++i)
    same = local.layers[i].name == whole.layers[i].name;
  if (same)
    return Error::success();
  return Diagnostic(Diag::InvalidLayerGraph, {whole.model, 0, 0, ""})
         << "one of " << degree << " shards would have " << local.size()
         << " layers where the model has " << whole.size()
         << ": values between layers cannot be split by sample";
}

/// A way to divide a model.
struct Division {
  const Graph &graph;
  const LayerGraph &whole;
  SequenceParallel sequence;
  const StringSet<> &boundaries = none; // the nodes that each shard computes as a whole
  const std::vector<Seconds> times =
      nodeTimes(graph, referenceBatch, referencePeak, referenceMemory);

  static inline const StringSet<> none;
};

ShardAssignment assignmentOf(const Division &asked, const ShardMachine &machine) {
  const bool alongSequence = asked.sequence != SequenceParallel::Never;
  ShardSpace space = shardSpace(asked.graph, machine.degree,
                                alongSequence ? ShardBegin::WeightsAndSums : ShardBegin::Weights);
  for (size_t i = 0; i < asked.graph.nodes.size(); ++i)
    if (asked.boundaries.contains(asked.graph.nodes[i].name))
      space.strategies[i].resize(1);
  return bestAssignment({asked.graph, std::move(space), asked.times, machine});
}

Expected<ModelShard> shardOf(const Division &asked, int degree) {
  const ShardMachine machine = referenceMachine(degree, asked.times);
  Expected<LocalGraph> local = localGraph(asked.graph, assignmentOf(asked, machine), machine);
  if (!local)
    return local.takeError();
  castBeforeGathers(local->graph);
  Expected<LayerGraph> layers = groupLayers(local->graph);
  if (!layers)
    return layers.takeError();
  if (Error error = checkLayers(*layers, asked.whole, degree))
    return error;
  sortTensors(*layers, *local);
  layers->shardDegree = degree;
  layers->division.sequence = asked.sequence;
  addCollectives(local->graph, *layers);
  for (Layer &layer : layers->layers)
    layer.shardDegree = degree;
  return ModelShard{std::move(*local), std::move(*layers)};
}

std::vector<ModelShard> shardsOf(const Division &asked, ArrayRef<int> degrees,
                                 function_ref<void(int, Error)> refused) {
  std::vector<ModelShard> shards;
  for (int degree : degrees)
    if (Expected<ModelShard> shard = shardOf(asked, degree))
      shards.push_back(std::move(*shard));
    else
      refused(degree, shard.takeError());
  return shards;
}

} // namespace

Expected<ModelShard> shardLayers(const Graph &graph, const LayerGraph &whole, int degree,
                                 SequenceParallel sequence) {
  return shardOf({graph, whole, sequence}, degree);
}

std::vector<ModelShard> shardLayers(const Graph &graph, const LayerGraph &whole,
                                    ArrayRef<int> degrees, SequenceParallel sequence,
                                    function_ref<void(int, Error)> refused) {
  std::vector<ModelShard> shards = shardsOf({graph, whole, sequence}, degrees, refused);
  const std::vector<int> cuts = missingBoundaries(whole, withShards(whole, shards));
  if (cuts.empty())
    return shards;
  std::vector<int> possible;
  for (const ModelShard &shard : shards)
    possible.push_back(shard.local.degree);
  const GraphWithBoundaries divided = withBoundaries(graph, whole, cuts);
  return shardsOf({divided.graph, whole, sequence, divided.nodes}, possible, refused);
}

} // namespace heterplan
