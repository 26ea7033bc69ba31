// The CUDA engine on the host's memory, with threads for those of a GPU and naive functions for
// those of the libraries: everything but the hardware and its libraries is tested anywhere.
#include "../../Harness.h"
#include "EmulatedLibraries.h"

#include "cost/kernels/cuda/Device.h"
#include "cost/kernels/cuda/Engine.h"

#include <cstdlib>
#include <cstring>

using namespace heterplan;
using namespace heterplan::kernels;
using namespace heterplan::kernels::cuda;

namespace {
class EmulatedDevice : public Device {
public:
  /// Full of NaN, so that what is never written is seen.
  void *allocate(size_t bytes) override {
    void *memory = std::malloc(bytes);
    std::memset(memory, 0xff, bytes);
    return memory;
  }
  void release(void *memory) override { std::free(memory); }
  void clear(void *memory, size_t bytes) override { std::memset(memory, 0, bytes); }
  void upload(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  /// Each mark is a millisecond after the one before.
  void mark() override { ++marks; }
  std::vector<double> intervals() override {
    return std::vector<double>(std::exchange(marks, 0) - 1, 0.001);
  }
  void *stream() const override { return nullptr; }
  void launched() override {}
  int multiprocessors() const override { return 2; }
  size_t cacheBytes() const override { return 0; }
  Environment environment() const override { return {"emulated", "", "", ""}; }

private:
  size_t marks = 0;
};
} // namespace

Engine *heterplan::kernels::engineUnderTest(std::string &whyNot) {
  static const std::unique_ptr<Engine> only = [&] {
    auto engine = makeEngine(std::make_unique<EmulatedDevice>(), emulatedCublas(), emulatedCudnn(),
                             Precision::Fp32);
    if (!engine)
      whyNot = llvm::toString(engine.takeError());
    return engine ? std::move(*engine) : nullptr;
  }();
  return only.get();
}
