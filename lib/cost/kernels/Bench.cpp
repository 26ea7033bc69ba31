#include "cost/kernels/Bench.h"

#include "cost/kernels/AttentionParts.h"
#include "support/Diagnostic.h"
#include "support/Statistics.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <chrono>
#include <list>

using namespace llvm;

namespace heterplan::kernels {
namespace {
constexpr size_t mostCopies = 16;

double now() {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

/// The operators of a layer, each with the graph whose tensors it names.
struct Nodes {
  std::vector<std::pair<const Graph *, const GraphNode *>> nodes;
  std::list<Graph> parts; // of operators that count as several
};

Nodes nodesOf(const Graph &graph, const Layer &layer) {
  StringMap<const GraphNode *> byName;
  for (const GraphNode &node : graph.nodes)
    byName[node.name] = &node;
  Nodes result;
  for (const std::string &name : layer.nodes) {
    const GraphNode *node = byName.lookup(name);
    if (auto parts = attentionParts(graph, *node)) {
      result.parts.push_back(std::move(*parts));
      for (const GraphNode &part : result.parts.back().nodes)
        result.nodes.emplace_back(&result.parts.back(), &part);
    } else {
      result.nodes.emplace_back(&graph, node);
    }
  }
  return result;
}

/// The kernels of a layer, or the reason why there are none.
using Kernels = std::vector<std::unique_ptr<Kernel>>;

Kernels kernelsOf(Engine &engine, const Nodes &operators, int64_t samples, std::string &why) {
  Kernels kernels;
  for (const auto &[graph, node] : operators.nodes) {
    std::unique_ptr<Kernel> kernel = engine.make(callOf(*graph, *node, samples), why);
    if (!kernel)
      return {};
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

/// A layer with buffers of its own.
struct Copy {
  Kernels kernels;
  std::unique_ptr<Update> update;
  std::unique_ptr<Update> accumulate; // gradients: SGD moves and computes as much

  size_t bytes() const {
    size_t total = 0;
    for (const auto &kernel : kernels)
      total += kernel->bytes();
    return total;
  }
};

struct Times {
  std::vector<double> forward, backward, update, accumulate, passes;
};

void repeat(Engine &engine, Copy &copy) {
  engine.mark();
  for (const auto &kernel : copy.kernels)
    kernel->forward();
  engine.mark();
  for (auto kernel = copy.kernels.rbegin(); kernel != copy.kernels.rend(); ++kernel)
    (*kernel)->backward();
  engine.mark();
  copy.update->run();
  engine.mark();
  copy.accumulate->run();
  engine.mark();
}

/// Adds repetitions with five marks each; the interval between two repetitions does not count.
void take(const std::vector<double> &intervals, Times &times) {
  for (size_t first = 0; first + 3 < intervals.size(); first += 5) {
    times.forward.push_back(intervals[first]);
    times.backward.push_back(intervals[first + 1]);
    times.update.push_back(intervals[first + 2]);
    times.accumulate.push_back(intervals[first + 3]);
    times.passes.push_back(intervals[first] + intervals[first + 1]);
  }
}

bool suffices(const Times &times, double elapsed, const Effort &effort) {
  int count = int(times.passes.size());
  if (count < effort.least)
    return false;
  if (count >= effort.most || elapsed >= effort.seconds.value())
    return true;
  return elapsed >= effort.settle.value() && spreadOf(times.passes) <= effort.spread;
}

Times repeatAll(Engine &engine, std::vector<Copy> &copies, const Effort &effort) {
  for (Copy &copy : copies)
    repeat(engine, copy);
  engine.intervals(); // that was to warm up
  Times times;
  double begin = now();
  for (size_t next = 0; !suffices(times, now() - begin, effort);) {
    int ahead = std::min(engine.repetitionsAhead(), effort.most - int(times.passes.size()));
    for (int repetition = 0; repetition < ahead; ++repetition)
      repeat(engine, copies[next++ % copies.size()]);
    take(engine.intervals(), times);
  }
  return times;
}

Error refusal(const Layer &layer, const std::string &why) {
  return Diagnostic(Diag::NoProfile, {}) << "layer '" << layer.name << "': " << why;
}
} // namespace

std::string whyNot(Engine &engine, const Graph &graph, const Layer &layer) {
  std::string why;
  kernelsOf(engine, nodesOf(graph, layer), 1, why);
  return why;
}

Bytes footprintOf(const LayerGraph &model, Samples samples) {
  Bytes touched{};
  for (const Layer &layer : model.layers)
    touched += (layer.forwardBytes + layer.lookupBytes()) * double(samples.value()) +
               layer.denseBytes() * 2; // gradients
  return touched;
}

Expected<MeasurementSession> measure(Engine &engine, const Graph &graph, const Layer &layer,
                                     Samples samples, Optimizer optimizer, Bytes footprint,
                                     const Effort &effort) {
  double rotated = std::min(double(engine.rotatedBytes()), footprint.value());
  const Nodes nodes = nodesOf(graph, layer);
  auto parameters = int64_t(layer.parameterBytes.value() / sizeof(float));
  auto dense = int64_t(layer.denseBytes().value() / sizeof(float));
  std::vector<Copy> copies;
  for (size_t wanted = 1; copies.size() < wanted;) {
    std::string why;
    Kernels kernels = kernelsOf(engine, nodes, samples.value(), why);
    if (!why.empty())
      return refusal(layer, why);
    for (const auto &kernel : kernels)
      kernel->fill(unsigned(copies.size()));
    copies.push_back({std::move(kernels), engine.makeUpdate(optimizer, parameters),
                      engine.makeUpdate(Optimizer::Sgd, dense)});
    if (why = engine.takeFailure(); !why.empty())
      return refusal(layer, why);
    wanted = std::min(mostCopies, size_t(rotated) / std::max<size_t>(copies[0].bytes(), 1) + 1);
  }
  Times times = repeatAll(engine, copies, effort);
  if (std::string why = engine.takeFailure(); !why.empty())
    return refusal(layer, why);
  return MeasurementSession{Seconds(trimmedMean(times.forward)),
                            Seconds(trimmedMean(times.backward)),
                            Seconds(parameters ? trimmedMean(times.update) : 0),
                            spreadOf(times.passes),
                            int(times.passes.size()),
                            Seconds(dense ? trimmedMean(times.accumulate) : 0)};
}

} // namespace heterplan::kernels
