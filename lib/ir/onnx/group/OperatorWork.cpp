#include "ir/onnx/group/OperatorWork.h"

#include "ir/ModuleWeights.h"
#include "ir/NodeAttributes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

using namespace llvm;

namespace heterplan::work {

double product(ArrayRef<Dim> shape) { return elementCount(shape, 1); }

namespace {
double at(const Dim &dim) { return static_cast<double>(dim.at(1)); }
/// Reads of an output element of a filter [M, C/group, k...].
double filterReads(ArrayRef<Dim> weight) {
  return weight.empty() ? 0 : product(weight.drop_front(1));
}
} // namespace

/// Every output element is a sum over a filter: W is [M, C/group, k...].
double convolution(const View &view) {
  return 2 * view.outputElements() * filterReads(view.shape(view.input(1)));
}

/// As convolution; the filter comes after the scale and zero point of the data.
double quantizedConvolution(const View &view) {
  return 2 * view.outputElements() * filterReads(view.shape(view.input(3)));
}

/// As convolution, on columns that are sampled: for each input channel, filter position and output
/// position four neighbours are weighted (8 operations). Dai et al., ICCV 2017, section 2.1.
double deformableConvolution(const View &view) {
  ArrayRef<Dim> input = view.shape(view.input(0)), weight = view.shape(view.input(1));
  if (input.size() < 3 || weight.size() < 3 || at(weight[0]) <= 0)
    return 0;
  double positions = view.outputElements() / at(weight[0]);
  return convolution(view) + 8 * positions * at(input[1]) * product(weight.drop_front(2));
}

/// Every input element meets a filter: W is [C, M/group, k...].
double transposedConvolution(const View &view) {
  return 2 * view.facts.elements(view.input(0)) * filterReads(view.shape(view.input(1)));
}

double gemm(const View &view) {
  ArrayRef<Dim> a = view.shape(view.input(0));
  if (a.size() != 2)
    return 0;
  return 2 * view.outputElements() * at(view.integer("transA", 0) ? a[0] : a[1]);
}

double matrixProduct(const View &view) {
  ArrayRef<Dim> a = view.shape(view.input(0));
  if (a.empty())
    return 0;
  bool transposed = view.integer("transA", 0) && a.size() > 1;
  return 2 * view.outputElements() * at(transposed ? a[a.size() - 2] : a.back());
}

/// The weight is packed; the attribute K is its inner dimension, that of the data.
double packedProduct(const View &view) {
  ArrayRef<Dim> a = view.shape(view.input(0));
  return a.empty() ? 0 : 2 * view.outputElements() * at(a.back());
}

namespace {
/// Sizes of the indices that `terms` names; nothing where they do not fit the operands.
std::optional<std::map<char, double>> indexSizes(const View &view, StringRef terms) {
  std::map<char, double> sizes;
  SmallVector<StringRef, 4> parts;
  terms.split(parts, ',');
  if (parts.size() != view.node.inputs.size())
    return std::nullopt;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string letters;
    for (char letter : parts[i])
      if (letter != ' ')
        letters += letter;
    ArrayRef<Dim> shape = view.shape(view.input(i));
    if (letters.size() != shape.size())
      return std::nullopt; // an ellipsis, which stands for any number
    for (size_t axis = 0; axis < shape.size(); ++axis)
      sizes[letters[axis]] = std::max(sizes[letters[axis]], at(shape[axis]));
  }
  return sizes;
}
} // namespace

/// Each combination of the indices multiplies all operands and adds. For an ellipsis: the geometric
/// mean of the operands and the result, which is exact for a plain matrix product.
double einsum(const View &view) {
  const auto *equation = findAttribute<std::string>(view.node, "equation");
  if (equation)
    if (auto sizes = indexSizes(view, StringRef(*equation).split("->").first)) {
      double combinations = 1;
      for (const auto &[letter, size] : *sizes)
        combinations *= size;
      return static_cast<double>(view.node.inputs.size()) * combinations;
    }
  double operands = 1;
  for (TensorId id : view.node.inputs)
    operands *= std::max(1.0, view.facts.elements(id));
  return 2 * std::sqrt(operands * std::max(1.0, view.outputElements()));
}

/// LU factorisation: 2/3 n^3 for each matrix (Golub and Van Loan, Matrix Computations, 3.2.1).
double determinant(const View &view) {
  ArrayRef<Dim> shape = view.shape(view.input(0));
  return shape.empty() ? 0 : 2.0 / 3 * product(shape) * at(shape.back());
}

namespace {
/// The time steps of X, which is [T, N, I] or [N, T, I]; 0 if its shape is not known.
double stepsOfOneDirection(const View &view) {
  ArrayRef<Dim> x = view.shape(view.input(0));
  return x.size() == 3 ? at(x[0]) * at(x[1]) : 0;
}
} // namespace

/// X is [T, N, I] (or [N, T, I]), W [D, gates·H, I], R [D, gates·H, H]: at each step of each sample
/// both are multiplied with a vector, also if they are parameters of a module, one for each
/// direction. The work of the gates themselves is below one in H.
double recurrentWork(const View &view) {
  double weights = view.facts.elements(view.input(1)) + view.facts.elements(view.input(2));
  for (TensorId id : moduleWeights(view.node))
    if (view.facts.graph.tensors[id].shape.size() == 2) // others are biases
      weights += view.facts.elements(id);
  return 2 * stepsOfOneDirection(view) * weights;
}

