// Looking up: rows of a table, or of integers.
#include "cost/kernels/Shapes.h"
#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Runs.h"

#include <cstring>

namespace heterplan::kernels::cpu {
namespace {
class Gather : public Kernel {
public:
  Gather(const Call &call, Lookup lookup)
      : Kernel(call), lookup(std::move(lookup)), isFloat(call.inputs[0].isFloat()) {
    if (isFloat)
      return;
    table.resize(product(call.inputs[0].dims));
    found.resize(product(call.outputs[0].dims));
  }

  size_t bytes() const override {
    return Kernel::bytes() +
           (lookup.indices.size() + table.size() + found.size()) * sizeof(int64_t);
  }

  void forward() override {
    if (isFloat)
      copyRows(floats(inputs[0].value), floats(outputs[0].value));
    else
      copyRows(table.data(), found.data());
  }

  /// The gradient of a row is the sum of those of its uses, and 0 where there are none.
  void backward() override {
    if (!isFloat || !wants(0))
      return;
    zero(inputs[0].gradient);
    int64_t width = lookup.width;
    const float *arriving = floats(outputs[0].gradient);
    float *gradient = floats(inputs[0].gradient);
    for (int64_t block = 0; block < lookup.outer; ++block, gradient += lookup.rows * width)
      for (int64_t index : lookup.indices) {
        for (int64_t k = 0; k < width; ++k)
          gradient[index * width + k] += arriving[k];
        arriving += width;
      }
  }

private:
  template <typename T> void copyRows(const T *from, T *to) const {
    int64_t width = lookup.width, count = int64_t(lookup.indices.size());
    auto copy = [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        int64_t row = line / count * lookup.rows + lookup.indices[line % count];
        std::memcpy(to + line * width, from + row * width, width * sizeof(T));
      }
    };
    inParallel(lookup.outer * count, leastOfThread / std::max<int64_t>(width, 1), copy);
  }

  Lookup lookup;
  bool isFloat;
  std::vector<int64_t> table, found; // of integers
};
} // namespace

std::unique_ptr<Kernel> makeGather(const Call &call) {
  std::optional<Lookup> lookup = lookupOf(call);
  return lookup ? std::make_unique<Gather>(call, std::move(*lookup)) : nullptr;
}

} // namespace heterplan::kernels::cpu
