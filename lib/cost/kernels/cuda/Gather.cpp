// Looking up: rows of a table, or of integers, by kernels of our own.
#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {
namespace {
class Gather : public Kernel {
public:
  Gather(Context &context, const Call &call, Lookup found)
      : Kernel(context, call), lookup(std::move(found)), isFloat(call.inputs[0].isFloat()),
        indices(device, lookup.indices.size() * sizeof(int64_t)) {
    device.upload(indices.data(), lookup.indices.data(), indices.bytes());
    if (isFloat && wants(0)) // rows that are used often are summed in fp32
      inputs[0].gradient = Tensor(device, Format::Float, inputs[0].gradient.count);
    if (isFloat)
      return;
    table = Buffer(device, size_t(product(call.inputs[0].dims)) * sizeof(int64_t));
    looked = Buffer(device, size_t(product(call.outputs[0].dims)) * sizeof(int64_t));
    device.clear(table.data(), table.bytes());
  }

  size_t bytes() const override {
    return Kernel::bytes() + indices.bytes() + table.bytes() + looked.bytes();
  }
  void forward() override {
    if (isFloat)
      lookUp(device, format, lookup, where(), value(0), result());
    else
      lookUpIntegers(device, lookup, where(), static_cast<const int64_t *>(table.data()),
                     static_cast<int64_t *>(looked.data()));
  }
  /// The gradient of a row is the sum of those of its uses, and 0 where there are none.
  void backward() override {
    if (!isFloat || !wants(0))
      return;
    device.clear(gradient(0), inputs[0].gradient.memory.bytes());
    scatter(device, format, lookup, where(), arriving(), inputs[0].gradient.floats());
  }

private:
  const int64_t *where() const { return static_cast<const int64_t *>(indices.data()); }

  Lookup lookup;
  bool isFloat;
  Buffer indices, table, looked; // the last two: of integers
};
} // namespace

std::unique_ptr<Kernel> makeGather(Context &context, const Call &call) {
  std::optional<Lookup> lookup = lookupOf(call);
  return lookup ? std::make_unique<Gather>(context, call, std::move(*lookup)) : nullptr;
}

} // namespace heterplan::kernels::cuda
