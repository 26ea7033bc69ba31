// One operator on a GPU: its buffers, and what all kernels of an engine share. Kernels call the
// libraries or the operations of our own; all of it is told to one stream, in order.
#pragma once

#include "cost/kernels/cuda/Libraries.h"
#include "cost/kernels/cuda/Operations.h"

#include <map>

namespace heterplan::kernels::cuda {

/// The context that the kernels of an engine share.
struct Context {
  Device &device;
  Precision precision = Precision::Fp32;
  Cublas blas;
  Cudnn dnn;
  Handle blasHandle = nullptr, dnnHandle = nullptr;
  Buffer scratch{};                              // of sums
  Buffer workspace{};                            // of the libraries
  std::map<std::string, Candidate> algorithms{}; // found by searches, by what was searched for

  Format format() const { return precision == Precision::Bf16 ? Format::BFloat16 : Format::Float; }
  /// Keeps a failure of a library's call for the engine.
  void check(int status, const char *what);
};

/// Values in the memory of the device; none where there is no such buffer.
struct Tensor {
  Buffer memory;
  int64_t count = 0;
  Format format = Format::Float;

  Tensor() = default;
  Tensor(Device &device, Format format, int64_t count);
  void *data() const { return memory.data(); }
  float *floats() const;
  explicit operator bool() const { return bool(memory); }
};

struct Slot {
  Tensor value, gradient;
};

class Kernel : public kernels::Kernel {
public:
  /// Buffers for all operands that are floats, in the format of the precision.
  Kernel(Context &context, const Call &call);
  void fill(unsigned seed) override;
  size_t bytes() const override;
  std::vector<float> read(Place place) const override;
  void write(Place place, llvm::ArrayRef<float> values) override;

protected:
  const Tensor &tensorAt(Place place) const;
  /// A gradient of this input is asked for.
  bool wants(size_t input) const { return input < inputs.size() && inputs[input].gradient; }
  /// Values of parameters that libraries and operations want in fp32 whatever the precision is.
  void keepFloats(size_t input);
  void *value(size_t input) const { return inputs[input].value.data(); }
  void *gradient(size_t input) const { return inputs[input].gradient.data(); }
  void *result() const { return outputs[0].value.data(); }
  void *arriving() const { return outputs[0].gradient.data(); }

  Context &context;
  Device &device;
  Format format;
  std::vector<Slot> inputs, outputs;
};

/// Each makes the kernel of an operator; null where it has none for these settings.
#define HETERPLAN_CUDA_KERNEL(op, maker)                                                           \
  std::unique_ptr<Kernel> maker(Context &context, const Call &call);
#include "cost/kernels/cuda/Kernels.def"

} // namespace heterplan::kernels::cuda
