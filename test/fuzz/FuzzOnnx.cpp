#include "Fuzzing.h"
#include "codegen/ModelEmitter.h"
#include "ir/SeriesParallel.h"
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "ir/onnx/read/Skeleton.h"

using namespace heterplan;

namespace {
/// Layers verify, and so does the tree of their blocks where checking that takes no time.
void checkLayers(const LayerGraph &layers) {
  if (llvm::Error error = layers.verify())
    fuzzing::fail("layers that their verifier refuses: " + toText(std::move(error)));
  if (layers.size() > 200)
    return;
  if (llvm::Error error = verify(decompose(layers), layers))
    fuzzing::fail("blocks that their verifier refuses: " + toText(std::move(error)));
}
/// The code of the model in one stage is Python: emitModel() looks at it.
void checkCode(const Graph &graph, const LayerGraph &layers) {
  Plan plan;
  plan.model = layers.model;
  plan.stages.emplace_back();
  for (const Layer &layer : layers.layers)
    plan.stages[0].layers.push_back(layer.name);
  llvm::Expected<std::string> code = emitModel(graph, layers, plan);
  if (code)
    return;
  std::string message = toText(code.takeError());
  if (message.find("is no Python") != std::string::npos)
    fuzzing::fail(message);
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzzing::TemporaryDirectory directory;
  std::string path = directory.at("model.onnx");
  llvm::StringRef text = fuzzing::textOf(data, size);
  fuzzing::write(path, text);
  ImportOptions options;
  if (size % 4 == 1)
    options.batchDim = 1;
  skeletonOf(text, "model.onnx", 16);
  llvm::Expected<Graph> graph = importGraph(path, options);
  if (!graph) {
    fuzzing::expectDiagnostic(graph.takeError());
    return 0;
  }
  llvm::Expected<LayerGraph> layers = groupLayers(*graph);
  if (!layers) {
    fuzzing::expectDiagnostic(layers.takeError());
  } else {
    checkLayers(*layers);
    checkCode(*graph, *layers);
  }
  return 0;
}
