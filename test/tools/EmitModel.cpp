// emit-model MODEL.onnx DIR [STAGES]: model.py and weights/ of a model cut into about equally many
// layers a stage, without a search or a cluster. The tests of the generated code use it.
#include "codegen/ModelEmitter.h"
#include "codegen/Weights.h"
#include "ir/onnx/Grouping.h"
#include "ir/onnx/Importer.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <iostream>

using namespace heterplan;
using namespace llvm;

namespace {
/// Cuts where tied parameters allow it.
Plan evenPlan(const LayerGraph &layers, int stages) {
  Plan plan;
  plan.model = layers.model;
  std::vector<bool> allowed = layers.allowedCuts();
  plan.stages.emplace_back();
  for (int layer = 0; layer < layers.size(); ++layer) {
    int next = static_cast<int>(plan.stages.size());
    if (layer && next < stages && allowed[layer] && layer >= next * layers.size() / stages) {
      plan.stages.emplace_back();
      plan.stages.back().id = next;
    }
    plan.stages.back().layers.push_back(layers.layers[layer].name);
  }
  return plan;
}

Error emit(StringRef model, StringRef directory, int stages) {
  auto graph = importGraph(model);
  if (!graph)
    return graph.takeError();
  auto layers = groupLayers(*graph);
  if (!layers)
    return layers.takeError();
  auto modules = buildModules(*graph, *layers, evenPlan(*layers, stages));
  if (!modules)
    return modules.takeError();
  if (std::error_code failure = sys::fs::create_directories(directory + "/weights"))
    return errorCodeToError(failure);
  for (size_t stage = 0; stage < modules->size(); ++stage) {
    std::string digits = std::to_string(stage);
    std::string file = (directory + "/weights/stage-").str() +
                       std::string(4 - std::min<size_t>(4, digits.size()), '0') + digits +
                       ".safetensors";
    std::vector<TensorId> stored = storedTensors(*graph, (*modules)[stage]);
    if (!stored.empty())
      if (Error error = writeWeights(file, *graph, stored))
        return error;
  }
  return writeFile((directory + "/model.py").str(), emitModel(*graph, *modules));
}

int emitAll() {
  for (std::string line; std::getline(std::cin, line);) {
    auto [model, rest] = StringRef(line).split('\t');
    auto [directory, count] = rest.split('\t');
    int stages = 1;
    count.getAsInteger(10, stages);
    std::string message;
    if (Error error = emit(model, directory, std::max(1, stages)))
      message = toText(std::move(error));
    std::replace(message.begin(), message.end(), '\n', ' ');
    outs() << message << '\n';
  }
  return 0;
}
} // namespace

int main(int argc, char **argv) {
  if (argc == 2 && StringRef(argv[1]) == "--all")
    return emitAll();
  int stages = 1;
  if (argc < 3 || argc > 4 || (argc == 4 && StringRef(argv[3]).getAsInteger(10, stages))) {
    errs() << "usage: emit-model MODEL.onnx DIR [STAGES] | emit-model --all\n";
    return 1;
  }
  if (Error error = emit(argv[1], argv[2], std::max(1, stages))) {
    errs() << toText(std::move(error)) << '\n';
    return 1;
  }
  return 0;
}
