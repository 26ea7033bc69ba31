// One GPU as the kernels see it: memory, the stream on which everything runs in order, and the
// first thing that went wrong. device/Device.cpp is the one of CUDA; the tests have one on the
// host, so that the kernels run where there is no GPU.
#pragma once

#include "cost/kernels/Engine.h"

#include <cstddef>

namespace heterplan::kernels::cuda {

class Device {
public:
  virtual ~Device() = default;

  /// Null when there is no memory left.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;
  virtual void clear(void *memory, size_t bytes) = 0;
  virtual void upload(void *to, const void *from, size_t bytes) = 0;
  /// Waits for what was told before.
  virtual void download(void *to, const void *from, size_t bytes) = 0;

  /// As Engine has them.
  virtual void mark() = 0;
  virtual std::vector<double> intervals() = 0;

  /// A cudaStream_t.
  virtual void *stream() const = 0;
  /// To be called after the launch of a kernel.
  virtual void launched() = 0;
  virtual int multiprocessors() const = 0;
  virtual size_t cacheBytes() const = 0;
  /// Without the software, which the engine knows.
  virtual Environment environment() const = 0;

  /// Keeps the first of several failures.
  void fail(const std::string &what) {
    if (failure.empty())
      failure = what;
  }
  std::string takeFailure() { return std::exchange(failure, ""); }

private:
  std::string failure;
};

/// Memory of a device that ends with this. Empty where allocation failed, which the device knows.
class Buffer {
public:
  Buffer() = default;
  Buffer(Device &device, size_t bytes)
      : device(&device), memory(device.allocate(bytes)), size(memory ? bytes : 0) {}
  Buffer(Buffer &&other) noexcept { swap(other); }
  Buffer &operator=(Buffer &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (memory)
      device->release(memory);
  }

  void *data() const { return memory; }
  size_t bytes() const { return size; }
  explicit operator bool() const { return memory != nullptr; }

private:
  void swap(Buffer &other) {
    std::swap(device, other.device);
    std::swap(memory, other.memory);
    std::swap(size, other.size);
  }

  Device *device = nullptr;
  void *memory = nullptr;
  size_t size = 0;
};

} // namespace heterplan::kernels::cuda
