// Matrix products: MatMul over any leading axes, Gemm with its bias.
#include "cost/kernels/Shapes.h"
#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Runs.h"

#include <algorithm>

namespace heterplan::kernels::cpu {
namespace {
/// A view of plain memory with its last two axes exchanged.
dnnl::memory::desc transposed(Dims dims) {
  Dims strides = stridesOf(dims);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  std::swap(strides[dims.size() - 1], strides[dims.size() - 2]);
  return {dims, dnnl::memory::data_type::f32, strides};
}

class MatrixProduct : public Kernel {
public:
  MatrixProduct(const Call &call, Product product) : Kernel(call), shape(std::move(product)) {
    addForward();
    if (wants(0))
      addGradient(0);
    if (wants(1))
      addGradient(1);
  }

  void backward() override {
    Kernel::backward();
    if (shape.bias && wants(2))
      sumRows(floats(outputs[0].gradient), floats(inputs[2].gradient));
  }

private:
  static dnnl::memory::desc desc(const Dims &dims, bool turned) {
    return turned ? transposed(dims) : plain(dims);
  }

  void addProduct(Steps &steps, const dnnl::memory::desc &a, const dnnl::memory &first,
                  const dnnl::memory::desc &b, const dnnl::memory &second, const Dims &c,
                  const dnnl::memory &target) {
    dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, plain(c)), engine());
    steps.push_back({dnnl::matmul(description),
                     {{DNNL_ARG_SRC, view(first, a)},
                      {DNNL_ARG_WEIGHTS, view(second, b)},
                      {DNNL_ARG_DST, view(target, plain(c))}}});
  }

  void addForward() {
    auto left = desc(shape.left, shape.turnLeft), right = desc(shape.right, shape.turnRight);
    auto result = plain(shape.result);
    if (!shape.bias)
      return addProduct(forwardSteps, left, inputs[0].value, right, inputs[1].value, shape.result,
                        outputs[0].value);
    Dims row(shape.result.size(), 1);
    row.back() = shape.result.back();
    dnnl::matmul::primitive_desc description(dnnl::matmul::desc(left, right, plain(row), result),
                                             engine());
    forwardSteps.push_back({dnnl::matmul(description),
                            {{DNNL_ARG_SRC, view(inputs[0].value, left)},
                             {DNNL_ARG_WEIGHTS, view(inputs[1].value, right)},
                             {DNNL_ARG_BIAS, view(inputs[2].value, plain(row))},
                             {DNNL_ARG_DST, view(outputs[0].value, result)}}});
  }

  /// dA = dC·op(B)^T and dB = op(A)^T·dC, transposed where the operand is stored so.
  void addGradient(int operand) {
    const dnnl::memory &arriving = outputs[0].gradient, &a = inputs[0].value, &b = inputs[1].value;
    auto back = [&](const dnnl::memory::desc &first, const dnnl::memory &x,
                    const dnnl::memory::desc &second, const dnnl::memory &y) {
      addProduct(backwardSteps, first, x, second, y, operand == 0 ? shape.left : shape.right,
                 inputs[operand].gradient);
    };
    if (operand == 0 && !shape.turnLeft)
      back(plain(shape.result), arriving, desc(shape.right, !shape.turnRight), b);
    else if (operand == 0)
      back(desc(shape.right, shape.turnRight), b, transposed(shape.result), arriving);
    else if (!shape.turnRight)
      back(desc(shape.left, !shape.turnLeft), a, plain(shape.result), arriving);
    else
      back(transposed(shape.result), arriving, desc(shape.left, shape.turnLeft), a);
  }

  void sumRows(const float *rows, float *sums) const {
    int64_t width = shape.result.back();
    int64_t count = product(shape.result) / std::max<int64_t>(width, 1);
    std::fill(sums, sums + width, 0.0f);
    inParallel(width, leastOfThread / std::max<int64_t>(count, 1), [=](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < count; ++row)
        for (int64_t column = begin; column < end; ++column)
          sums[column] += rows[row * width + column];
    });
  }

  Product shape;
};

std::unique_ptr<Kernel> make(const Call &call, std::optional<Product> product) {
  return product ? std::make_unique<MatrixProduct>(call, std::move(*product)) : nullptr;
}
} // namespace

std::unique_ptr<Kernel> makeMatMul(const Call &call) { return make(call, matMulOf(call)); }
std::unique_ptr<Kernel> makeGemm(const Call &call) { return make(call, gemmOf(call)); }

} // namespace heterplan::kernels::cpu