double recurrentSteps(const View &view) {
  const auto *direction = findAttribute<std::string>(view.node, "direction");
  const bool both = direction && *direction == "bidirectional";
  return stepsOfOneDirection(view) * (both ? 2 : 1);
}

namespace {
/// softmax(Q·K^T)·V: two products and five operations for each score.
double scoresAndValues(double queries, double keys, double size, double valueSize) {
  return queries * keys * (2 * size + 2 * valueSize + 5);
}

double sizeOfHead(const View &view, ArrayRef<Dim> shape, const char *heads) {
  if (shape.size() == 4)
    return at(shape[3]);
  return at(shape.back()) / static_cast<double>(std::max<int64_t>(1, view.integer(heads, 1)));
}
} // namespace

/// Q [batch, heads, length, size] or [batch, length, heads·size]; K and V likewise, with fewer
/// heads where groups share them; past keys lengthen K and V.
AttentionSize attentionSize(const View &view) {
  ArrayRef<Dim> q = view.shape(view.input(0)), k = view.shape(view.input(1));
  ArrayRef<Dim> past = view.shape(view.input(4));
  const double size = q.size() < 3 ? 0 : sizeOfHead(view, q, "q_num_heads");
  if (size <= 0 || k.size() < 3)
    return {};
  return {product(q) / size, at(k[k.size() - 2]) + (past.size() == 4 ? at(past[2]) : 0)};
}

/// Kernels skip what is_causal hides.
double attention(const View &view) {
  ArrayRef<Dim> q = view.shape(view.input(0)), v = view.shape(view.input(2));
  auto [queries, keys] = attentionSize(view);
  if (queries <= 0 || v.size() < 3)
    return 0;
  if (view.integer("is_causal", 0) && at(q[q.size() - 2]) == keys)
    keys = (keys + 1) / 2;
  return scoresAndValues(queries, keys, sizeOfHead(view, q, "q_num_heads"),
                         sizeOfHead(view, v, "kv_num_heads"));
}

/// com.microsoft.Attention: input [batch, length, in] times weight [in, 3·hidden], then attention.
double projectedAttention(const View &view) {
  ArrayRef<Dim> input = view.shape(view.input(0)), weight = view.shape(view.input(1));
  if (input.size() != 3 || weight.size() != 2)
    return 0;
  auto heads = static_cast<double>(std::max<int64_t>(1, view.integer("num_heads", 1)));
  double rows = at(input[0]) * at(input[1]), size = at(weight[1]) / 3 / heads;
  return 2 * rows * product(weight) + scoresAndValues(rows * heads, at(input[1]), size, size);
}

/// MultiHeadAttention and GroupQueryAttention: query [batch, length, heads·size], key and value
/// likewise. If key and value are omitted, query holds all three.
double fusedAttention(const View &view) {
  ArrayRef<Dim> q = view.shape(view.input(0)), k = view.shape(view.input(1));
  if (q.size() < 3)
    return 0;
  auto heads = static_cast<double>(std::max<int64_t>(1, view.integer("num_heads", 1)));
  double rows = at(q[0]) * at(q[1]), keys = at(q[1]);
  if (k.size() == 3)
    keys = at(k[1]);
  if (k.size() == 4)
    keys = at(k[2]);
  ArrayRef<Dim> result = view.shape(view.output(0));
  double size = result.empty() ? 0 : at(result.back()) / heads;
  return scoresAndValues(rows * heads, keys, size, size);
}

double pooling(const View &view) {
  double window = 1;
  for (int64_t extent : view.integers("kernel_shape"))
    window *= static_cast<double>(extent);
  return window * view.facts.elements(view.output(0));
}

/// Each output element is the mean of samples of four weighted neighbours (8 operations each). How
/// many there are by default depends on the regions; two an axis are assumed.
double regionAlign(const View &view) {
  double ratio = static_cast<double>(std::clamp<int64_t>(view.integer("sampling_ratio", 0), 0, 64));
  ratio = ratio > 0 ? ratio : 2;
  return 8 * ratio * ratio * view.outputElements();
}

namespace {
/// Operations of a complex transform of `length`: 5·n·log2(n) (Frigo and Johnson, Proc. IEEE 93(2),
/// 2005).
double transform(double length) { return length > 1 ? 5 * length * std::log2(length) : 0; }
} // namespace

/// The axis is input 2 and seldom changes the count; the longest one but the last is taken.
double fourier(const View &view) {
  ArrayRef<Dim> shape = view.shape(view.output(0));
  if (shape.size() < 2)
    return 0;
  double length = 1;
  for (const Dim &dim : shape.drop_back())
    length = std::max(length, at(dim));
  return product(shape.drop_back()) / length * transform(length);
}

/// The result is [batch, frames, bins, 2]; each frame is weighted by the window and transformed.
double shortFourier(const View &view) {
  ArrayRef<Dim> shape = view.shape(view.output(0));
  if (shape.size() != 4)
    return 0;
  double bins = at(shape[2]), length = view.integer("onesided", 1) ? 2 * (bins - 1) : bins;
  return at(shape[0]) * at(shape[1]) * (std::max(0.0, length) + transform(length));
}

} // namespace heterplan::work
