// The update of trained parameters by an optimizer, on the CPU.
#pragma once

#include "cost/kernels/Engine.h"

namespace heterplan::kernels::cpu {

std::unique_ptr<Update> makeUpdate(Optimizer optimizer, int64_t parameters);

} // namespace heterplan::kernels::cpu
