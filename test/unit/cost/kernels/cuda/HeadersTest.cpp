// Our declarations of cuBLAS and cuDNN against their headers, if these are installed.
#include "cost/kernels/cuda/Libraries.h"

#include <gtest/gtest.h>

#include <type_traits>

#if __has_include(<cublas_api.h>) && __has_include(<cudnn.h>)
#define HAS_HEADERS 1
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cublas_api.h>
#include <cudnn.h>
#else
#define HAS_HEADERS 0
#endif

using namespace heterplan::kernels::cuda;

namespace {
#if HAS_HEADERS
template <typename A, typename B> constexpr bool passedAlike() {
  if (std::is_pointer_v<A> || std::is_floating_point_v<A>)
    return std::is_pointer_v<A> == std::is_pointer_v<B> && sizeof(A) == sizeof(B) &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  return sizeof(A) == sizeof(B) && std::is_integral_v<A> &&
         (std::is_integral_v<B> || std::is_enum_v<B>);
}

/// Both take as many arguments, each passed in the same way.
template <typename... Ours, typename Result, typename... Theirs>
constexpr bool calledAlike(int (*)(Ours...), Result (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs))
    return (passedAlike<Ours, Theirs>() && ...);
  return false;
}

/// C++ knows a second one, which is no symbol of the library.
#define cublasGemmStridedBatchedEx                                                                 \
  static_cast<cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,   \
                                 int, const void *, const void *, cudaDataType, int, long long,    \
                                 const void *, cudaDataType, int, long long, const void *, void *, \
                                 cudaDataType, int, long long, int, cublasComputeType_t,           \
                                 cublasGemmAlgo_t)>(&::cublasGemmStridedBatchedEx)
#define HETERPLAN_LIBRARY_FUNCTION(name, symbol, ...)                                              \
  static_assert(calledAlike(decltype(Cublas::name)(), decltype(+symbol)()), #symbol);
#include "cost/kernels/cuda/Cublas.def"
#define HETERPLAN_LIBRARY_FUNCTION(name, symbol, ...)                                              \
  static_assert(calledAlike(decltype(Cudnn::name)(), decltype(+symbol)()), #symbol);
#include "cost/kernels/cuda/Cudnn.def"

static_assert(cudaR32F == CUDA_R_32F && cudaR16BF == CUDA_R_16BF);
static_assert(cublasNoTranspose == CUBLAS_OP_N && cublasTranspose == CUBLAS_OP_T);
static_assert(cublasCompute32F == CUBLAS_COMPUTE_32F &&
              cublasCompute32FFastTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(cublasDefaultAlgorithm == CUBLAS_GEMM_DEFAULT);
static_assert(cudnnFloat == CUDNN_DATA_FLOAT && cudnnBFloat16 == CUDNN_DATA_BFLOAT16);
static_assert(cudnnRowMajor == CUDNN_TENSOR_NCHW);
static_assert(cudnnTensorOps == CUDNN_TENSOR_OP_MATH && cudnnFma == CUDNN_FMA_MATH);
static_assert(cudnnCrossCorrelation == CUDNN_CROSS_CORRELATION);
static_assert(cudnnMaximum == CUDNN_POOLING_MAX && cudnnNanStays == CUDNN_PROPAGATE_NAN);
static_assert(cudnnAverageWithPadding == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING &&
              cudnnAverage == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING);
static_assert(cudnnSpatialNormal == CUDNN_BATCHNORM_SPATIAL);

template <typename Theirs> constexpr bool laidOutAlike() {
  return sizeof(CudnnPerformance) == sizeof(Theirs) &&
         offsetof(CudnnPerformance, status) == offsetof(Theirs, status) &&
         offsetof(CudnnPerformance, time) == offsetof(Theirs, time) &&
         offsetof(CudnnPerformance, memory) == offsetof(Theirs, memory) &&
         offsetof(CudnnPerformance, math) == offsetof(Theirs, mathType);
}
static_assert(laidOutAlike<cudnnConvolutionFwdAlgoPerf_t>());
static_assert(laidOutAlike<cudnnConvolutionBwdDataAlgoPerf_t>());
static_assert(laidOutAlike<cudnnConvolutionBwdFilterAlgoPerf_t>());
#endif

TEST(HeadersTest, DeclareWhatWeDeclare) {
  if (!HAS_HEADERS)
    GTEST_SKIP() << "the headers of cuBLAS and cuDNN are not here";
}

TEST(LibrariesTest, OpenOrSayWhatIsMissing) {
  auto blas = openCublas();
  if (!blas)
    EXPECT_NE(llvm::toString(blas.takeError()).find("libcublas.so.13"), std::string::npos);
  else
    EXPECT_TRUE(blas->multiply);
  auto dnn = openCudnn();
  if (!dnn)
    EXPECT_NE(llvm::toString(dnn.takeError()).find("libcudnn.so.9"), std::string::npos);
  else
    EXPECT_TRUE(dnn->version);
}
} // namespace
