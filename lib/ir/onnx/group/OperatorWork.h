// How much work an operator is: the functions that Operators.def names. Each counts the operations
// of one forward pass for a batch of one; a multiply-accumulate counts as two.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/NodeAttributes.h"
#include "ir/onnx/group/GraphFacts.h"

namespace heterplan::work {

/// A node with the facts around it.
struct View {
  const GraphNode &node;
  const GraphFacts &facts;

  TensorId input(size_t index) const {
    return index < node.inputs.size() ? node.inputs[index] : noTensor;
  }
  TensorId output(size_t index) const {
    return index < node.outputs.size() ? node.outputs[index] : noTensor;
  }
  llvm::ArrayRef<Dim> shape(TensorId id) const {
    return id == noTensor ? llvm::ArrayRef<Dim>()
                          : llvm::ArrayRef<Dim>(facts.graph.tensors[id].shape);
  }
  double outputElements() const {
    double total = 0;
    for (TensorId id : node.outputs)
      total += facts.elements(id);
    return total;
  }
  int64_t integer(const char *name, int64_t otherwise) const {
    return integerAttribute(node, name, otherwise);
  }
  std::vector<int64_t> integers(const char *name) const {
    const auto *values = findAttribute<std::vector<int64_t>>(node, name);
    return values ? *values : std::vector<int64_t>();
  }
  bool differentiable(TensorId id) const {
    return id != noTensor && facts.graph.tensors[id].differentiable;
  }
};

double product(llvm::ArrayRef<Dim> shape);

inline double nothing(const View &) { return 0; }
template <int operations> double perOutput(const View &view) {
  return operations * view.outputElements();
}
template <int operations> double perInput(const View &view) {
  return operations * view.facts.elements(view.input(0));
}
/// Operations of NonMaxSuppression for its scores: sorting, and comparing with the boxes kept so
/// far.
template <int operations> double perScore(const View &view) {
  return operations * view.facts.elements(view.input(1));
}

double convolution(const View &view);
double quantizedConvolution(const View &view);
double deformableConvolution(const View &view);
double transposedConvolution(const View &view);
double gemm(const View &view);
double matrixProduct(const View &view);
double packedProduct(const View &view);
double einsum(const View &view);
double determinant(const View &view);
double recurrentWork(const View &view);
template <int gates> double recurrent(const View &view) { return recurrentWork(view); }
/// Time steps of a sample, of all directions, which follow each other; 0 if its shape is not known.
double recurrentSteps(const View &view);
double attention(const View &view);
/// The queries of all heads of an Attention, and the keys that each may see.
struct AttentionSize {
  double queries = 0, keys = 0;
};
AttentionSize attentionSize(const View &view);
double projectedAttention(const View &view);
double fusedAttention(const View &view);
double pooling(const View &view);
double regionAlign(const View &view);
double fourier(const View &view);
double shortFourier(const View &view);

} // namespace heterplan::work
