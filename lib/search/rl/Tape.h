// Reverse-mode automatic differentiation over small matrices: what the policy networks are made of.
// A tape records operations as they are computed and runs them backward once; their gradients are
// therefore written once, whatever the network.
#pragma once

#include <Eigen/Core>

#include <vector>

namespace heterplan {

class Tape {
public:
  using Matrix = Eigen::MatrixXd;
  /// A value on the tape.
  struct Var {
    int index = -1;
  };

  /// A value without a gradient.
  Var constant(const Matrix &value);
  /// A `rows` × `columns` view of `parameters` from `offset` on, whose gradient `backward` adds
  /// to the same place.
  Var parameter(const Eigen::VectorXd &parameters, int offset, int rows, int columns);

  Var product(Var a, Var b);           // a · b
  Var transposedProduct(Var a, Var b); // aᵀ · b
  Var sum(Var a, Var b);               // of equal shapes
  Var sumColumn(Var a, Var column);    // `column` added to every column of a
  Var elementProduct(Var a, Var b);    // of equal shapes
  Var scaled(Var a, double factor);
  Var relu(Var a);
  Var tanh(Var a);
  Var sigmoid(Var a);
  Var softmaxColumns(Var a);
  Var normalizedColumns(Var a); // mean 0 and variance 1 in each column
  Var rows(Var a, int first, int count);
  Var columns(Var a, int first, int count);
  Var besides(Var a, Var b); // columns of a, then those of b
  Var stacked(Var a, Var b); // rows of a, then those of b
  /// logWeight · log p[taken] + entropyWeight · H(p), where p is the softmax of the column
  /// `scores` over the entries that `allowed` lists.
  Var choice(Var scores, const std::vector<bool> &allowed, int taken, double logWeight,
             double entropyWeight);

  const Matrix &value(Var a) const { return nodes[size_t(a.index)].value; }
  /// Adds the gradient of the sum of all choices to `gradient`, which is as long as the parameters.
  void backward(Eigen::VectorXd &gradient);

  /// Multiply-adds of all products so far, those of `backward` included.
  int64_t operations() const { return count; }

  /// The place behind the last value, and a return to one: later values are forgotten.
  int mark() const { return used; }
  void rewind(int mark) { used = mark; }

private:
  enum class Op {
    Constant,
    Parameter,
    Product,
    TransposedProduct,
    Sum,
    SumColumn,
    ElementProduct,
    Scaled,
    Relu,
    Tanh,
    Sigmoid,
    SoftmaxColumns,
    NormalizedColumns,
    Rows,
    Columns,
    Besides,
    Stacked,
    Choice
  };
  struct Node {
    Op op = Op::Constant;
    int a = -1, b = -1;
    int first = 0; // offset, first row or column, or the entry taken
    double factor = 0, entropyWeight = 0;
    Matrix value, gradient, kept; // kept: probabilities, or 1/σ of columns
  };
  Node &push(Op op) { return push(op, Var(), Var()); }
  Node &push(Op op, Var a) { return push(op, a, Var()); }
  Node &push(Op op, Var a, Var b);
  Matrix &gradientOf(int index);
  void propagate(const Node &node, Eigen::VectorXd &gradient);
  void propagateShapes(const Node &node);

  std::vector<Node> nodes; // memory of forgotten ones is used again
  int used = 0;
  int64_t count = 0;
};

/// Softmax of `scores` over the allowed entries; 0 elsewhere.
Eigen::VectorXd softmax(const Eigen::VectorXd &scores, const std::vector<bool> &allowed);
double entropyOf(const Eigen::VectorXd &probabilities);

} // namespace heterplan
