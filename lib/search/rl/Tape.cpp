#include "search/rl/Tape.h"

#include <algorithm>
#include <cmath>
#include <limits>

using Eigen::VectorXd;

namespace heterplan {

VectorXd softmax(const VectorXd &scores, const std::vector<bool> &allowed) {
  double most = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < scores.size(); ++i)
    if (allowed[i])
      most = std::max(most, scores[i]);
  VectorXd result = VectorXd::Zero(scores.size());
  for (int i = 0; i < scores.size(); ++i)
    if (allowed[i])
      result[i] = std::exp(scores[i] - most);
  return result / result.sum();
}

double entropyOf(const VectorXd &probabilities) {
  double entropy = 0;
  for (double p : probabilities)
    entropy -= p > 0 ? p * std::log(p) : 0;
  return entropy;
}

Tape::Node &Tape::push(Op op, Var a, Var b) {
  if (used == static_cast<int>(nodes.size()))
    nodes.emplace_back();
  Node &node = nodes[size_t(used++)];
  node.op = op;
  node.a = a.index;
  node.b = b.index;
  return node;
}

Tape::Var Tape::constant(const Matrix &value) {
  push(Op::Constant).value = value;
  return {used - 1};
}

Tape::Var Tape::parameter(const VectorXd &parameters, int offset, int rows, int columns) {
  Node &node = push(Op::Parameter);
  node.first = offset;
  node.value = Eigen::Map<const Matrix>(parameters.data() + offset, rows, columns);
  return {used - 1};
}

// A node is pushed before its inputs are read, since that may move them.
Tape::Var Tape::product(Var a, Var b) {
  Node &node = push(Op::Product, a, b);
  node.value.noalias() = value(a) * value(b);
  count += value(a).size() * value(b).cols();
  return {used - 1};
}

Tape::Var Tape::transposedProduct(Var a, Var b) {
  Node &node = push(Op::TransposedProduct, a, b);
  node.value.noalias() = value(a).transpose() * value(b);
  count += value(a).size() * value(b).cols();
  return {used - 1};
}

Tape::Var Tape::sum(Var a, Var b) {
  Node &node = push(Op::Sum, a, b);
  node.value = value(a) + value(b);
  return {used - 1};
}

Tape::Var Tape::sumColumn(Var a, Var column) {
  Node &node = push(Op::SumColumn, a, column);
  node.value = value(a).colwise() + value(column).col(0);
  return {used - 1};
}

Tape::Var Tape::elementProduct(Var a, Var b) {
  Node &node = push(Op::ElementProduct, a, b);
  node.value = value(a).cwiseProduct(value(b));
  return {used - 1};
}

Tape::Var Tape::scaled(Var a, double factor) {
  Node &node = push(Op::Scaled, a);
  node.factor = factor;
  node.value = factor * value(a);
  return {used - 1};
}

Tape::Var Tape::relu(Var a) {
  Node &node = push(Op::Relu, a);
  node.value = value(a).cwiseMax(0.0);
  return {used - 1};
}

Tape::Var Tape::tanh(Var a) {
  Node &node = push(Op::Tanh, a);
  node.value = value(a).array().tanh();
  return {used - 1};
}

Tape::Var Tape::sigmoid(Var a) {
  Node &node = push(Op::Sigmoid, a);
  node.value = (1 + (-value(a).array()).exp()).inverse();
  return {used - 1};
}

Tape::Var Tape::softmaxColumns(Var a) {
  Node &node = push(Op::SoftmaxColumns, a);
  const Matrix &scores = value(a);
  node.value = (scores.rowwise() - scores.colwise().maxCoeff()).array().exp();
  node.value.array().rowwise() /= node.value.colwise().sum().eval().array();
  return {used - 1};
}

Tape::Var Tape::normalizedColumns(Var a) {
  constexpr double least = 1e-6; // of the variance
  Node &node = push(Op::NormalizedColumns, a);
  const Matrix &from = value(a);
  node.value = from.rowwise() - from.colwise().mean();
  node.kept = (node.value.colwise().squaredNorm() / double(from.rows())).array() + least;
  node.kept = node.kept.array().rsqrt().matrix().eval();
  node.value.array().rowwise() *= node.kept.row(0).array();
  return {used - 1};
}

Tape::Var Tape::rows(Var a, int first, int count) {
  Node &node = push(Op::Rows, a);
  node.first = first;
  node.value = value(a).middleRows(first, count);
  return {used - 1};
}

Tape::Var Tape::columns(Var a, int first, int count) {
  Node &node = push(Op::Columns, a);
  node.first = first;
  node.value = value(a).middleCols(first, count);
  return {used - 1};
}

Tape::Var Tape::besides(Var a, Var b) {
  Node &node = push(Op::Besides, a, b);
  node.value.resize(value(a).rows(), value(a).cols() + value(b).cols());
  node.value << value(a), value(b);
  return {used - 1};
}

