#include "cost/kernels/cpu/Bench.h"

#include "cost/kernels/cpu/Kernel.h"
#include "cost/kernels/cpu/Update.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/StringMap.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace llvm;

namespace heterplan::cpu {
namespace {
constexpr size_t rotatedBytes = size_t(128) << 20; // beyond what one core has of a cache
constexpr size_t mostCopies = 16;

double now() {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

double median(std::vector<double> values) {
  size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + half, values.end());
  double upper = values[half];
  if (values.size() % 2)
    return upper;
  return (upper + *std::max_element(values.begin(), values.begin() + half)) / 2;
}

using Nodes = std::vector<const GraphNode *>;

Nodes nodesOf(const Graph &graph, const Layer &layer) {
  StringMap<const GraphNode *> byName;
  for (const GraphNode &node : graph.nodes)
    byName[node.name] = &node;
  Nodes nodes;
  for (const std::string &name : layer.nodes)
    nodes.push_back(byName.lookup(name));
  return nodes;
}

/// The kernels of a layer, or the reason why there are none.
using Kernels = std::vector<std::unique_ptr<Kernel>>;

Kernels kernelsOf(const Graph &graph, const Nodes &nodes, int64_t samples, std::string &why) {
  Kernels kernels;
  for (const GraphNode *node : nodes) {
    std::unique_ptr<Kernel> kernel = makeKernel(callOf(graph, *node, samples), why);
    if (!kernel)
      return {};
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

/// A layer with buffers of its own.
struct Copy {
  Kernels kernels;
  Update update;

  size_t bytes() const {
    size_t total = 0;
    for (const auto &kernel : kernels)
      total += kernel->bytes();
    return total;
  }
};

struct Times {
  std::vector<double> forward, backward, update, passes;
};

void repeat(Copy &copy, Times &times) {
  double begin = now();
  for (const auto &kernel : copy.kernels)
    kernel->forward();
  double computed = now();
  for (auto kernel = copy.kernels.rbegin(); kernel != copy.kernels.rend(); ++kernel)
    (*kernel)->backward();
  double returned = now();
  copy.update.run();
  double updated = now();
  times.forward.push_back(computed - begin);
  times.backward.push_back(returned - computed);
  times.update.push_back(updated - returned);
  times.passes.push_back(returned - begin);
}

bool suffices(const Times &times, double elapsed, const Effort &effort) {
  int count = int(times.passes.size());
  if (count < effort.least)
    return false;
  if (count >= effort.most || elapsed >= effort.seconds.value())
    return true;
  return elapsed >= effort.settle.value() && spreadOf(times.passes) <= effort.spread;
}

Times repeatAll(std::vector<Copy> &copies, const Effort &effort) {
  Times warmUp, times;
  for (Copy &copy : copies)
    repeat(copy, warmUp);
  double begin = now();
  for (size_t next = 0; !suffices(times, now() - begin, effort); ++next)
    repeat(copies[next % copies.size()], times);
  return times;
}
} // namespace

double spreadOf(std::vector<double> values) {
  double middle = median(values);
  std::sort(values.begin(), values.end());
  double count = double(values.size());
  size_t outside = size_t(std::max(0.0, std::floor((count - 1.96 * std::sqrt(count)) / 2)));
  double width = values[values.size() - 1 - outside] - values[outside];
  return middle > 0 ? width / 2 / middle : 0;
}

std::string oneDnnVersion() {
  const dnnl_version_t *version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

/// Of the OpenMP runtime that oneDNN was built with, whatever compiler builds this.
void useOneThread() {
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set(1);
}

std::string whyNot(const Graph &graph, const Layer &layer) {
  std::string why;
  kernelsOf(graph, nodesOf(graph, layer), 1, why);
  return why;
}

Expected<ProfileEntry> measure(const Graph &graph, const Layer &layer, Samples samples,
                               Optimizer optimizer, StringRef deviceType, const Effort &effort) {
  Nodes nodes = nodesOf(graph, layer);
  auto parameters = int64_t(layer.parameterBytes.value() / sizeof(float));
  std::vector<Copy> copies;
  for (size_t wanted = 1; copies.size() < wanted;) {
    std::string why;
    Kernels kernels = kernelsOf(graph, nodes, samples.value(), why);
    if (!why.empty())
      return Diagnostic(Diag::NoProfile, {}) << "layer '" << layer.name << "': " << why;
    for (const auto &kernel : kernels)
      kernel->fill(unsigned(copies.size()));
    copies.push_back({std::move(kernels), Update(optimizer, parameters)});
    wanted = std::min(mostCopies, rotatedBytes / std::max<size_t>(copies[0].bytes(), 1) + 1);
  }
  Times times = repeatAll(copies, effort);
  ProfileEntry entry;
  entry.signature = layer.signature;
  entry.deviceType = deviceType.str();
  entry.batch = samples;
  entry.forward = Seconds(median(times.forward));
  entry.backward = Seconds(median(times.backward));
  entry.update = Seconds(parameters ? median(times.update) : 0);
  entry.spread = spreadOf(times.passes);
  entry.repetitions = int(times.passes.size());
  return entry;
}

} // namespace heterplan::cpu
