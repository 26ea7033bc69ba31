// cuBLAS and cuDNN, opened when they are first needed, so that the binary starts where they are
// not. Their functions are declared here, by the interface that their versions keep (cuBLAS 11 to
// 13, cuDNN 8 and 9), so that it builds where they are not, too. A test compares with their
// headers.
#pragma once

#include "llvm/Support/Error.h"

#include <cstddef>
#include <string>

namespace heterplan::kernels::cuda {

// What the values of the libraries' enumerations are.
constexpr int cudaR32F = 0, cudaR16BF = 14;                         // cudaDataType_t
constexpr int cublasNoTranspose = 0, cublasTranspose = 1;           // cublasOperation_t
constexpr int cublasCompute32F = 68, cublasCompute32FFastTf32 = 77; // cublasComputeType_t
constexpr int cublasDefaultAlgorithm = -1;                          // cublasGemmAlgo_t
constexpr int cudnnFloat = 0, cudnnBFloat16 = 9;                    // cudnnDataType_t
constexpr int cudnnRowMajor = 0;                                    // cudnnTensorFormat_t: NCHW
constexpr int cudnnTensorOps = 1, cudnnFma = 3;                     // cudnnMathType_t
constexpr int cudnnCrossCorrelation = 1;                            // cudnnConvolutionMode_t
constexpr int cudnnMaximum = 0, cudnnAverageWithPadding = 1, cudnnAverage = 2; // cudnnPoolingMode_t
constexpr int cudnnNanStays = 1;      // cudnnNanPropagation_t
constexpr int cudnnSpatialNormal = 1; // cudnnBatchNormMode_t

/// cudnnConvolutionFwdAlgoPerf_t, and those of both backward passes.
struct CudnnPerformance {
  int algorithm = 0, status = 0;
  float time = 0;
  size_t memory = 0;
  int determinism = 0, math = 0, reserved[3] = {};
};

using Handle = void *; // of a library, or a descriptor

/// Pointers to the functions of cuBLAS that are used, all of them set.
struct Cublas {
#define HETERPLAN_LIBRARY_FUNCTION(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
#include "cost/kernels/cuda/Cublas.def"
};

struct Cudnn {
#define HETERPLAN_LIBRARY_FUNCTION(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
#include "cost/kernels/cuda/Cudnn.def"
  const char *(*errorString)(int) = nullptr;
  size_t (*version)() = nullptr;
};

/// Open the newest that the loader finds; the error names what it looked for.
llvm::Expected<Cublas> openCublas();
llvm::Expected<Cudnn> openCudnn();

} // namespace heterplan::kernels::cuda
