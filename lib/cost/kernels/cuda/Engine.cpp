#include "cost/kernels/cuda/Engine.h"

#include "cost/kernels/cuda/Kernel.h"
#include "cost/kernels/cuda/Update.h"
#include "support/Diagnostic.h"

#include <algorithm>

using namespace llvm;

namespace heterplan::kernels::cuda {
namespace {
using Maker = std::unique_ptr<Kernel> (*)(Context &, const Call &);

Maker makerOf(StringRef op) {
#define HETERPLAN_CUDA_KERNEL(name, maker)                                                         \
  if (op == name)                                                                                  \
    return maker;
#include "cost/kernels/cuda/Kernels.def"
  return nullptr;
}

/// "9.19.0": the libraries count 91900; cuDNN 8 counted 8907 for 8.9.7.
std::string versionText(size_t version) {
  size_t shift = version < 10000 ? 10 : 100;
  size_t major = version / 100 / shift, minor = version / 100 % shift, patch = version % 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

class CudaEngine : public Engine {
public:
  CudaEngine(std::unique_ptr<Device> owned, const Cublas &blas, const Cudnn &dnn,
             Precision precision)
      : device(std::move(owned)), context{*device, precision, blas, dnn, nullptr, nullptr} {}

  ~CudaEngine() override {
    if (context.blasHandle)
      context.blas.destroy(context.blasHandle);
    if (context.dnnHandle)
      context.dnn.destroy(context.dnnHandle);
  }

  Error start() {
    context.check(context.blas.create(&context.blasHandle), "cuBLAS's start");
    context.check(context.blas.setStream(context.blasHandle, device->stream()), "cuBLAS's start");
    context.check(context.dnn.create(&context.dnnHandle), "cuDNN's start");
    context.check(context.dnn.setStream(context.dnnHandle, device->stream()), "cuDNN's start");
    if (std::string why = device->takeFailure(); !why.empty())
      return Diagnostic(Diag::NoProfile, {}) << why;
    return Error::success();
  }

  std::unique_ptr<kernels::Kernel> make(const Call &call, std::string &why) override {
    Maker maker = call.node.domain.empty() ? makerOf(call.node.op) : nullptr;
    if (!maker) {
      why = "there is no kernel for " + call.node.op;
      return nullptr;
    }
    std::unique_ptr<Kernel> kernel = maker(context, call);
    if (!kernel)
      why = "there is no kernel for these settings of " + call.node.op;
    else if (std::string failure = device->takeFailure(); !failure.empty())
      why = failure;
    return why.empty() ? std::move(kernel) : nullptr;
  }

  std::unique_ptr<Update> makeUpdate(Optimizer optimizer, int64_t parameters) override {
    return cuda::makeUpdate(*device, optimizer, parameters);
  }

  void mark() override { device->mark(); }
  std::vector<double> intervals() override { return device->intervals(); }
  int repetitionsAhead() const override { return 8; }
  size_t rotatedBytes() const override {
    return std::max<size_t>(size_t(128) << 20, 4 * device->cacheBytes());
  }
  std::string takeFailure() override { return device->takeFailure(); }

  Environment environment() const override {
    Environment result = device->environment();
    int version = 0;
    context.blas.version(context.blasHandle, &version);
    result.software = std::string(nameOf(context.precision)) + ", cuBLAS " + versionText(version) +
                      ", cuDNN " + versionText(context.dnn.version());
    return result;
  }

private:
  std::unique_ptr<Device> device;
  Context context;
};
} // namespace

Expected<std::unique_ptr<Engine>> makeEngine(std::unique_ptr<Device> device, const Cublas &blas,
                                             const Cudnn &dnn, Precision precision) {
  auto engine = std::make_unique<CudaEngine>(std::move(device), blas, dnn, precision);
  if (Error error = engine->start())
    return error;
  return engine;
}

} // namespace heterplan::kernels::cuda
