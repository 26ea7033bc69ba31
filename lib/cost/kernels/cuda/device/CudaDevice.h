// A GPU by CUDA's runtime, which is linked statically and finds the driver when it is called.
#pragma once

#include "cost/kernels/cuda/Device.h"

#include "llvm/Support/Error.h"

namespace heterplan::kernels::cuda {

/// GPU `index`; NoProfile where there is no driver, or no such GPU.
llvm::Expected<std::unique_ptr<Device>> openDevice(int index);

} // namespace heterplan::kernels::cuda
