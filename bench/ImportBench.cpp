// How long it takes to read an ONNX file and to group its operators into layers.
#include "Bundled.h"

#include "benchmark/benchmark.h"

using namespace heterplan;

namespace {

void import(benchmark::State &state, const std::string &model) {
  size_t layers = 0;
  for (auto _ : state)
    layers = bench::readModel(model).layers.size();
  state.counters["layers"] = static_cast<double>(layers);
}

const bool registered = [] {
  for (const char *model :
       {"resnet50", "vgg16", "inception_v3", "mobilenet_v2", "bert_base", "gpt2_small", "dlrm"})
    benchmark::RegisterBenchmark((std::string("import/") + model).c_str(), import, model)
        ->Unit(benchmark::kMillisecond);
  return true;
}();

} // namespace
