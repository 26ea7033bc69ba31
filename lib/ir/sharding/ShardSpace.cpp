#include "ir/sharding/ShardSpace.h"

#include "llvm/ADT/STLExtras.h"

#include <deque>

using namespace llvm;

namespace heterplan {

namespace {

class SpaceBuilder {
public:
  SpaceBuilder(const Graph &graph, int degree) : graph(graph) {
    space.degree = degree;
    space.states.resize(graph.tensors.size());
    for (const GraphNode &node : graph.nodes)
      space.strategies.push_back({replicatedStrategy(node)});
    placesOf.resize(graph.tensors.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      notePlaces(static_cast<int>(i));
  }

  ShardSpace run(ShardBegin where) {
    if (where != ShardBegin::Everywhere)
      beginAtWeights();
    for (size_t id = 0; where == ShardBegin::Everywhere && id < graph.tensors.size(); ++id)
      if (isFloating(graph.tensors[id].type))
        for (int segments : {1, 2})
          beginAlongAxes(static_cast<TensorId>(id), segments);
    followAll();
    if (where == ShardBegin::WeightsAndSums) {
      withinBlocks = true;
      beginAtSums();
      followAll();
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (ShardStrategy &strategy : partialStrategies(ruleNode(i)))
        space.strategies[i].push_back(std::move(strategy));
    return std::move(space);
  }

private:
  struct NodePlace {
    int node;
    ShardPlace place;
  };

  const Graph &graph;
  ShardSpace space;
  std::vector<std::vector<NodePlace>> placesOf; // by tensor
  std::deque<std::pair<TensorId, ShardState>> queue;
  bool withinBlocks = false; // sharding spreads over nodes of isWithinBlock() alone

  RuleNode ruleNode(size_t node) const { return {graph, graph.nodes[node], space.degree}; }

  void notePlaces(int node) {
    for (bool isResult : {false, true}) {
      ArrayRef<TensorId> ids(graph.nodes[node].inputs);
      if (isResult)
        ids = graph.nodes[node].outputs;
      for (size_t i = 0; i < ids.size(); ++i)
        if (ids[i] != noTensor)
          placesOf[ids[i]].push_back({node, {isResult, i}});
    }
  }

  /// Sharding begins along each axis of weights, and of what is computed from weights alone.
  void beginAtWeights() {
    std::vector<bool> isWeightly(graph.tensors.size());
    for (size_t id = 0; id < graph.tensors.size(); ++id)
      isWeightly[id] = isWeight(graph.tensors[id].role);
    for (const GraphNode &node : graph.nodes) {
      bool ofWeights =
          any_of(node.inputs, [&](TensorId id) { return id != noTensor && isWeightly[id]; }) &&
          all_of(node.inputs, [&](TensorId id) {
            return id == noTensor || isWeightly[id] ||
                   graph.tensors[id].role == TensorRole::Constant ||
                   graph.tensors[id].role == TensorRole::Size;
          });
      for (TensorId id : node.outputs)
        if (id != noTensor)
          isWeightly[id] = ofWeights;
      for (TensorId id : node.inputs)
        if (beginsSharding(node) && id != noTensor && isWeightly[id])
          beginAlongAxes(id, 1);
    }
  }

  /// Whether `node` is one of the cheap ones between products: neither a product nor a part of what
  /// masks and positions are computed by.
  bool isWithinBlock(const GraphNode &node) const {
    return !beginsSharding(node) && any_of(node.outputs, [&](TensorId id) {
      return id != noTensor && graph.tensors[id].differentiable;
    });
  }

  void followAll() {
    for (; !queue.empty(); queue.pop_front())
      follow(queue.front().first, queue.front().second);
  }

  /// Sharding begins along each axis of the tensors of which the shards may have summands.
  void beginAtSums() {
    std::vector<bool> isSum(graph.tensors.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const GraphNode &node = graph.nodes[i];
      bool sums = any_of(space.strategies[i], [](const ShardStrategy &strategy) {
        return is_contained(strategy.results, ShardState::partial());
      });
      sums |= any_of(node.inputs, [&](TensorId id) { return id != noTensor && isSum[id]; }) &&
              !partialStrategies(ruleNode(i)).empty();
      for (TensorId id : node.outputs)
        if (sums && id != noTensor) {
          isSum[id] = true;
          beginAlongAxes(id, 1);
        }
    }
  }

  void beginAlongAxes(TensorId id, int segments) {
    const Shape &shape = graph.tensors[id].shape;
    for (size_t axis = 0; shape.size() > 1 && axis < shape.size(); ++axis)
      if (!shape[axis].perSample && shape[axis].fixed % segments == 0)
        add(id, ShardState::along(static_cast<int>(axis), {shape[axis].fixed / segments}));
  }

  bool admits(TensorId id, const ShardState &state) const {
    const std::vector<ShardState> &known = space.states[id];
    return !state.isSharded() || is_contained(known, state) || known.size() < mostStatesOfTensor;
  }

  /// Calls `use` with the operands and the results of `node`, and their states.
  template <typename Use>
  static void eachState(const GraphNode &node, const ShardStrategy &strategy, Use use) {
    for (size_t i = 0; i < strategy.operands.size(); ++i)
      if (node.inputs[i] != noTensor)
        use(node.inputs[i], strategy.operands[i]);
    for (size_t i = 0; i < strategy.results.size(); ++i)
      if (node.outputs[i] != noTensor)
        use(node.outputs[i], strategy.results[i]);
  }

  /// Whether its states are known, or there is room for them.
  bool admits(const GraphNode &node, const ShardStrategy &strategy) const {
    bool all = true;
    eachState(node, strategy,
              [&](TensorId id, const ShardState &state) { all &= admits(id, state); });
    return all;
  }

  /// Whether shards have parts of an axis along which the samples lie, too.
  bool dividesRows(const GraphNode &node, const ShardStrategy &strategy) const {
    bool any = false;
    eachState(node, strategy, [&](TensorId id, const ShardState &state) {
      any |= state.isSharded() && graph.tensors[id].shape[state.axis].perSample != 0;
    });
    return any;
  }

  void add(TensorId id, const ShardState &state) {
    std::vector<ShardState> &known = space.states[id];
    if (!state.isSharded() || is_contained(known, state) ||
        !canShard(graph.tensors[id].shape, state, space.degree))
      return;
    if (!admits(id, state)) {
      space.truncated = true;
      return;
    }
    known.push_back(state);
    queue.emplace_back(id, state);
  }

  /// Applies the rules of all nodes that have the tensor.
  void follow(TensorId id, const ShardState &state) {
    for (const NodePlace &at : placesOf[id]) {
      if (withinBlocks && !isWithinBlock(graph.nodes[at.node]))
        continue;
      auto strategy = shardedStrategy(ruleNode(at.node), at.place, state);
      std::vector<ShardStrategy> &known = space.strategies[at.node];
      const GraphNode &node = graph.nodes[at.node];
      if (!strategy || is_contained(known, *strategy) ||
          (withinBlocks && dividesRows(node, *strategy)))
        continue;
      if (known.size() == mostStrategiesOfNode || !admits(node, *strategy)) {
        space.truncated = true;
        continue;
      }
      known.push_back(*strategy);
      eachState(node, *strategy, [&](TensorId id, const ShardState &state) { add(id, state); });
    }
  }
};

} // namespace

ShardSpace shardSpace(const Graph &graph, int degree, ShardBegin begin) {
  return SpaceBuilder(graph, degree).run(begin);
}

} // namespace heterplan
