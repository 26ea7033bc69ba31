#include "cost/Machine.h"

#include "support/Files.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <cmath>
#include <dlfcn.h>
#include <map>
#include <sched.h>
#include <unistd.h>

using namespace llvm;

namespace heterplan {

namespace {
int coresOfThisProcess() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? std::max(1, CPU_COUNT(&cores)) : 1;
}

std::string hostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && *name ? name : "localhost";
}

/// The few functions of the CUDA driver that tell what GPUs there are.
class CudaDriver {
public:
  CudaDriver() : library(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {}
  ~CudaDriver() {
    if (library)
      dlclose(library);
  }
  CudaDriver(const CudaDriver &) = delete;
  CudaDriver &operator=(const CudaDriver &) = delete;

  void describe(Machine &machine) const {
    int version = 0, count = 0;
    if (!call<unsigned>("cuInit", 0u) || !call<int *>("cuDriverGetVersion", &version) ||
        !call<int *>("cuDeviceGetCount", &count))
      return;
    machine.driver =
        "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    for (int index = 0; index < count; ++index) {
      int device = 0;
      char name[256] = {};
      size_t memory = 0;
      if (call<int *, int>("cuDeviceGet", &device, index) &&
          call<char *, int, int>("cuDeviceGetName", name, int(sizeof(name)) - 1, device) &&
          call<size_t *, int>("cuDeviceTotalMem_v2", &memory, device))
        machine.gpus.push_back({name, Bytes(double(memory))});
    }
  }

private:
  /// Whether there is a function `name` that succeeds.
  template <typename... Arguments> bool call(const char *name, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    auto function = library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
    return function && function(arguments...) == 0;
  }

  void *library;
};

/// Words of a name in lower case: "NVIDIA A100-SXM4-40GB" has nvidia, a100, sxm4 and 40gb.
SmallVector<std::string, 6> wordsOf(StringRef name) {
  SmallVector<std::string, 6> words(1);
  for (char letter : name)
    if (isAlnum(letter))
      words.back() += toLower(letter);
    else if (!words.back().empty())
      words.emplace_back();
  if (words.back().empty())
    words.pop_back();
  return words;
}

std::string mebibytes(Bytes memory) {
  return std::to_string(int64_t(memory.value()) >> 20) + "MiB";
}

/// Equal GPUs with how many there are, in the driver's order.
std::vector<std::pair<GpuFacts, int>> kindsOf(const Machine &machine) {
  std::vector<std::pair<GpuFacts, int>> kinds;
  for (const GpuFacts &gpu : machine.gpus) {
    auto known = std::find_if(kinds.begin(), kinds.end(), [&](auto &k) { return k.first == gpu; });
    if (known == kinds.end())
      kinds.emplace_back(gpu, 1);
    else
      ++known->second;
  }
  return kinds;
}

std::string join(const SmallVector<std::string, 6> &words) { return llvm::join(words, "-"); }
} // namespace

Machine readMachine(StringRef root) {
  Machine machine;
  machine.host = hostName();
  machine.cores = coresOfThisProcess();
  machine.cpu = systemField(root + "/proc/cpuinfo", "model name");
  uint64_t kilobytes = 0;
  std::string memory = systemField(root + "/proc/meminfo", "MemTotal");
  StringRef number = StringRef(memory).split(' ').first;
  if (!number.getAsInteger(10, kilobytes))
    machine.memory = Bytes(double(kilobytes) * 1024);
  for (int node = 0;; ++node) {
    std::string cores =
        systemText(root + "/sys/devices/system/node/node" + Twine(node) + "/cpulist");
    if (cores.empty())
      break;
    machine.numa.push_back(StringRef(cores).trim().str());
  }
  CudaDriver().describe(machine);
  return machine;
}

namespace {
/// How many words of the entry called `name` are in `words`; 0 where one is missing. Drivers may
/// leave out the size of the memory, and the socket where it is SXM.
int sharedWords(StringRef name, ArrayRef<std::string> words) {
  SmallVector<StringRef, 6> parts;
  name.split(parts, '-');
  int shared = 0;
  for (StringRef part : parts) {
    if (is_contained(words, part.str()))
      ++shared;
    else if (!part.endswith("gb") && !part.startswith("sxm"))
      return 0;
  }
  return shared;
}
} // namespace

const DeviceType *entryFor(const GpuFacts &gpu, const Catalogue &catalogue) {
  SmallVector<std::string, 6> words = wordsOf(gpu.name);
  const DeviceType *found = nullptr;
  int most = 0;
  for (const auto &[name, entry] : catalogue.devices()) {
    if (entry.deviceClass != DeviceClass::Gpu || std::abs(entry.memory / gpu.memory - 1) >= 0.1)
      continue;
    int shared = sharedWords(name, words);
    if (shared == most)
      found = nullptr; // two fit alike
    if (shared > most)
      found = &entry;
    most = std::max(most, shared);
  }
  return found;
}

std::string clusterFile(const Machine &machine, const Catalogue &catalogue) {
  std::string types, devices;
  Bytes part(machine.memory.value() / machine.cores);
  types += "  # " + std::to_string(machine.cores) + " cores of " +
           (machine.cpu.empty() ? "a CPU" : machine.cpu) + ", " + mebibytes(machine.memory) +
           "; rates and price are the catalogue's\n  core: {kind: cpu, memory: " + mebibytes(part) +
           ", catalogue: cpu-core}\n";
  devices = "core: " + std::to_string(machine.cores);
  for (size_t node = 0; node < machine.numa.size(); ++node)
    types += "  # NUMA node " + std::to_string(node) + ": cores " + machine.numa[node] + "\n";
  for (const auto &[gpu, count] : kindsOf(machine)) {
    std::string name = join(wordsOf(gpu.name));
    const DeviceType *entry = entryFor(gpu, catalogue);
    types += "  # " + gpu.name + ", " + machine.driver +
             (entry ? "" : "; not in the catalogue: give a profile, or fp32 and bandwidth") +
             "\n  " + name + ": {kind: gpu, memory: " + mebibytes(gpu.memory) +
             (entry ? ", catalogue: " + entry->name : "") + "}\n";
    devices += ", " + name + ": " + std::to_string(count);
  }
  bool gpus = !machine.gpus.empty();
  return "# Written by heterplan profile --machine. The link is assumed: measure it with\n"
         "# heterplan profile --link " +
         std::string(gpus ? "pcie5 --device cuda:0" : "loopback") +
         " -o links.profile.json\nname: '" + machine.host + "'\ndevice_types:\n" + types +
         "nodes:\n  - {name: '" + machine.host + "', devices: {" + devices +
         "}, link: " + (gpus ? "pcie5" : "loopback") + "}\n";
}

} // namespace heterplan
