#include "ir/sharding/LocalGraph.h"

#include "ir/Bodies.h"
#include "ir/NodeAttributes.h"
#include "ir/sharding/MovementRules.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace heterplan {

namespace {

class LocalBuilder {
public:
  LocalBuilder(const Graph &whole, const ShardAssignment &assignment, const ShardMachine &machine)
      : whole(whole), assignment(assignment), machine(machine) {
    local.degree = assignment.degree;
    local.graph = whole;
    local.graph.nodes.clear();
    local.states = assignment.tensors;
    for (size_t i = 0; i < whole.tensors.size(); ++i) {
      names.insert(whole.tensors[i].name);
      local.wholeNames.push_back(whole.tensors[i].name);
      versions.emplace_back(whole.tensors[i], assignment.tensors[i], machine);
      made.push_back({static_cast<TensorId>(i)});
      makeLocal(static_cast<TensorId>(i));
    }
    for (const GraphNode &node : whole.nodes)
      nodeNames.insert(node.name);
  }

  LocalGraph run() {
    for (size_t i = 0; i < whole.nodes.size(); ++i)
      addNode(i);
    for (TensorId &id : local.graph.outputs)
      id = returned(id);
    return std::move(local);
  }

private:
  const Graph &whole;
  const ShardAssignment &assignment;
  const ShardMachine &machine;
  LocalGraph local;
  std::vector<ShardVersions> versions;     // by tensor of the model
  std::vector<std::vector<TensorId>> made; // the local tensors of its versions
  StringSet<> names, nodeNames;

  /// Gives a tensor the shape of its state. A slice of a stored tensor has none of its values.
  void makeLocal(TensorId id) {
    GraphTensor &tensor = local.graph.tensors[id];
    const ShardState &state = local.states[id];
    if (!state.isSharded())
      return;
    tensor.shape = localShape(tensor.shape, state, local.degree);
    tensor.data.reset();
    tensor.external.reset();
  }

  static std::string unique(StringSet<> &taken, const std::string &wanted) {
    std::string name = wanted;
    for (int i = 2; !taken.insert(name).second; ++i)
      name = wanted + "_" + std::to_string(i);
    return name;
  }

  TensorId addTensor(GraphTensor tensor, const std::string &name, const ShardState &state) {
    tensor.name = unique(names, name);
    local.graph.tensors.push_back(std::move(tensor));
    local.states.push_back(state);
    return static_cast<TensorId>(local.graph.tensors.size()) - 1;
  }

  /// The state of what `step` makes of a tensor.
  static ShardState stateAfter(const ShardStep &step) {
    switch (step.op) {
    case ShardOperator::ShardSlice:
    case ShardOperator::ShardReduceScatter:
      return step.state;
    case ShardOperator::ShardSummand:
      return ShardState::partial();
    default:
      return ShardState::replicated();
    }
  }

  TensorId addStep(TensorId from, TensorId original, const ShardStep &step) {
    GraphTensor result = whole.tensors[original];
    ShardState state = stateAfter(step);
    result.role = TensorRole::Activation;
    result.data.reset();
    result.external.reset();
    result.shape = localShape(result.shape, state, local.degree);
    std::string name = whole.tensors[original].name + "/" + nameOf(step.op);
    GraphNode node;
    node.name = unique(nodeNames, name);
    node.op = nameOf(step.op);
    node.domain = shardDomain;
    node.inputs = {from};
    node.outputs = {addTensor(std::move(result), name, state)};
    if (step.state.isSharded()) {
      node.attributes["axis"] = int64_t(step.state.axis);
      node.attributes["segments"] = step.state.pattern;
    }
    local.graph.nodes.push_back(node);
    return node.outputs[0];
  }

  /// The local tensor that is `id` as it is needed.
  TensorId version(TensorId id, const ShardNeed &need) {
    ShardVersions &known = versions[id];
    ShardVersions::Source source = known.sourceOf(need);
    TensorId result = made[id][source.index];
    for (const ShardStep &step : source.steps)
      result = addStep(result, id, step);
    size_t before = known.versions().size();
    known.add(need);
    if (known.versions().size() > before)
      made[id].push_back(result);
    return result;
  }

  void addNode(size_t index) {
    GraphNode node = whole.nodes[index];
    const ShardStrategy &strategy = assignment.nodes[index];
    DenseMap<TensorId, TensorId> renamed;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TensorId id = node.inputs[i];
      if (id == noTensor || whole.tensors[id].role == TensorRole::Size)
        continue;
      node.inputs[i] = version(id, needOf(whole, node, strategy, i));
      if (node.inputs[i] != id)
        renamed[id] = node.inputs[i];
    }
    if (!renamed.empty())
      for (GraphBody &body : node.bodies)
        renameIn(body, renamed);
    adapt(node, whole.nodes[index], strategy);
    local.graph.nodes.push_back(std::move(node));
  }

  static void renameIn(GraphBody &body, const DenseMap<TensorId, TensorId> &renamed) {
    auto rename = [&](TensorId &id) {
      if (auto found = renamed.find(id); id != noTensor && found != renamed.end())
        id = found->second;
    };
    eachNode(body.nodes, [&](GraphNode &node) {
      for_each(node.inputs, rename);
      for (GraphBody &inner : node.bodies)
        for_each(inner.outputs, rename);
    });
    for_each(body.outputs, rename);
  }

