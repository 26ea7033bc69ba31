// An operator at a number of samples, as the kernels of every device see it: shapes, attributes
// and constants, without buffers.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan::kernels {

using Dims = std::vector<int64_t>;

/// An input or output of a call. Left out where `tensor` is null.
struct Operand {
  const GraphTensor *tensor = nullptr;
  Dims dims;           // at the number of samples; {1} where the rank is 0
  bool wanted = false; // a gradient of it is asked for, or comes

  bool isFloat() const { return tensor && isFloating(tensor->type); }
};

/// An operator at a number of samples.
struct Call {
  const GraphNode &node;
  std::vector<Operand> inputs, outputs;

  /// Input `index` is there.
  bool has(size_t index) const { return index < inputs.size() && inputs[index].tensor; }
  /// A gradient of input `index` is asked for.
  bool wants(size_t index) const { return has(index) && inputs[index].wanted; }
  /// Input 0 and all outputs are floats.
  bool isFloat() const;

  /// Attributes, or what holds when they are absent.
  int64_t integer(llvm::StringRef name, int64_t absent) const;
  double real(llvm::StringRef name, double absent) const;
  std::string text(llvm::StringRef name) const;
  std::vector<std::string> texts(llvm::StringRef name) const;
  Dims integers(llvm::StringRef name, const Dims &absent) const;
  /// The integers of input `index`, a constant; empty where it is left out or has no values.
  Dims constant(size_t index) const;
  /// The value of input `index`, a constant float of one element; else nothing.
  std::optional<float> scalar(size_t index) const;
};
/// The operator of `node`, a node of `graph`, at `samples`.
Call callOf(const Graph &graph, const GraphNode &node, int64_t samples);

int64_t product(llvm::ArrayRef<int64_t> dims);
/// Strides of a tensor that lies row by row.
Dims stridesOf(llvm::ArrayRef<int64_t> dims);
/// An axis that may be counted from the end.
inline int64_t axisOf(int64_t axis, size_t rank) { return axis < 0 ? axis + int64_t(rank) : axis; }

} // namespace heterplan::kernels
