// import-shapes MODEL.onnx [--batch-dim K|SYMBOL|INPUT=K] [--dim NAME=N] ...: the shape of each
// tensor of the imported graph, as JSON: {"name": [[per sample, fixed], ...], ...}. The tests hold
// them to those that a reference computes.
#include "ir/onnx/Importer.h"
#include "support/Diagnostic.h"
#include "support/JsonWriter.h"

using namespace heterplan;
using namespace llvm;

namespace {
bool readOption(StringRef option, StringRef value, ImportOptions &options) {
  auto [name, number] = value.rsplit('=');
  int64_t size = 0;
  if (option == "--dim" && !number.getAsInteger(10, size)) {
    options.dims[name.str()] = size;
    return true;
  }
  if (option != "--batch-dim")
    return false;
  int axis = -1;
  if (value.contains('='))
    options.inputBatchDims[name.str()] = number.getAsInteger(10, axis) ? -1 : axis;
  else if (!value.getAsInteger(10, axis))
    options.batchDim = axis;
  else
    options.batchSymbol = value.str();
  return true;
}

void print(const Graph &graph) {
  JsonWriter json(outs());
  json.object([&] {
    for (const GraphTensor &tensor : graph.tensors)
      json.attributeArray(tensor.name, [&] {
        for (const Dim &dim : tensor.shape)
          json.array([&] {
            json.value(dim.perSample);
            json.value(dim.fixed);
          });
      });
  });
}
} // namespace

int main(int argc, char **argv) {
  ImportOptions options;
  for (int i = 2; i < argc; i += 2)
    if (i + 1 == argc || !readOption(argv[i], argv[i + 1], options)) {
      errs() << "usage: import-shapes MODEL.onnx [--batch-dim K|SYMBOL|INPUT=K] [--dim NAME=N]\n";
      return 1;
    }
  auto graph = importGraph(argc > 1 ? argv[1] : "", options);
  if (!graph) {
    errs() << toText(graph.takeError()) << '\n';
    return 1;
  }
  print(*graph);
  return 0;
}
