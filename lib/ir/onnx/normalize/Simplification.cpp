#include "ir/onnx/normalize/Simplification.h"

#include "ir/Bodies.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace heterplan {

namespace {

bool isConstant(const Graph &graph, TensorId id) {
  return id == noTensor || graph.tensors[id].role == TensorRole::Constant;
}

/// Whether no node needs to compute it.
bool isKnown(const Graph &graph, TensorId id) {
  return isConstant(graph, id) || graph.tensors[id].role == TensorRole::Size;
}

class BranchTaker {
public:
  explicit BranchTaker(Graph &graph) : graph(graph) {}

  std::vector<GraphNode> run(std::vector<GraphNode> &&nodes) {
    std::vector<GraphNode> result;
    for (GraphNode &node : nodes) {
      const GraphBody *taken = node.op == "If" ? chosen(node) : nullptr;
      if (taken) {
        splice(node, *taken, result);
        continue;
      }
      for (GraphBody &body : node.bodies)
        body.nodes = run(std::move(body.nodes));
      if (!node.bodies.empty())
        setCaptures(node);
      result.push_back(std::move(node));
    }
    return result;
  }

private:
  Graph &graph;

  /// The branch that a constant condition chooses, or null.
  const GraphBody *chosen(const GraphNode &node) const {
    if (node.operands().empty() || node.operands()[0] == noTensor)
      return nullptr;
    const GraphTensor &condition = graph.tensors[node.operands()[0]];
    if (condition.role != TensorRole::Constant || condition.type != DataType::Bool ||
        !condition.data || condition.data->bytes.empty())
      return nullptr;
    return node.body(condition.data->bytes[0] ? "then_branch" : "else_branch");
  }

  /// Appends the nodes of `branch`, which give the results of `node` the names that they have
  /// outside.
  void splice(const GraphNode &node, const GraphBody &branch, std::vector<GraphNode> &result) {
    std::vector<GraphNode> inner = run(std::vector<GraphNode>(branch.nodes));
    DenseSet<TensorId> computed;
    for (const GraphNode &each : inner)
      computed.insert(each.outputs.begin(), each.outputs.end());
    DenseMap<TensorId, TensorId> renamed;
    std::vector<GraphNode> copies;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      TensorId outer = node.outputs[i], source = branch.outputs[i];
      if (outer == noTensor)
        continue;
      if (computed.count(source) && renamed.try_emplace(source, outer).second)
        continue;
      auto known = renamed.find(source);
      copies.push_back(copyOf(node, i, known == renamed.end() ? source : known->second));
    }
    rename(inner, renamed);
    std::move(inner.begin(), inner.end(), std::back_inserter(result));
    std::move(copies.begin(), copies.end(), std::back_inserter(result));
  }

  static GraphNode copyOf(const GraphNode &node, size_t output, TensorId source) {
    GraphNode copy;
    copy.name = node.name + (output ? "_" + std::to_string(output) : "");
    copy.op = "Identity";
    copy.inputs = {source};
    copy.outputs = {node.outputs[output]};
    copy.number = node.number;
    return copy;
  }

  static void rename(std::vector<GraphNode> &nodes, const DenseMap<TensorId, TensorId> &names) {
    auto apply = [&](auto &ids) {
      for (TensorId &id : ids)
        if (auto found = names.find(id); found != names.end())
          id = found->second;
    };
    eachNode(nodes, [&](GraphNode &node) {
      apply(node.inputs);
      apply(node.outputs);
      for (GraphBody &body : node.bodies)
        apply(body.outputs);
    });
  }
};

/// Marks what is needed, backwards; then numbers what is left anew.
class Pruner {
public:
  explicit Pruner(Graph &graph) : graph(graph), needed(graph.tensors.size()) {}

  void run() {
    mark(graph.outputs);
    mark(graph.inputs);
    visit(graph.nodes);
    compact();
  }

private:
  Graph &graph;
  std::vector<bool> needed;

  template <typename Ids> void mark(const Ids &ids) {
    for (TensorId id : ids)
      if (id != noTensor)
        needed[id] = true;
  }

  void visit(std::vector<GraphNode> &nodes) {
    std::vector<GraphNode> kept; // back to front
    for (size_t i = nodes.size(); i-- > 0;)
      if (keep(nodes[i]))
        kept.push_back(std::move(nodes[i]));
    nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  }

  bool keep(GraphNode &node) {
    bool used = false;
    for (TensorId &id : node.outputs) {
      id = id == noTensor || !needed[id] || isKnown(graph, id) ? noTensor : id;
      used = used || id != noTensor;
    }
    if (!used)
      return false;
    for (GraphBody &body : node.bodies) {
      mark(body.inputs);
      mark(body.outputs);
      visit(body.nodes);
    }
    if (!node.bodies.empty())
      setCaptures(node);
    mark(node.inputs);
    return true;
  }

  void compact() {
    std::vector<TensorId> number(graph.tensors.size(), noTensor);
    std::vector<GraphTensor> tensors;
    for (size_t id = 0; id < number.size(); ++id)
      if (needed[id]) {
        number[id] = static_cast<TensorId>(tensors.size());
        tensors.push_back(std::move(graph.tensors[id]));
      }
    auto renumber = [&](auto &ids) {
      for (TensorId &id : ids)
        id = id == noTensor ? noTensor : number[id];
    };
    eachNode(graph.nodes, [&](GraphNode &node) {
      renumber(node.inputs);
      renumber(node.outputs);
      for (GraphBody &body : node.bodies) {
        renumber(body.inputs);
        renumber(body.outputs);
      }
    });
    renumber(graph.inputs);
    renumber(graph.outputs);
    graph.tensors = std::move(tensors);
  }
};