  /// A tensor of sizes, in place of operand 1 of `node`.
  void setSizes(GraphNode &node, ArrayRef<Dim> sizes) {
    GraphTensor tensor;
    tensor.role = TensorRole::Size;
    tensor.type = DataType::Int64;
    tensor.shape = {Dim{0, static_cast<int64_t>(sizes.size())}};
    tensor.sizes.assign(sizes.begin(), sizes.end());
    if (node.inputs.size() < 2)
      node.inputs.resize(2, noTensor);
    node.inputs[1] = addTensor(std::move(tensor), node.name + "/sizes", {});
  }

  TensorId addIntegers(const std::string &name, const std::vector<int64_t> &values) {
    GraphTensor tensor;
    tensor.role = TensorRole::Constant;
    tensor.type = DataType::Int64;
    tensor.shape = {Dim{0, static_cast<int64_t>(values.size())}};
    tensor.data = TensorData{DataType::Int64, {static_cast<int64_t>(values.size())}, ""};
    const char *bytes = reinterpret_cast<const char *>(values.data());
    tensor.data->bytes.assign(bytes, values.size() * sizeof(int64_t));
    return addTensor(std::move(tensor), name, {});
  }

  /// A Slice along the sharded axis takes the local range.
  void setLocalRange(GraphNode &node, const GraphNode &original, int axis) {
    RuleNode rule{whole, original, local.degree};
    if (rule.shape(0)[axis] == rule.result()[axis])
      return;
    auto range = sharding::sliceRange(rule, axis);
    auto axes = rule.integers(3);
    assert(range && "the rule of Slice knows its range");
    auto starts = *rule.integers(1), ends = *rule.integers(2);
    for (size_t i = 0; i < starts.size(); ++i) {
      int64_t own = axes ? (*axes)[i] : static_cast<int64_t>(i);
      if (own == axis || own == axis - rule.rank(0)) {
        starts[i] = range->begin / local.degree;
        ends[i] = range->end / local.degree;
      }
    }
    node.inputs[1] = addIntegers(node.name + "/starts", starts);
    node.inputs[2] = addIntegers(node.name + "/ends", ends);
  }

  /// Makes operands and attributes that state sizes local.
  void adapt(GraphNode &node, const GraphNode &original, const ShardStrategy &strategy) {
    if (!strategy.divided)
      return;
    const GraphTensor &result = local.graph.tensors[node.outputs[0]];
    if (node.op == "Reshape" || node.op == "Expand") {
      node.attributes.erase("allowzero");
      setSizes(node, Shape(result.shape));
    } else if (node.op == "Split") {
      auto axis = static_cast<int>(integerAttribute(node, "axis", 0));
      axis += axis < 0 ? static_cast<int>(result.shape.size()) : 0;
      Shape sizes;
      for (TensorId id : node.outputs)
        sizes.push_back(local.graph.tensors[id].shape[axis]);
      node.attributes.erase("num_outputs");
      setSizes(node, sizes);
    } else if (node.op == "Slice") {
      setLocalRange(node, original, strategy.operands[0].axis);
    } else if (node.op == "Conv" && integerAttribute(node, "group", 1) > 1 &&
               strategy.operands[0].isSharded() && strategy.operands[0].axis == 1) {
      node.attributes["group"] = integerAttribute(node, "group", 1) / local.degree;
    } else if (node.op == "Dropout" && strategy.results[0].isSharded()) {
      node.attributes["mask"] = whole.tensors[node.outputs[0]].name;
      node.attributes["shard_axis"] = int64_t(strategy.results[0].axis);
      node.attributes["shard_segments"] = strategy.results[0].pattern;
    }
  }

  /// The replicated version of an output of the model, under the name of the output.
  TensorId returned(TensorId id) {
    TensorId result = version(id, {});
    if (result != id) {
      std::string inner = unique(names, whole.tensors[id].name + "/shard");
      local.graph.tensors[result].name = whole.tensors[id].name;
      local.graph.tensors[id].name = inner;
    }
    return result;
  }
};

} // namespace

std::vector<TensorId> LocalGraph::slicedTensors() const {
  std::vector<TensorId> result;
  for (size_t i = 0; i < states.size(); ++i)
    if (isStored(graph.tensors[i].role) && states[i].isSharded())
      result.push_back(static_cast<TensorId>(i));
  return result;
}

std::vector<TensorId> LocalGraph::originals() const {
  std::vector<TensorId> result(graph.tensors.size(), noTensor);
  for (size_t i = 0; i < wholeNames.size(); ++i)
    result[i] = static_cast<TensorId>(i);
  for (const GraphNode &node : graph.nodes)
    if (shardOperator(node))
      result[node.outputs[0]] = result[node.inputs[0]];
  return result;
}

std::vector<bool> LocalGraph::areWhole() const {
  std::vector<bool> result;
  for (const ShardState &state : states)
    result.push_back(state.kind == ShardState::Replicated);
  for (const GraphNode &node : graph.nodes) {
    const std::optional<ShardOperator> op = shardOperator(node);
    if (op == ShardOperator::ShardCopy || op == ShardOperator::ShardGatherSum)
      result[node.outputs[0]] = false; // its gradient is a sum over the shards
  }
  return result;
}

Expected<LocalGraph> localGraph(const Graph &graph, const ShardAssignment &assignment,
                                const ShardMachine &machine) {
  LocalGraph local = LocalBuilder(graph, assignment, machine).run();
  if (Error error = verify(local, graph))
    return error;
  return local;
}

} // namespace heterplan
