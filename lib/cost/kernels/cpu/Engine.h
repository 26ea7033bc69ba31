// The kernels of the CPU, by oneDNN and our own loops.
#pragma once

#include "cost/kernels/Engine.h"

namespace heterplan::kernels::cpu {

/// Everything runs on `threads` threads from now on, in the whole process: that is how oneDNN's
/// runtime counts them.
std::unique_ptr<Engine> openEngine(int threads);

} // namespace heterplan::kernels::cpu
