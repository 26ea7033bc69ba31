// Naive functions in place of those of cuBLAS and cuDNN.
#pragma once

#include "cost/kernels/cuda/Libraries.h"

namespace heterplan::kernels::cuda {

Cublas emulatedCublas();
Cudnn emulatedCudnn();

} // namespace heterplan::kernels::cuda
