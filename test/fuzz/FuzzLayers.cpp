#include "Fuzzing.h"
#include "ir/FileForms.h"

using namespace heterplan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text = fuzzing::textOf(data, size);
  fuzzing::roundTrip(text, parseLayerGraph, [](LayerGraph &graph) { graph.fingerprint.clear(); });
  if (auto graph = parseLayerGraph(text, "input")) {
    graph->cuts();
    graph->allowedCuts();
  } else {
    llvm::consumeError(graph.takeError());
  }
  return 0;
}
