#include "cost/kernels/cuda/Engine.h"
#include "cost/kernels/cuda/Libraries.h"
#include "cost/kernels/cuda/device/CudaDevice.h"

using namespace llvm;

namespace heterplan::kernels::cuda {

Expected<std::unique_ptr<Engine>> openEngine(int index, Precision precision) {
  Expected<std::unique_ptr<Device>> device = openDevice(index);
  if (!device)
    return device.takeError();
  Expected<Cublas> blas = openCublas();
  if (!blas)
    return blas.takeError();
  Expected<Cudnn> dnn = openCudnn();
  if (!dnn)
    return dnn.takeError();
  return makeEngine(std::move(*device), *blas, *dnn, precision);
}

} // namespace heterplan::kernels::cuda
