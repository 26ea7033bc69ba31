#include "cost/kernels/cuda/Libraries.h"

#include "support/Diagnostic.h"

#include "llvm/ADT/ArrayRef.h"

#include <dlfcn.h>

using namespace llvm;

namespace heterplan::kernels::cuda {
namespace {
Diagnostic missing(StringRef what) {
  return Diagnostic(Diag::NoProfile, {})
             .note({}, "put the folder that has it into LD_LIBRARY_PATH; PyTorch for CUDA brings "
                       "it along, "
                       "in site-packages/nvidia; or measure with --engine torch")
         << what;
}

/// The first of `names` that is there; it stays open.
Expected<void *> open(ArrayRef<const char *> names) {
  std::string tried;
  for (const char *name : names) {
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return library;
    tried += (tried.empty() ? "" : ", ") + std::string(name);
  }
  return missing("none of " + tried + " can be opened");
}

template <typename Function> Error find(void *library, const char *symbol, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function)
    return Error::success();
  return missing(std::string("'") + symbol + "' is not in the library that was opened");
}
} // namespace

#define HETERPLAN_LIBRARY_FUNCTION(name, symbol, ...)                                              \
  if (Error error = find(*library, #symbol, functions.name))                                       \
    return error;

Expected<Cublas> openCublas() {
  Expected<void *> library = open({"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"});
  if (!library)
    return library.takeError();
  Cublas functions;
#include "cost/kernels/cuda/Cublas.def"
  return functions;
}

#define HETERPLAN_LIBRARY_FUNCTION(name, symbol, ...)                                              \
  if (Error error = find(*library, #symbol, functions.name))                                       \
    return error;

Expected<Cudnn> openCudnn() {
  Expected<void *> library = open({"libcudnn.so.9", "libcudnn.so.8"});
  if (!library)
    return library.takeError();
  Cudnn functions;
#include "cost/kernels/cuda/Cudnn.def"
  if (Error error = find(*library, "cudnnGetErrorString", functions.errorString))
    return error;
  if (Error error = find(*library, "cudnnGetVersion", functions.version))
    return error;
  return functions;
}

} // namespace heterplan::kernels::cuda
