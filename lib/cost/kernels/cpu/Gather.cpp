// Looking up: rows of a table, or of integers.
#include "cost/kernels/cpu/Kernel.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace heterplan::cpu {
namespace {
/// Along `axis`: outer blocks of `rows` rows of `width` elements, of which each index takes one.
class Gather : public Kernel {
public:
  Gather(const Call &call, int64_t axis) : Kernel(call) {
    const Dims &dims = call.inputs[0].dims;
    rows = dims[axis];
    outer = product({dims.data(), size_t(axis)});
    width = product({dims.data() + axis + 1, dims.size() - axis - 1});
    isFloat = call.inputs[0].isFloat();
    if (!isFloat) {
      table.resize(product(dims));
      found.resize(product(call.outputs[0].dims));
    }
    indices = call.constant(1);
    for (int64_t &index : indices)
      index = index < 0 ? index + rows : index;
    if (!indices.empty())
      return;
    std::mt19937 random(1);
    std::uniform_int_distribution<int64_t> uniform(0, rows - 1);
    indices.resize(product(call.inputs[1].dims));
    std::generate(indices.begin(), indices.end(), [&] { return uniform(random); });
  }

  void forward() override {
    if (isFloat)
      copyRows(floats(inputs[0].value), floats(outputs[0].value));
    else
      copyRows(table.data(), found.data());
  }

  /// The gradient of a row is the sum of those of its uses, and 0 where there are none.
  void backward() override {
    if (!isFloat || !inputs[0].gradient.get(true))
      return;
    zero(inputs[0].gradient);
    const float *arriving = floats(outputs[0].gradient);
    float *gradient = floats(inputs[0].gradient);
    for (int64_t block = 0; block < outer; ++block, gradient += rows * width)
      for (int64_t index : indices) {
        for (int64_t k = 0; k < width; ++k)
          gradient[index * width + k] += arriving[k];
        arriving += width;
      }
  }

private:
  template <typename T> void copyRows(const T *from, T *to) const {
    for (int64_t block = 0; block < outer; ++block, from += rows * width)
      for (int64_t index : indices) {
        std::memcpy(to, from + index * width, width * sizeof(T));
        to += width;
      }
  }

  int64_t rows = 0, outer = 0, width = 0;
  bool isFloat = true;
  std::vector<int64_t> table, found; // of integers
};
} // namespace

std::unique_ptr<Kernel> makeGather(const Call &call) {
  const Dims &dims = call.inputs[0].dims;
  int64_t axis = call.integer("axis", 0);
  axis = axis < 0 ? axis + int64_t(dims.size()) : axis;
  if (product(dims) == 0)
    return nullptr;
  return std::make_unique<Gather>(call, axis);
}

} // namespace heterplan::cpu