/// Finds x · (1 + erf(x / √2)) / 2 and x · sigmoid(x) in the nodes of a graph, in any order of the
/// factors.
class ActivationFinder {
public:
  explicit ActivationFinder(Graph &graph) : graph(graph), producer(graph.tensors.size(), nullptr) {
    uses.assign(graph.tensors.size(), 0);
    for (GraphNode &node : graph.nodes) {
      for (TensorId id : node.inputs)
        if (id != noTensor)
          ++uses[id];
      for (TensorId id : node.outputs)
        if (id != noTensor)
          producer[id] = &node;
    }
    for (TensorId id : graph.outputs)
      ++uses[id];
  }

  void run() {
    for (GraphNode &node : graph.nodes) {
      if (TensorId x = geluOf(node); x != noTensor)
        become(node, "Gelu", x);
      else if (TensorId y = swishOf(node); y != noTensor)
        become(node, "Swish", y);
    }
  }

private:
  Graph &graph;
  std::vector<GraphNode *> producer; // by tensor
  std::vector<int> uses;             // likewise

  static void become(GraphNode &node, const char *op, TensorId x) {
    node.op = op;
    node.inputs = {x};
    node.attributes.clear();
  }

  TensorId swishOf(const GraphNode &node) const {
    if (node.op != "Mul" || !node.domain.empty() || node.inputs.size() != 2)
      return noTensor;
    for (int side : {0, 1}) {
      const GraphNode *sigmoid = made(node.inputs[1 - side], "Sigmoid");
      if (sigmoid && sigmoid->inputs[0] == node.inputs[side])
        return node.inputs[side];
    }
    return noTensor;
  }

  const GraphNode *made(TensorId id, StringRef op) const {
    const GraphNode *node = id == noTensor ? nullptr : producer[id];
    return node && node->op == op && node->domain.empty() && uses[id] == 1 ? node : nullptr;
  }

  /// Whether `id` is a constant of one element that is close to `value`.
  bool isNumber(TensorId id, double value) const {
    if (id == noTensor || graph.tensors[id].role != TensorRole::Constant || !graph.tensors[id].data)
      return false;
    const TensorData &data = *graph.tensors[id].data;
    float number = 0;
    if (data.type != DataType::Float32 || data.bytes.size() != sizeof number)
      return false;
    std::memcpy(&number, data.bytes.data(), sizeof number);
    return std::abs(number - value) < 1e-3 * value;
  }

  /// The operand of `node` beside a constant close to `value`, or none.
  TensorId beside(const GraphNode *node, double value) const {
    if (!node || node->inputs.size() != 2)
      return noTensor;
    if (isNumber(node->inputs[1], value))
      return node->inputs[0];
    return node->op != "Div" && isNumber(node->inputs[0], value) ? node->inputs[1] : noTensor;
  }

  /// The x of 1 + erf(x / √2), or none.
  TensorId argument(TensorId sum) const {
    const GraphNode *erf = made(beside(made(sum, "Add"), 1), "Erf");
    if (!erf)
      return noTensor;
    TensorId scaled = erf->inputs[0];
    TensorId x = beside(made(scaled, "Div"), std::sqrt(2.0));
    return x != noTensor ? x : beside(made(scaled, "Mul"), std::sqrt(0.5));
  }

  /// The x of a product of `first` and 1 + erf(x / √2) where `first` is x, or x / 2 if `halves`.
  TensorId product(const GraphNode *node, bool halves) const {
    if (!node || node->op != "Mul" || !node->domain.empty() || node->inputs.size() != 2)
      return noTensor;
    for (int side : {0, 1}) {
      TensorId first = node->inputs[side], x = argument(node->inputs[1 - side]);
      if (x != noTensor && (halves ? beside(made(first, "Mul"), 0.5) : first) == x)
        return x;
    }
    return noTensor;
  }

  /// The x of x · ((1 + erf(x / √2)) / 2), as the exporter that traces with Dynamo writes it.
  TensorId halvedProduct(const GraphNode &node) const {
    if (node.inputs.size() != 2)
      return noTensor;
    for (int side : {0, 1}) {
      TensorId x = argument(beside(made(node.inputs[1 - side], "Mul"), 0.5));
      if (x != noTensor && x == node.inputs[side])
        return x;
    }
    return noTensor;
  }

  TensorId geluOf(const GraphNode &node) const {
    if (node.op != "Mul" || !node.domain.empty())
      return noTensor;
    TensorId x = product(&node, /*halves=*/true);
    if (x == noTensor)
      x = product(made(beside(&node, 0.5), "Mul"), /*halves=*/false);
    return x != noTensor ? x : halvedProduct(node);
  }
};
} // namespace

void takeBranches(Graph &graph) { graph.nodes = BranchTaker(graph).run(std::move(graph.nodes)); }

void dropShapeOperands(Graph &graph) {
  eachNode(graph.nodes, [&](GraphNode &node) {
    size_t operand = node.op == "Reshape" || node.op == "Expand" ? 1
                     : node.op == "Resize"                       ? 3
                                                                 : node.inputs.size();
    bool certain = !node.outputs.empty() && node.outputs[0] != noTensor &&
                   !graph.tensors[node.outputs[0]].dynamic;
    if (operand < node.inputs.size() && certain && !isConstant(graph, node.inputs[operand]))
      node.inputs[operand] = noTensor;
  });
}

void fuseActivations(Graph &graph) { ActivationFinder(graph).run(); }

void prune(Graph &graph) { Pruner(graph).run(); }

} // namespace heterplan
