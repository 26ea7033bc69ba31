// Matrix products by cuBLAS, a bias by our own.
#include "cost/kernels/cuda/Kernel.h"

namespace heterplan::kernels::cuda {
namespace {
class MatrixProduct : public Kernel {
public:
  MatrixProduct(Context &context, const Call &call, Product product)
      : Kernel(context, call), shape(std::move(product)) {
    if (!shape.bias)
      return;
    int64_t width = shape.result.back(), count = kernels::product(shape.result) / width;
    Dims rows{count, width};
    addition = *walkOf(rows, {{width, 1}, {0, 1}});
    biasSums = *foldingOf(rows, {0, 1}, {{width, 1}});
  }

  void forward() override {
    multiply(shape.left, shape.turnLeft, value(0), shape.right, shape.turnRight, value(1),
             result());
    if (shape.bias)
      binary(device, format, Binary::Sum, kernels::product(shape.result), addition, result(),
             value(2), result());
  }

  /// dA = dC·op(B)^T and dB = op(A)^T·dC, transposed where the operand is stored so.
  void backward() override {
    const Dims &left = shape.left, &right = shape.right, &result = shape.result;
    if (wants(0) && !shape.turnLeft)
      multiply(result, false, arriving(), right, !shape.turnRight, value(1), gradient(0));
    else if (wants(0))
      multiply(right, shape.turnRight, value(1), result, true, arriving(), gradient(0));
    if (wants(1) && !shape.turnRight)
      multiply(left, !shape.turnLeft, value(0), result, false, arriving(), gradient(1));
    else if (wants(1))
      multiply(result, true, arriving(), left, shape.turnLeft, value(0), gradient(1));
    if (shape.bias && wants(2))
      sum(device, format, 1, biasSums, context.scratch, arriving(), gradient(2));
  }

private:
  void multiply(const Dims &a, bool turnA, const void *first, const Dims &b, bool turnB,
                const void *second, void *target) {
    ColumnProduct call = columnProductOf(a, turnA, b, turnB);
    int type = format == Format::Float ? cudaR32F : cudaR16BF;
    int compute =
        context.precision == Precision::Tf32 ? cublasCompute32FFastTf32 : cublasCompute32F;
    constexpr float one = 1, zero = 0;
    auto turned = [](bool turn) { return turn ? cublasTranspose : cublasNoTranspose; };
    int status = context.blas.multiply(
        context.blasHandle, turned(call.turnFirst), turned(call.turnSecond), int(call.m),
        int(call.n), int(call.k), &one, second, type, int(call.firstLeading), call.firstStride,
        first, type, int(call.secondLeading), call.secondStride, &zero, target, type,
        int(call.resultLeading), call.resultStride, int(call.batch), compute,
        cublasDefaultAlgorithm);
    context.check(status, "cuBLAS's product");
  }

  Product shape;
  Walk addition;    // result, bias
  Folding biasSums; // what arrives
};

std::unique_ptr<Kernel> make(Context &context, const Call &call, std::optional<Product> product) {
  return product ? std::make_unique<MatrixProduct>(context, call, std::move(*product)) : nullptr;
}
} // namespace

std::unique_ptr<Kernel> makeMatMul(Context &context, const Call &call) {
  return make(context, call, matMulOf(call));
}
std::unique_ptr<Kernel> makeGemm(Context &context, const Call &call) {
  return make(context, call, gemmOf(call));
}

} // namespace heterplan::kernels::cuda
