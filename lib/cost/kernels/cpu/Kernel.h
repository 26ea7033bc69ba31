// One operator on the CPU, ready to be run again and again: its buffers, what its forward pass
// executes and what its backward pass does. Kernels of oneDNN are lists of primitives; the others
// are loops of our own.
#pragma once

#include "cost/kernels/Engine.h"

#include <dnnl.hpp>

#include <unordered_map>

namespace heterplan::kernels::cpu {

/// A tensor of floats that lies row by row.
dnnl::memory::desc plain(const Dims &dims);
const dnnl::engine &engine();

/// An operand of a kernel; the gradient is empty if none is needed.
struct Slot {
  dnnl::memory value, gradient;
};

class Kernel : public kernels::Kernel {
public:
  /// Plain buffers for all operands that are floats.
  explicit Kernel(const Call &call);
  void forward() override;
  void backward() override;
  void fill(unsigned seed) override;
  size_t bytes() const override;
  std::vector<float> read(Place place) const override;
  void write(Place place, llvm::ArrayRef<float> values) override;

protected:
  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
  };
  using Steps = std::vector<Step>;
  /// `memory` in the layout `wanted`; a reorder becomes part of `steps` where it differs.
  static dnnl::memory as(dnnl::memory memory, const dnnl::memory::desc &wanted, Steps &steps);
  static void addReorder(Steps &steps, const dnnl::memory::desc &from, const dnnl::memory &source,
                         const dnnl::memory::desc &to, const dnnl::memory &target);
  static void run(Steps &steps);

  const dnnl::memory &memoryAt(Place place) const;
  bool wants(size_t input) const { return inputs[input].gradient.get(/*allow_empty=*/true); }

  std::vector<Slot> inputs, outputs;
  Steps forwardSteps, backwardSteps;
};

float *floats(const dnnl::memory &memory);
void zero(const dnnl::memory &memory);

/// The same memory, described otherwise.
dnnl::memory view(const dnnl::memory &memory, const dnnl::memory::desc &desc);

/// Each makes the kernel of an operator; null where it has none for these settings.
#define HETERPLAN_CPU_KERNEL(op, maker) std::unique_ptr<Kernel> maker(const Call &call);
#include "cost/kernels/cpu/Kernels.def"

} // namespace heterplan::kernels::cpu