Tape::Var Tape::stacked(Var a, Var b) {
  Node &node = push(Op::Stacked, a, b);
  node.value.resize(value(a).rows() + value(b).rows(), value(a).cols());
  node.value << value(a), value(b);
  return {used - 1};
}

Tape::Var Tape::choice(Var scores, const std::vector<bool> &allowed, int taken, double logWeight,
                       double entropyWeight) {
  Node &node = push(Op::Choice, scores);
  node.first = taken;
  node.factor = logWeight;
  node.entropyWeight = entropyWeight;
  node.kept = softmax(value(scores).col(0), allowed);
  node.value = Matrix::Constant(1, 1,
                                logWeight * std::log(node.kept(taken, 0)) +
                                    entropyWeight * entropyOf(node.kept.col(0)));
  return {used - 1};
}

Tape::Matrix &Tape::gradientOf(int index) { return nodes[size_t(index)].gradient; }

void Tape::backward(VectorXd &gradient) {
  for (int i = 0; i < used; ++i)
    nodes[size_t(i)].gradient.setZero(nodes[size_t(i)].value.rows(), nodes[size_t(i)].value.cols());
  for (int i = used - 1; i >= 0; --i)
    propagate(nodes[size_t(i)], gradient);
}

void Tape::propagate(const Node &node, VectorXd &gradient) {
  const Matrix &out = node.gradient;
  switch (node.op) {
  case Op::Constant:
    break;
  case Op::Parameter:
    Eigen::Map<Matrix>(gradient.data() + node.first, out.rows(), out.cols()) += out;
    break;
  case Op::Product:
    gradientOf(node.a).noalias() += out * nodes[size_t(node.b)].value.transpose();
    gradientOf(node.b).noalias() += nodes[size_t(node.a)].value.transpose() * out;
    count += 2 * nodes[size_t(node.a)].value.size() * out.cols();
    break;
  case Op::TransposedProduct:
    gradientOf(node.a).noalias() += nodes[size_t(node.b)].value * out.transpose();
    gradientOf(node.b).noalias() += nodes[size_t(node.a)].value * out;
    count += 2 * nodes[size_t(node.a)].value.size() * out.cols();
    break;
  case Op::Sum:
    gradientOf(node.a) += out;
    gradientOf(node.b) += out;
    break;
  case Op::SumColumn:
    gradientOf(node.a) += out;
    gradientOf(node.b) += out.rowwise().sum();
    break;
  case Op::ElementProduct:
    gradientOf(node.a) += out.cwiseProduct(nodes[size_t(node.b)].value);
    gradientOf(node.b) += out.cwiseProduct(nodes[size_t(node.a)].value);
    break;
  case Op::Scaled:
    gradientOf(node.a) += node.factor * out;
    break;
  case Op::Relu:
    gradientOf(node.a).array() += (node.value.array() > 0).select(out.array(), 0.0);
    break;
  case Op::Tanh:
    gradientOf(node.a).array() += out.array() * (1 - node.value.array().square());
    break;
  case Op::Sigmoid:
    gradientOf(node.a).array() += out.array() * node.value.array() * (1 - node.value.array());
    break;
  case Op::SoftmaxColumns: {
    Eigen::RowVectorXd along = out.cwiseProduct(node.value).colwise().sum();
    gradientOf(node.a).array() += node.value.array() * (out.rowwise() - along).array();
    break;
  }
  case Op::NormalizedColumns: {
    Eigen::RowVectorXd mean = out.colwise().mean();
    Eigen::RowVectorXd along =
        out.cwiseProduct(node.value).colwise().sum() / double(node.value.rows());
    Matrix inner = out.rowwise() - mean;
    inner.array() -= node.value.array().rowwise() * along.array();
    gradientOf(node.a).array() += inner.array().rowwise() * node.kept.row(0).array();
    break;
  }
  case Op::Choice: {
    Eigen::VectorXd p = node.kept.col(0);
    double entropy = entropyOf(p);
    Matrix &scores = gradientOf(node.a);
    scores(node.first, 0) += node.factor;
    for (int i = 0; i < p.size(); ++i)
      if (p[i] > 0)
        scores(i, 0) -= node.factor * p[i] + node.entropyWeight * p[i] * (std::log(p[i]) + entropy);
    break;
  }
  default:
    propagateShapes(node);
  }
}

void Tape::propagateShapes(const Node &node) {
  const Matrix &out = node.gradient;
  switch (node.op) {
  case Op::Rows:
    gradientOf(node.a).middleRows(node.first, out.rows()) += out;
    break;
  case Op::Columns:
    gradientOf(node.a).middleCols(node.first, out.cols()) += out;
    break;
  case Op::Besides:
    gradientOf(node.a) += out.leftCols(gradientOf(node.a).cols());
    gradientOf(node.b) += out.rightCols(gradientOf(node.b).cols());
    break;
  case Op::Stacked:
    gradientOf(node.a) += out.topRows(gradientOf(node.a).rows());
    gradientOf(node.b) += out.bottomRows(gradientOf(node.b).rows());
    break;
  default:
    break;
  }
}

} // namespace heterplan
