// Turns the records of Rebatching into nodes and constants of the graph.
#include "ir/onnx/batch/Rebatching.h"
#include "ir/onnx/read/FreshNames.h"

#include <map>

using namespace llvm;

namespace heterplan {

namespace {

/// Rows equal along `axis`: the first of each.
TensorData oneRow(const TensorData &data, size_t axis) {
  TensorData result{data.type, data.shape, ""};
  size_t inner = static_cast<size_t>(sizeOf(data.type));
  for (size_t i = axis + 1; i < data.shape.size(); ++i)
    inner *= static_cast<size_t>(data.shape[i]);
  size_t step = inner * static_cast<size_t>(data.shape[axis]);
  for (size_t begin = 0; step && begin < data.bytes.size(); begin += step)
    result.bytes.append(data.bytes, begin, inner);
  result.shape[axis] = 1;
  return result;
}

class Repairer {
public:
  Repairer(Graph &graph, ArrayRef<Repair> repairs)
      : graph(graph), repairs(repairs), values(graph.folder), names(graph) {}

  void run() {
    std::map<int, std::vector<Repair>> byNode;
    for (const Repair &repair : repairs)
      byNode[repair.node].push_back(repair);
    std::vector<GraphNode> nodes;
    nodes.reserve(graph.nodes.size() + 4 * repairs.size());
    for (GraphNode &node : graph.nodes) {
      if (auto found = byNode.find(node.number); found != byNode.end())
        for (const Repair &repair : found->second)
          apply(repair, node, nodes);
      nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(nodes);
  }

private:
  Graph &graph;
  ArrayRef<Repair> repairs;
  ConstantValues values;
  FreshNames names;

  void apply(const Repair &repair, GraphNode &node, std::vector<GraphNode> &nodes) {
    if (repair.kind == Repair::Spread) {
      node.op = "Expand";
      node.inputs[1] = noTensor;
      return;
    }
    if (repair.kind == Repair::Drop) {
      node.inputs[repair.operand] = noTensor;
      return;
    }
    TensorId source = node.inputs[repair.operand];
    node.inputs[repair.operand] = repair.kind == Repair::Repeat ? repeated(repair, node, nodes)
                                  : repair.kind == Repair::Narrow
                                      ? narrowed(source, repair.axis)
                                      : numbered(source, repair.step, node.op != "Gather", nodes);
  }

  /// To the shape of the reference, along one axis.
  TensorId repeated(const Repair &repair, const GraphNode &node, std::vector<GraphNode> &nodes) {
    TensorId source = node.inputs[repair.operand];
    GraphTensor made = graph.tensors[source];
    made.name = made.name.substr(0, 200) + "_row";
    const GraphTensor &reference = graph.tensors[node.inputs[repair.reference]];
    made.role = TensorRole::Activation;
    made.data.reset();
    made.external.reset();
    made.shape[repair.axis] = reference.shape[repair.referenceAxis];
    TensorId id = names.add(std::move(made));
    nodes.push_back(names.node("Expand", {source, noTensor}, id));
    return id;
  }

  TensorId narrowed(TensorId source, size_t axis) {
    GraphTensor made = graph.tensors[source];
    made.name = made.name.substr(0, 200) + "_row";
    if (made.data)
      made.data = oneRow(*made.data, axis);
    if (made.external) // the axes before have one element each
      made.external->length /= made.shape[axis].fixed;
    made.shape[axis] = {0, 1};
    return names.add(std::move(made));
  }

  /// The same integers in memory, where they lie in a file: what they number can be seen then.
  TensorId inMemory(TensorId id) {
    GraphTensor &tensor = graph.tensors[id];
    if (!tensor.external)
      return id;
    TensorData data{tensor.type, {}, values.bytesOf(tensor).str()};
    for (const Dim &dim : tensor.shape)
      data.shape.push_back(dim.fixed);
    tensor.data = std::move(data);
    tensor.external.reset();
    return id;
  }

  /// The first row of `source`, plus `step` times the number of the sample: in the first of the
  /// coordinates along the last axis, or in all.
  TensorId numbered(TensorId source, int64_t step, bool coordinates,
                    std::vector<GraphNode> &nodes) {
    TensorId first = inMemory(narrowed(source, 0));
    Shape whole = graph.tensors[first].shape, column(whole.size(), Dim{0, 1});
    whole[0] = column[0] = {1, 0};
    TensorData steps = word(step);
    Shape stepped = column;
    if (coordinates) {
      stepped.back() = whole.back();
      steps.shape.push_back(whole.back().fixed);
      steps.bytes.resize(sizeof step * static_cast<size_t>(whole.back().fixed));
    }
    TensorId count = integers({}, TensorRole::Size);
    graph.tensors[count].sizes = {{1, 0}};
    TensorId samples = integers({{1, 0}}), rows = integers(column), offsets = integers(stepped),
             result = integers(whole);
    nodes.push_back(names.node("Range", {constant(word(0)), count, constant(word(1))}, samples));
    nodes.push_back(names.node("Reshape", {samples, noTensor}, rows));
    nodes.push_back(names.node("Mul", {rows, constant(std::move(steps))}, offsets));
    nodes.push_back(names.node("Add", {first, offsets}, result));
    return result;
  }

  static TensorData word(int64_t value) {
    return {DataType::Int64, {}, std::string(reinterpret_cast<const char *>(&value), sizeof value)};
  }

  TensorId integers(Shape shape, TensorRole role = TensorRole::Activation) {
    GraphTensor tensor;
    tensor.name = "samples";
    tensor.type = DataType::Int64;
    tensor.shape = std::move(shape);
    tensor.role = role;
    return names.add(std::move(tensor));
  }

  TensorId constant(TensorData data) {
    Shape shape;
    for (int64_t dim : data.shape)
      shape.push_back({0, dim});
    TensorId id = integers(std::move(shape), TensorRole::Constant);
    graph.tensors[id].data = std::move(data);
    return id;
  }
};

} // namespace

void applyRepairs(Graph &graph, ArrayRef<Repair> repairs) {
  if (!repairs.empty())
    Repairer(graph, repairs).run();
}

} // namespace heterplan
