#include "ir/onnx/group/Signature.h"

#include "support/Files.h"
#include "support/Text.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

using namespace llvm;

namespace heterplan {

namespace {

constexpr size_t readableLength = 400;
constexpr int hashDigits = 12;

void print(raw_ostream &os, const Dim &dim) {
  if (!dim.perSample) {
    os << dim.fixed;
    return;
  }
  if (dim.perSample != 1)
    os << dim.perSample;
  os << 'N';
  if (dim.fixed)
    os << (dim.fixed > 0 ? "+" : "") << dim.fixed;
}

void print(raw_ostream &os, ArrayRef<Dim> shape) {
  if (shape.empty())
    os << "scalar";
  for (size_t i = 0; i < shape.size(); ++i) {
    os << (i ? "x" : "");
    print(os, shape[i]);
  }
}

/// Doubles by their shortest exact form, so that the text is the same everywhere.
void print(raw_ostream &os, double value) { os << format("%.9g", value); }

struct AttributePrinter {
  raw_ostream &os;
  void operator()(int64_t value) const { os << value; }
  void operator()(double value) const { print(os, value); }
  void operator()(const std::string &value) const { os << value; }
  void operator()(const TensorData &value) const {
    os << nameOf(value.type) << ':' << sha256(value.bytes).substr(0, hashDigits);
  }
  template <typename T> void operator()(const std::vector<T> &values) const {
    for (size_t i = 0; i < values.size(); ++i) {
      os << (i ? "x" : "");
      (*this)(values[i]);
    }
  }
};

/// Leaves out the padding row of a lookup and the function that a bound stands for: they decide
/// gradients, not times.
void printOperator(raw_ostream &os, const GraphNode &node) {
  os << node.domain << (node.domain.empty() ? "" : ".") << node.op;
  const char *separator = "[";
  bool any = false;
  for (const auto &[name, value] : node.attributes) {
    if (name == "padding_idx" || name == "function")
      continue;
    os << separator << name << '=';
    std::visit(AttributePrinter{os}, value);
    separator = ",";
    any = true;
  }
  os << (any ? "]" : "");
}

void printShapes(raw_ostream &os, const Graph &graph, ArrayRef<TensorId> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    os << (i ? "," : "");
    if (ids[i] == noTensor)
      os << '-';
    else
      print(os, graph.tensors[ids[i]].shape);
  }
}

/// Everything that decides the cost, one line a node. Tensors go by the order of their appearance.
std::string fullText(const GraphFacts &facts, ArrayRef<int> nodes) {
  const Graph &graph = facts.graph;
  DenseMap<TensorId, int> numbers;
  std::string text;
  raw_string_ostream os(text);
  auto printTensor = [&](TensorId id) {
    if (id == noTensor) {
      os << " -";
      return;
    }
    auto [number, first] = numbers.try_emplace(id, static_cast<int>(numbers.size()));
    os << " %" << number->second;
    if (!first)
      return;
    const GraphTensor &tensor = graph.tensors[id];
    os << ':' << nameOf(tensor.type) << ' ';
    print(os, tensor.shape);
    os << (tensor.differentiable ? " gradient" : "")
       << (tensor.role == TensorRole::Parameter  ? " parameter"
           : tensor.role == TensorRole::Frozen   ? " frozen"
           : tensor.role == TensorRole::Buffer   ? " buffer"
           : tensor.role == TensorRole::Constant ? " constant"
                                                 : "");
  };
  auto printOne = [&](const GraphNode &node) {
    printOperator(os, node);
    for (TensorId id : node.inputs)
      printTensor(id);
    os << " ->";
    for (TensorId id : node.outputs)
      printTensor(id);
    if (node.iterations) {
      os << " x";
      print(os, node.iterations->count);
    }
    os << '\n';
  };
  std::function<void(const GraphNode &)> printNode = [&](const GraphNode &node) {
    for (const GraphBody &body : node.bodies) {
      os << body.attribute << '{';
      for (const GraphNode &inner : body.nodes)
        printNode(inner);
      for (TensorId id : body.outputs)
        printTensor(id);
      os << "}\n";
    }
    printOne(node);
  };
  for (int index : nodes)
    printNode(graph.nodes[index]);
  return os.str();
}

/// " +Relu +3xAdd": the operators other than the heavy one, runs counted.
void printRiders(raw_ostream &os, const Graph &graph, ArrayRef<int> nodes, int heavy) {
  for (size_t i = 0; i < nodes.size();) {
    size_t end = i;
    while (end < nodes.size() && nodes[end] != heavy &&
           graph.nodes[nodes[end]].op == graph.nodes[nodes[i]].op)
      ++end;
    if (end == i) {
      ++i;
      continue;
    }
    os << " +";
    if (end - i > 1)
      os << (end - i) << 'x';
    os << graph.nodes[nodes[i]].op;
    i = end;
  }
}

} // namespace

std::string signatureOf(const GraphFacts &facts, ArrayRef<int> nodes, int heavy) {
  const GraphNode &node = facts.graph.nodes[heavy];
  std::string head;
  raw_string_ostream os(head);
  printOperator(os, node);
  os << ' ';
  printShapes(os, facts.graph, node.inputs);
  os << "->";
  printShapes(os, facts.graph, node.outputs);
  printRiders(os, facts.graph, nodes, heavy);
  os.flush();
  if (head.size() > readableLength) {
    head.resize(headOf(head, readableLength).size());
    head += "...";
  }
  DataType type = DataType::Undefined;
  for (TensorId id : node.outputs)
    if (id != noTensor && type == DataType::Undefined)
      type = facts.graph.tensors[id].type;
  return head + " " + nameOf(type) + " #" + sha256(fullText(facts, nodes)).substr(0, hashDigits);
}

} // namespace heterplan
