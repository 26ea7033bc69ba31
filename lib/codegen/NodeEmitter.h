// One node on its way to Python: its operands as expressions, its attributes with their defaults,
// the values of its constant inputs. The functions of Operators.def write an operator in terms of
// it.
#pragma once

#include "codegen/Scope.h"
#include "ir/Graph.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

using Integers = std::vector<int64_t>;
/// The Python expression that computes a node.
using Expression = llvm::Expected<std::string>;

class NodeEmitter {
public:
  NodeEmitter(Scope &scope, const GraphNode &node) : scope(scope), node(node) {}

  llvm::StringRef op() const { return node.op; }
  int inputCount() const { return static_cast<int>(node.inputs.size()); }
  /// Inputs without what bodies capture.
  int operandCount() const { return static_cast<int>(node.operands().size()); }
  /// The number of inputs of the only body.
  int bodyInputCount() const { return static_cast<int>(node.bodies.front().inputs.size()); }
  int outputCount() const { return static_cast<int>(node.outputs.size()); }
  /// Whether input `index` is given.
  bool has(int index) const;
  /// Whether some node reads output `index`, or the model returns it.
  bool isUsed(int index) const;
  /// Whether the node has output `index`.
  bool isPresent(int index) const {
    return index < outputCount() && node.outputs[index] != noTensor;
  }
  /// The tensor of an input that is given.
  const GraphTensor &input(int index) const;
  const GraphTensor &output(int index = 0) const;
  int rank(int index) const { return static_cast<int>(input(index).shape.size()); }

  /// An expression for input `index`, always a tensor.
  std::string in(int index) { return scope.expression(node.inputs[index]); }
  /// The call that reads rows `indices` of the shared table `table`, or "" where that input is a
  /// parameter like any other.
  std::string lookup(int table, int indices);
  /// As `in`, or "None" where it is left out.
  std::string optional(int index) { return has(index) ? in(index) : "None"; }
  /// The expression of input `index`, but a number if the input is a constant of one element which,
  /// beside the tensor at input `beside`, changes neither shape nor type of the result.
  std::string operand(int index, int beside);
  /// Input `index` as a number, where it is known at import or in terms of the batch.
  std::optional<std::string> number(int index);
  /// The literal of each element of input `index`, in row-major order.
  std::optional<std::vector<std::string>> numbers(int index);
  /// All inputs that are given.
  std::vector<std::string> allInputs();

  bool hasAttribute(llvm::StringRef name) const { return node.attributes.count(name.str()); }
  int64_t integer(llvm::StringRef name, int64_t fallback) const;
  double real(llvm::StringRef name, double fallback) const;
  std::string text(llvm::StringRef name, llvm::StringRef fallback) const;
  /// Null where absent.
  const TensorData *tensor(llvm::StringRef name) const;
  /// Empty where absent.
  Integers integers(llvm::StringRef name) const;
  /// `count` numbers; `fallback` repeated where absent. Fails when there are more or fewer.
  llvm::Expected<Integers> integers(llvm::StringRef name, size_t count, int64_t fallback) const;

  /// The values of an input that must be constant.
  llvm::Expected<Integers> constantIntegers(int index) const;
  /// The value of an input that must be a constant of one element.
  llvm::Expected<double> constantReal(int index) const;
  /// Whether input `index` is given and stored in the model.
  bool isStored(int index) const;
  /// Whether input `index` is the vector that is added to the matrix product at input `product`.
  bool isBiasOf(int index, int product) const;
  /// Whether the values of input `index` are known.
  bool isConstant(int index) const;
  /// Values of the attribute `name` or, where inputs took its place, of input `index`; nothing
  /// where both are absent.
  llvm::Expected<std::optional<Integers>> attributeOrInput(llvm::StringRef name, int index) const;

  /// `axis` counted from the front; fails outside [-rank, rank).
  llvm::Expected<int64_t> axis(int64_t axis, int rank) const;
  /// Sizes of the last `count` dimensions of `tensor`; fails where one depends on the batch.
  llvm::Expected<Integers> fixedSizes(const GraphTensor &tensor, size_t count) const;
  /// The sizes of output `index` as the arguments of reshape(): at most one of them is -1.
  std::string outputSizes(int index = 0);
  /// The size `dim` in terms of the batch.
  std::string size(Dim dim) { return scope.size(dim); }
  /// The expression of the device that the stage runs on.
  std::string device() { return scope.device(); }

  /// The error NotGeneratable for this node.
  llvm::Error refuse(llvm::StringRef why) const;

  /// Whether the shape of `tensor` is known when the code is written, up to the batch.
  bool isStatic(const GraphTensor &tensor) const {
    return !tensor.dynamic && tensor.container == Container::None;
  }
  /// Whether PyTorch has one kernel for the node, an Attention.
  bool isPlainAttention() const;
  /// Whether the node is in the body of another one, which may run it many times.
  bool isInBody() const { return scope.isInBody(); }
  /// Whether input `index` is given, but its values are computed or fed at run time.
  bool isFed(int index) const { return has(index) && !isConstant(index); }
  /// A call of a function of heterplan_runtime.operators: `name(arguments)`.
  std::string helper(llvm::StringRef name, const std::vector<std::string> &arguments);
  /// All inputs, "None" where one is left out, and then as keywords those attributes among
  /// `settings` (names separated by blanks) that the node has: helpers have ONNX's defaults. A
  /// setting "#2" stands for input 2, written as setting(2).
  std::vector<std::string> arguments(llvm::StringRef settings = "");
  /// "name=value" for each attribute among `settings`, names separated by blanks, that the node
  /// has.
  std::vector<std::string> keywords(llvm::StringRef settings) const;
  /// Input `index` as a number or list where it is a small constant, a tensor otherwise.
  std::string setting(int index);
  /// Writes the body `attribute` as a local function of that name. Fails where it is absent or one
  /// of its operators cannot be written.
  llvm::Error defineBody(llvm::StringRef attribute);

  /// Set where the expression is a tuple: its length. Outputs that are left out count.
  int results = 0;

private:
  Scope &scope;
  const GraphNode &node;
};

/// Whether Operators.def says how operator `op` of `domain` is written.
bool hasRule(llvm::StringRef domain, llvm::StringRef op);

/// Statements that compute `node`, added to `scope`.
llvm::Error emitNode(Scope &scope, const GraphNode &node);

} // namespace heterplan
