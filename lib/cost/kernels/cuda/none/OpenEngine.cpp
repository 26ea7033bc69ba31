// The engine of builds without CUDA's toolkit.
#include "cost/kernels/cuda/Engine.h"

#include "support/Diagnostic.h"

namespace heterplan::kernels::cuda {

llvm::Expected<std::unique_ptr<Engine>> openEngine(int index, Precision) {
  return Diagnostic(Diag::NoProfile, {"", 0, 0, "cuda:" + std::to_string(index)})
             .note({}, "build it where nvcc is, or measure with --engine torch; --emit-script "
                       "writes a script for another machine")
         << "this heterplan was built without CUDA's toolkit";
}

} // namespace heterplan::kernels::cuda
