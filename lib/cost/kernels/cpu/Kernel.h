// One operator on the CPU, ready to be run again and again: its buffers, what its forward pass
// executes and what its backward pass does. Kernels of oneDNN are lists of primitives; the others
// are loops of our own.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <dnnl.hpp>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace heterplan::cpu {

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

  /// Attributes, or what holds when they are absent.
  int64_t integer(llvm::StringRef name, int64_t absent) const;
  double real(llvm::StringRef name, double absent) const;
  std::string text(llvm::StringRef name) const;
  Dims integers(llvm::StringRef name, Dims absent) const;
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
/// A tensor of floats that lies row by row.
dnnl::memory::desc plain(const Dims &dims);
const dnnl::engine &engine();

/// What a kernel reads or writes; the gradient is empty where none is asked for.
struct Slot {
  dnnl::memory value, gradient;
};

class Kernel {
public:
  /// Plain buffers for all operands that are floats.
  explicit Kernel(const Call &call);
  virtual ~Kernel() = default;
  virtual void forward();
  /// From the gradients of the outputs to those of the inputs that are asked for.
  virtual void backward();

  std::vector<Slot> inputs, outputs;
  Dims indices; // of kernels that look up: in range

  /// Random values for inputs and gradients of outputs.
  void fill(unsigned seed);
  /// Bytes of all buffers.
  size_t bytes() const;

protected:
  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
  };
  using Steps = std::vector<Step>;
  /// `memory` in the layout `wanted`; a reorder becomes part of `steps` where it differs.
  static dnnl::memory as(dnnl::memory memory, const dnnl::memory::desc &wanted, Steps &steps);
  static void addReorder(Steps &steps, const dnnl::memory::desc &from, dnnl::memory source,
                         const dnnl::memory::desc &to, dnnl::memory target);
  static void run(Steps &steps);

  Steps forwardSteps, backwardSteps;
};

/// Values row by row, whatever the layout.
std::vector<float> read(const dnnl::memory &memory);
void write(dnnl::memory &memory, llvm::ArrayRef<float> values);
float *floats(const dnnl::memory &memory);
void zero(const dnnl::memory &memory);

/// Null, and why: there is no kernel for the operator, or not for these settings.
std::unique_ptr<Kernel> makeKernel(const Call &call, std::string &why);

/// Each makes the kernel of an operator; null where it has none for these settings.
#define HETERPLAN_CPU_KERNEL(op, maker) std::unique_ptr<Kernel> maker(const Call &call);
#include "cost/kernels/cpu/Kernels.def"

} // namespace heterplan::cpu
