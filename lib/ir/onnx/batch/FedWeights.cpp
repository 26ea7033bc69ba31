#include "ir/onnx/batch/FedWeights.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace heterplan {

namespace {

/// Operands [first, last) of an operator are weights.
struct Positions {
  size_t first = 0, last = 0;
};

Positions weightsOf(StringRef op) {
  return StringSwitch<Positions>(op)
      .Cases("Conv", "ConvTranspose", "Gemm", {1, 3})
      .Cases("LSTM", "GRU", "RNN", {1, 4})
      .Cases("LayerNormalization", "InstanceNormalization", "GroupNormalization", {1, 3})
      .Cases("MatMul", "PRelu", "RMSNormalization", {1, 2})
      .Case("BatchNormalization", {1, 5})
      .Case("Gather", {0, 1})
      .Default({});
}

bool handsOn(StringRef op) { return op == "Transpose" || op == "Identity" || op == "Cast"; }

class FedWeights {
public:
  explicit FedWeights(ModelFile &file)
      : file(file), graph(file.graph), other(graph.tensors.size()), used(graph.tensors.size()) {}

  void run() {
    for (TensorId id : graph.outputs)
      other[id] = true;
    for (size_t i = graph.nodes.size(); i-- > 0;)
      visit(graph.nodes[i]);
    std::vector<bool> fed;
    bool open = false;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      fed.push_back(isWeight(i));
      open = open || (!fed[i] && !isFixed(i));
    }
    auto count = llvm::count(fed, true);
    if (!count)
      return;
    if (!open)
      return noteClosed(static_cast<size_t>(count));
    take(fed);
    graph.notes.push_back(std::to_string(count) + " inputs are used as weights alone and have "
                                                  "fixed sizes: they are taken for parameters "
                                                  "whose values are not in the file");
  }

private:
  ModelFile &file;
  Graph &graph;
  std::vector<bool> other, used; // by tensor: used otherwise than as a weight; as a weight

  void visit(const GraphNode &node) {
    Positions weights = weightsOf(node.domain.empty() ? StringRef(node.op) : StringRef());
    size_t operands = node.operands().size();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TensorId id = node.inputs[i];
      if (id == noTensor)
        continue;
      bool weight = i < operands && i >= weights.first && i < weights.last;
      if (handsOn(node.op) && i == 0 && node.outputs[0] != noTensor) {
        used[id] = used[id] || used[node.outputs[0]];
        other[id] = other[id] || other[node.outputs[0]];
      } else if (weight || isBias(node, id)) {
        used[id] = true;
      } else {
        other[id] = true;
      }
    }
  }

  /// A vector that is added: its shape alone tells it from samples.
  bool isBias(const GraphNode &node, TensorId id) const {
    auto input = llvm::find(graph.inputs, id);
    return (node.op == "Add" || node.op == "Mul") && input != graph.inputs.end() &&
           file.inputDims[static_cast<size_t>(input - graph.inputs.begin())].size() == 1;
  }

  bool isFixed(size_t input) const {
    return all_of(file.inputDims[input], [](const DeclaredDim &dim) { return dim.value; });
  }

  bool isWeight(size_t input) const {
    TensorId id = graph.inputs[input];
    const GraphTensor &tensor = graph.tensors[id];
    return isFloating(tensor.type) && tensor.container == Container::None &&
           !file.inputDims[input].empty() && isFixed(input) && used[id] && !other[id];
  }

  void noteClosed(size_t count) {
    if (count * 2 > graph.inputs.size() && count > 2)
      graph.notes.push_back(std::to_string(count) +
                            " inputs look like weights, but are fed: where no dimension is "
                            "symbolic they cannot be told from samples; export with the "
                            "parameters, or with a dynamic batch");
  }

  void take(const std::vector<bool> &fed) {
    llvm::SmallVector<TensorId, 4> inputs;
    std::vector<std::vector<DeclaredDim>> dims;
    for (size_t i = 0; i < fed.size(); ++i) {
      if (!fed[i]) {
        inputs.push_back(graph.inputs[i]);
        dims.push_back(std::move(file.inputDims[i]));
        continue;
      }
      GraphTensor &tensor = graph.tensors[graph.inputs[i]];
      tensor.role = TensorRole::Constant;
      tensor.shape.clear();
      for (const DeclaredDim &dim : file.inputDims[i])
        tensor.shape.push_back({0, *dim.value});
    }
    graph.inputs.assign(inputs.begin(), inputs.end());
    file.inputDims = std::move(dims);
  }
};

} // namespace

void takeFedWeights(ModelFile &file) { FedWeights(file).run(); }

} // namespace heterplan
