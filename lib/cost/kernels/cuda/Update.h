// The update of trained parameters by an optimizer, on a GPU; in fp32 whatever the precision is.
#pragma once

#include "cost/kernels/cuda/Device.h"

namespace heterplan::kernels::cuda {

std::unique_ptr<Update> makeUpdate(Device &device, Optimizer optimizer, int64_t parameters);

} // namespace heterplan::kernels::cuda
