#include "cost/kernels/cuda/device/CudaDevice.h"

#include "support/Diagnostic.h"

#include <cuda_runtime_api.h>

using namespace llvm;

namespace heterplan::kernels::cuda {
namespace {
Diagnostic missing(int index) {
  return Diagnostic(Diag::NoProfile, {"", 0, 0, "cuda:" + std::to_string(index)})
      .note({}, "--emit-script writes a script that measures on a machine that has it");
}

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

class CudaDevice : public Device {
public:
  explicit CudaDevice(int index) : index(index) {
    check(cudaSetDevice(index), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking), "cudaStreamCreate");
  }

  ~CudaDevice() override {
    for (cudaEvent_t event : events)
      cudaEventDestroy(event);
    cudaStreamDestroy(queue);
  }

  void *allocate(size_t bytes) override {
    void *memory = nullptr;
    if (check(cudaMalloc(&memory, bytes ? bytes : 1), "cudaMalloc"))
      return memory;
    return nullptr;
  }
  void release(void *memory) override { check(cudaFree(memory), "cudaFree"); }

  void clear(void *memory, size_t bytes) override {
    check(cudaMemsetAsync(memory, 0, bytes, queue), "cudaMemset");
  }
  void upload(void *to, const void *from, size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue), "cudaMemcpy");
    check(cudaStreamSynchronize(queue), "cudaStreamSynchronize");
  }
  void download(void *to, const void *from, size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue), "cudaMemcpy");
    check(cudaStreamSynchronize(queue), "cudaStreamSynchronize");
  }

  void mark() override {
    if (marks == events.size()) {
      events.push_back(nullptr);
      check(cudaEventCreate(&events.back()), "cudaEventCreate");
    }
    check(cudaEventRecord(events[marks++], queue), "cudaEventRecord");
  }
  std::vector<double> intervals() override {
    check(cudaStreamSynchronize(queue), "a kernel");
    std::vector<double> result;
    for (size_t next = 1; next < marks; ++next) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events[next - 1], events[next]),
            "cudaEventElapsedTime");
      result.push_back(milliseconds / 1000.0);
    }
    marks = 0;
    return result;
  }

  void *stream() const override { return queue; }
  void launched() override { check(cudaGetLastError(), "a launch"); }
  int multiprocessors() const override { return attribute(cudaDevAttrMultiProcessorCount); }
  size_t cacheBytes() const override { return size_t(attribute(cudaDevAttrL2CacheSize)); }

  Environment environment() const override {
    cudaDeviceProp properties{};
    cudaGetDeviceProperties(&properties, index);
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    Environment result;
    result.device = properties.name;
    result.driver = "CUDA driver " + versionText(driver) + ", runtime " + versionText(runtime);
    result.clocks = "at most " + std::to_string(attribute(cudaDevAttrClockRate) / 1000) +
                    " MHz, memory " + std::to_string(attribute(cudaDevAttrMemoryClockRate) / 1000) +
                    " MHz";
    return result;
  }

private:
  bool check(cudaError_t status, const char *what) {
    if (status != cudaSuccess)
      fail(std::string(what) + " failed: " + cudaGetErrorString(status));
    return status == cudaSuccess;
  }
  int attribute(cudaDeviceAttr which) const {
    int value = 0;
    cudaDeviceGetAttribute(&value, which, index);
    return value;
  }

  int index;
  cudaStream_t queue = nullptr;
  std::vector<cudaEvent_t> events;
  size_t marks = 0;
};
} // namespace

Expected<std::unique_ptr<Device>> openDevice(int index) {
  int count = 0;
  if (cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
    return missing(index) << "no GPU can be used here: " << cudaGetErrorString(status);
  if (index >= count)
    return missing(index) << "there is no such GPU; this machine has " << count;
  auto device = std::make_unique<CudaDevice>(index);
  if (std::string why = device->takeFailure(); !why.empty())
    return missing(index) << why;
  return device;
}

} // namespace heterplan::kernels::cuda
