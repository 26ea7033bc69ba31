// Matrix products: MatMul over any leading axes, Gemm with its bias.
#include "cost/kernels/cpu/Kernel.h"

#include <algorithm>

namespace heterplan::cpu {
namespace {
/// A view of plain memory with its last two axes exchanged.
dnnl::memory::desc transposed(Dims dims) {
  Dims strides = stridesOf(dims);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  std::swap(strides[dims.size() - 1], strides[dims.size() - 2]);
  return {dims, dnnl::memory::data_type::f32, strides};
}

/// C = op(A)·op(B) (+ bias) with stored shapes `left` and `right`; the shapes may leave out how the
/// operands' leading axes are split.
class Product : public Kernel {
public:
  Product(const Call &call, Dims left, Dims right, Dims result, bool turnLeft, bool turnRight)
      : Kernel(call), left(left), right(right), result(result), turnLeft(turnLeft),
        turnRight(turnRight) {
    bias = inputs.size() > 2 && inputs[2].value.get(true);
    addForward();
    if (inputs[0].gradient.get(true))
      addGradient(0);
    if (inputs[1].gradient.get(true))
      addGradient(1);
  }

  void backward() override {
    Kernel::backward();
    if (bias && inputs[2].gradient.get(true))
      sumRows(floats(outputs[0].gradient), floats(inputs[2].gradient));
  }

private:
  static dnnl::memory::desc view(const Dims &dims, bool turned) {
    return turned ? transposed(dims) : plain(dims);
  }

  void addProduct(Steps &steps, const dnnl::memory::desc &a, dnnl::memory first,
                  const dnnl::memory::desc &b, dnnl::memory second, const Dims &c,
                  dnnl::memory target) {
    dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, plain(c)), engine());
    steps.push_back({dnnl::matmul(description),
                     {{DNNL_ARG_SRC, shown(first, a)},
                      {DNNL_ARG_WEIGHTS, shown(second, b)},
                      {DNNL_ARG_DST, shown(target, plain(c))}}});
  }

  static dnnl::memory shown(const dnnl::memory &memory, const dnnl::memory::desc &desc) {
    return {desc, engine(), memory.get_data_handle()};
  }

  void addForward() {
    if (!bias)
      return addProduct(forwardSteps, view(left, turnLeft), inputs[0].value, view(right, turnRight),
                        inputs[1].value, result, outputs[0].value);
    Dims row(result.size(), 1);
    row.back() = result.back();
    dnnl::matmul::primitive_desc description(
        dnnl::matmul::desc(view(left, turnLeft), view(right, turnRight), plain(row), plain(result)),
        engine());
    forwardSteps.push_back({dnnl::matmul(description),
                            {{DNNL_ARG_SRC, shown(inputs[0].value, view(left, turnLeft))},
                             {DNNL_ARG_WEIGHTS, shown(inputs[1].value, view(right, turnRight))},
                             {DNNL_ARG_BIAS, shown(inputs[2].value, plain(row))},
                             {DNNL_ARG_DST, shown(outputs[0].value, plain(result))}}});
  }

  /// dA = dC·op(B)^T and dB = op(A)^T·dC, transposed where the operand is stored so.
  void addGradient(int operand) {
    const dnnl::memory &arriving = outputs[0].gradient;
    if (operand == 0 && !turnLeft)
      addProduct(backwardSteps, plain(result), arriving, view(right, !turnRight), inputs[1].value,
                 left, inputs[0].gradient);
    else if (operand == 0)
      addProduct(backwardSteps, view(right, turnRight), inputs[1].value, transposed(result),
                 arriving, left, inputs[0].gradient);
    else if (!turnRight)
      addProduct(backwardSteps, view(left, !turnLeft), inputs[0].value, plain(result), arriving,
                 right, inputs[1].gradient);
    else
      addProduct(backwardSteps, transposed(result), arriving, view(left, turnLeft), inputs[0].value,
                 right, inputs[1].gradient);
  }

  void sumRows(const float *rows, float *sums) const {
    int64_t width = result.back(), count = product(result) / std::max<int64_t>(width, 1);
    std::fill(sums, sums + width, 0.0f);
    for (int64_t row = 0; row < count; ++row)
      for (int64_t column = 0; column < width; ++column)
        sums[column] += rows[row * width + column];
  }

  Dims left, right, result;
  bool turnLeft, turnRight, bias = false;
};

bool isBias(const Operand &operand, int64_t width) {
  return !operand.tensor || (operand.dims.back() == width && product(operand.dims) == width);
}
} // namespace

std::unique_ptr<Kernel> makeMatMul(const Call &call) {
  const Dims &left = call.inputs[0].dims, &right = call.inputs[1].dims;
  const Dims &result = call.outputs[0].dims;
  if (left.size() < 2 || right.size() < 2)
    return nullptr;
  if (right.size() == 2) { // the leading axes of A are rows
    int64_t inner = left.back(), rows = product(left) / std::max<int64_t>(inner, 1);
    return std::make_unique<Product>(call, Dims{rows, inner}, right, Dims{rows, right[1]}, false,
                                     false);
  }
  bool sameBatch =
      left.size() == right.size() && std::equal(left.begin(), left.end() - 2, right.begin());
  if (!sameBatch)
    return nullptr;
  return std::make_unique<Product>(call, left, right, result, false, false);
}

std::unique_ptr<Kernel> makeGemm(const Call &call) {
  bool biased = call.inputs.size() > 2 && call.inputs[2].tensor;
  bool scaled = call.real("alpha", 1) != 1 || (biased && call.real("beta", 1) != 1);
  if (scaled || (biased && !isBias(call.inputs[2], call.outputs[0].dims.back())))
    return nullptr;
  return std::make_unique<Product>(call, call.inputs[0].dims, call.inputs[1].dims,
                                   call.outputs[0].dims, call.integer("transA", 0) != 0,
                                   call.integer("transB", 0) != 0);
}

} // namespace heterplan::cpu
