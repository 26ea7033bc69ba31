#include "EmulatedLibraries.h"

namespace heterplan::kernels::cuda {
namespace {
/// As cuBLAS's manual has it: columns lie together.
int multiply(Handle, int turnA, int turnB, int m, int n, int k, const void *alpha, const void *a,
             int, int leadingA, long long strideA, const void *b, int, int leadingB,
             long long strideB, const void *beta, void *c, int, int leadingC, long long strideC,
             int batch, int, int) {
  auto scale = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
  for (int product = 0; product < batch; ++product) {
    const float *left = static_cast<const float *>(a) + product * strideA;
    const float *right = static_cast<const float *>(b) + product * strideB;
    float *result = static_cast<float *>(c) + product * strideC;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int l = 0; l < k; ++l)
          sum += double(turnA ? left[i * leadingA + l] : left[l * leadingA + i]) *
                 (turnB ? right[l * leadingB + j] : right[j * leadingB + l]);
        float &place = result[j * leadingC + i];
        place = float(scale * sum) + (keep != 0 ? keep * place : 0);
      }
  }
  return 0;
}
} // namespace

Cublas emulatedCublas() {
  Cublas functions;
  functions.create = [](Handle *) { return 0; };
  functions.destroy = [](Handle) { return 0; };
  functions.setStream = [](Handle, void *) { return 0; };
  functions.version = [](Handle, int *version) { return *version = 130100, 0; };
  functions.multiply = multiply;
  return functions;
}

} // namespace heterplan::kernels::cuda
