// How long it takes to read an ONNX file and to group its operators into layers.
#include "Bundled.h"

#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include "benchmark/benchmark.h"

using namespace heterplan;

namespace {

void import(benchmark::State &state, const std::string &model) {
  size_t layers = 0;
  for (auto _ : state)
    layers = bench::readModel(model).layers.size();
  state.counters["layers"] = static_cast<double>(layers);
}

/// Field `number` of a Protobuf message, holding bytes.
std::string field(int number, const std::string &body) {
  std::string result(1, static_cast<char>(number << 3 | 2));
  for (size_t size = body.size(); size >= 0x80; size >>= 7)
    result += static_cast<char>(size | 0x80);
  size_t top = body.size();
  while (top >= 0x80)
    top >>= 7;
  return result + static_cast<char>(top) + body;
}

/// An ONNX model of `count` products in a chain with one weight, as nobody writes it.
std::string chainOf(int64_t count) {
  const std::string dims = field(1, "\x12\x01N") + field(1, "\x08\x40");
  const std::string type = field(2, field(1, "\x08\x01" + field(2, dims)));
  std::string last = "x", graph;
  for (int64_t i = 0; i < count; ++i) {
    std::string next = "t" + std::to_string(i);
    graph += field(1, field(1, last) + field(1, "w") + field(2, next) + field(4, "MatMul"));
    last = std::move(next);
  }
  const std::string weight = "\x08\x40\x08\x40\x10\x01" + field(8, "w") +
                             field(9, std::string(64 * 64 * sizeof(float), '\0'));
  graph += field(2, "g") + field(5, weight) + field(11, field(1, "x") + type) +
           field(12, field(1, last) + type);
  return "\x08\x08" + field(7, graph) + field(8, "\x10\x11");
}

/// The cost of a file with very many nodes: it must stay near-linear.
void importChain(benchmark::State &state) {
  llvm::ExitOnError check;
  llvm::SmallString<128> path;
  if (llvm::sys::fs::createTemporaryFile("chain", "onnx", path))
    return state.SkipWithError("cannot make a temporary file");
  check(writeFile(path, chainOf(state.range(0))));
  for (auto _ : state)
    state.counters["layers"] = double(check(groupLayers(check(importGraph(path)))).layers.size());
  llvm::sys::fs::remove(path);
}
BENCHMARK(importChain)
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000)
    ->Unit(benchmark::kMillisecond);

const bool registered = [] {
  for (const char *model :
       {"resnet50", "vgg16", "inception_v3", "mobilenet_v2", "bert_base", "gpt2_small", "dlrm"})
    benchmark::RegisterBenchmark((std::string("import/") + model).c_str(), import, model)
        ->Unit(benchmark::kMillisecond);
  return true;
}();

} // namespace
