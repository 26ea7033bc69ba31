#include "ir/NodeAttributes.h"
#include "ir/sharding/LocalGraph.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace heterplan {

namespace {

class LocalVerifier {
public:
  LocalVerifier(const LocalGraph &local, const Graph &whole)
      : local(local), graph(local.graph), whole(whole), origin(graph.tensors.size(), noTensor),
        isKnown(graph.tensors.size()) {
    for (const GraphNode &node : whole.nodes)
      nodes[node.name] = &node;
  }

  Error run() {
    if (local.states.size() != graph.tensors.size() || graph.tensors.size() < whole.tensors.size())
      return broken(graph.name) << "its states are not those of its tensors";
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      bool isMade = graph.tensors[i].role == TensorRole::Activation;
      if (i < whole.tensors.size())
        origin[i] = static_cast<TensorId>(i);
      isKnown[i] = !isMade;
      if (i < whole.tensors.size() && !isMade)
        if (Error error = checkShape(static_cast<TensorId>(i)))
          return error;
    }
    for (const GraphNode &node : graph.nodes)
      if (Error error = shardOperator(node) ? checkStep(node) : checkNode(node))
        return error;
    if (nodesSeen != whole.nodes.size())
      return broken(graph.name) << "it lacks nodes of the model";
    return checkOutputs();
  }

private:
  const LocalGraph &local;
  const Graph &graph;
  const Graph &whole;
  std::vector<TensorId> origin; // the tensor of the model that a local one is a version of
  std::vector<bool> isKnown;    // stored, fed, or computed by an earlier node
  StringMap<const GraphNode *> nodes;
  size_t nodesSeen = 0;

  Diagnostic broken(StringRef what) const {
    return Diagnostic(Diag::InvalidLayerGraph, {graph.name, 0, 0, what.str()})
           << "local graph of " << local.degree << " shards: ";
  }
  const ShardState &state(TensorId id) const { return local.states[id]; }

  Error checkShape(TensorId id) const {
    const GraphTensor &tensor = graph.tensors[id];
    ArrayRef<Dim> shape = whole.tensors[origin[id]].shape;
    if (!canShard(shape, state(id), local.degree))
      return broken(tensor.name) << "it cannot be sharded by " << toText(state(id));
    if (tensor.shape != localShape(shape, state(id), local.degree))
      return broken(tensor.name) << "its shape is not the one of a shard";
    return Error::success();
  }

  Error checkInputs(const GraphNode &node) const {
    for (TensorId id : node.inputs)
      if (id != noTensor && !isKnown[id])
        return broken(node.name) << "it reads '" << graph.tensors[id].name
                                 << "' before it is computed";
    return Error::success();
  }

  /// The states that an operator takes and makes; `own` is the sharded one that it names.
  static bool fits(ShardOperator op, const ShardState &from, const ShardState &to,
                   const ShardState &own) {
    using Kind = ShardState::Kind;
    auto kinds = [&](Kind first, Kind second) { return from.kind == first && to.kind == second; };
    switch (op) {
    case ShardOperator::ShardAllReduce:
      return kinds(ShardState::Partial, ShardState::Replicated);
    case ShardOperator::ShardCopy:
      return kinds(ShardState::Replicated, ShardState::Replicated);
    case ShardOperator::ShardSlice:
      return kinds(ShardState::Replicated, ShardState::Sharded) && to == own;
    case ShardOperator::ShardGather:
    case ShardOperator::ShardGatherSum:
      return kinds(ShardState::Sharded, ShardState::Replicated) && from == own;
    case ShardOperator::ShardReduceScatter:
      return kinds(ShardState::Partial, ShardState::Sharded) && to == own;
    case ShardOperator::ShardSummand:
      return kinds(ShardState::Replicated, ShardState::Partial);
    }
    return false;
  }

  Error checkStep(const GraphNode &node) {
    if (Error error = checkInputs(node))
      return error;
    TensorId from = node.inputs[0], to = node.outputs[0];
    const auto *segments = findAttribute<std::vector<int64_t>>(node, "segments");
    ShardState own =
        segments ? ShardState::along(static_cast<int>(integerAttribute(node, "axis")), *segments)
                 : ShardState();
    origin[to] = origin[from];
    isKnown[to] = true;
    if (origin[to] == noTensor || !fits(*shardOperator(node), state(from), state(to), own))
      return broken(node.name) << "it makes " << toText(state(to)) << " of " << toText(state(from));
    return checkShape(to);
  }

  /// Whether one of the rules allows the states that the operands and results have.
  bool isAllowed(const GraphNode &node, const ShardStrategy &strategy) const {
    auto replicated = [](const ShardState &each) { return each.kind == ShardState::Replicated; };
    if (all_of(strategy.operands, replicated) && all_of(strategy.results, replicated))
      return true;
    RuleNode rule{whole, node, local.degree};
    for (const ShardStrategy &summed : partialStrategies(rule))
      if (summed.operands == strategy.operands && summed.results == strategy.results)
        return true;
    for (bool isResult : {false, true}) {
      const auto &states = isResult ? strategy.results : strategy.operands;
      for (size_t i = 0; i < states.size(); ++i) {
        auto ruled = shardedStrategy(rule, {isResult, i}, states[i]);
        if (ruled && ruled->operands == strategy.operands && ruled->results == strategy.results)
          return true;
      }
    }
    return false;
  }

  /// Whether operand `i` states sizes or places, which differ in a local graph.
  static bool isSizes(StringRef op, size_t i) {
    return (i == 1 && (op == "Reshape" || op == "Expand" || op == "Split")) ||
           ((i == 1 || i == 2) && op == "Slice");
  }

  Error checkNode(const GraphNode &node) {
    if (Error error = checkInputs(node))
      return error;
    auto found = nodes.find(node.name);
    if (found == nodes.end() || found->second->op != node.op ||
        found->second->outputs != node.outputs)
      return broken(node.name) << "it is no node of the model";
    const GraphNode &original = *found->second;
    ++nodesSeen;
    ShardStrategy strategy = replicatedStrategy(original);
    for (size_t i = 0; i < original.inputs.size(); ++i) {
      TensorId id = i < node.inputs.size() ? node.inputs[i] : noTensor;
      if (id == noTensor || original.inputs[i] == noTensor || isSizes(original.op, i))
        continue;
      if (origin[id] != original.inputs[i])
        return broken(node.name) << "its operand " << i << " is another tensor";
      strategy.operands[i] = state(id);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (TensorId id = node.outputs[i]; id != noTensor) {
        strategy.results[i] = state(id);
        isKnown[id] = true;
        if (Error error = checkShape(id))
          return error;
      }
    if (!isAllowed(original, strategy))
      return broken(node.name) << "no rule of " << node.op << " allows its states";
    return Error::success();
  }

  Error checkOutputs() const {
    for (size_t i = 0; i < whole.outputs.size(); ++i) {
      TensorId id = graph.outputs[i];
      if (origin[id] != whole.outputs[i] || state(id).kind != ShardState::Replicated ||
          graph.tensors[id].name != whole.tensors[whole.outputs[i]].name)
        return broken(graph.tensors[id].name) << "the output is not whole";
    }
    return Error::success();
  }
};

} // namespace

Error verify(const LocalGraph &local, const Graph &whole) {
  return LocalVerifier(local, whole).run();
}

} // namespace heterplan
