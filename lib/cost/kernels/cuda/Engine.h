// The kernels of a GPU, by cuBLAS, cuDNN and our own.
#pragma once

#include "cost/kernels/Engine.h"

#include "llvm/Support/Error.h"

namespace heterplan::kernels::cuda {

class Device;
struct Cublas;
struct Cudnn;

/// The engine of GPU `index`. NoProfile, with how to mend it, where this was built without CUDA's
/// toolkit, where there is no such GPU or driver, and where a library is missing.
llvm::Expected<std::unique_ptr<Engine>> openEngine(int index, Precision precision);

/// The engine of a device by these libraries; fails where they do not accept the device.
llvm::Expected<std::unique_ptr<Engine>> makeEngine(std::unique_ptr<Device> device,
                                                   const Cublas &blas, const Cudnn &dnn,
                                                   Precision precision);

} // namespace heterplan::kernels::cuda
