#include "Fuzzing.h"
#include "ir/onnx/Grouping.h"
#include "ir/onnx/Importer.h"

using namespace heterplan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzzing::TemporaryDirectory directory;
  std::string path = directory.at("model.onnx");
  fuzzing::write(path, fuzzing::textOf(data, size));
  llvm::Expected<Graph> graph = importGraph(path);
  if (!graph) {
    fuzzing::expectDiagnostic(graph.takeError());
    return 0;
  }
  llvm::Expected<LayerGraph> layers = groupLayers(*graph);
  if (!layers)
    fuzzing::expectDiagnostic(layers.takeError());
  else if (llvm::Error error = layers->verify())
    fuzzing::fail("layers that their verifier refuses: " + toText(std::move(error)));
  return 0;
}
