#include "cost/kernels/cpu/Engine.h"

#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Update.h"
#include "support/Files.h"

#include <chrono>
#include <cmath>
#include <dlfcn.h>
#include <sys/utsname.h>

using namespace llvm;

namespace heterplan::kernels::cpu {
namespace {
using Maker = std::unique_ptr<Kernel> (*)(const Call &);

Maker makerOf(StringRef op) {
#define HETERPLAN_CPU_KERNEL(name, maker)                                                          \
  if (op == name)                                                                                  \
    return maker;
#include "cost/kernels/cpu/Kernels.def"
  return nullptr;
}

constexpr const char *processors = "/proc/cpuinfo";

std::string systemName() {
  utsname system{};
  uname(&system);
  return std::string(system.sysname) + " " + system.release;
}

std::string clocks() {
  double megahertz = 0;
  if (StringRef(systemField(processors, "cpu MHz")).getAsDouble(megahertz))
    return "";
  return std::to_string(std::lround(megahertz)) + " MHz";
}

std::string oneDnnVersion() {
  const dnnl_version_t *version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

/// Sets the threads of the OpenMP runtime that oneDNN was built with, whatever compiler builds
/// this.
void setThreads(int threads) {
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set(threads);
}

class CpuEngine : public Engine {
public:
  std::unique_ptr<kernels::Kernel> make(const Call &call, std::string &why) override {
    Maker maker = call.node.domain.empty() ? makerOf(call.node.op) : nullptr;
    if (!maker) {
      why = "there is no kernel for " + call.node.op;
      return nullptr;
    }
    std::unique_ptr<Kernel> kernel;
    try {
      kernel = maker(call);
    } catch (const dnnl::error &error) {
      why = "oneDNN cannot make " + call.node.op + ": " + error.message;
      return nullptr;
    }
    if (!kernel)
      why = "there is no kernel for these settings of " + call.node.op;
    return kernel;
  }

  std::unique_ptr<Update> makeUpdate(Optimizer optimizer, int64_t parameters) override {
    return cpu::makeUpdate(optimizer, parameters);
  }

  void mark() override {
    auto time = std::chrono::steady_clock::now().time_since_epoch();
    marks.push_back(std::chrono::duration<double>(time).count());
  }

  std::vector<double> intervals() override {
    std::vector<double> result;
    for (size_t next = 1; next < marks.size(); ++next)
      result.push_back(marks[next] - marks[next - 1]);
    marks.clear();
    return result;
  }

  size_t rotatedBytes() const override { return size_t(128) << 20; } // beyond one core's share

  Environment environment() const override {
    return {systemField(processors, "model name"), systemName(), clocks(),
            "oneDNN " + oneDnnVersion()};
  }

private:
  std::vector<double> marks;
};
} // namespace

std::unique_ptr<Engine> openEngine(int threads) {
  setThreads(threads);
  return std::make_unique<CpuEngine>();
}

} // namespace heterplan::kernels::cpu
