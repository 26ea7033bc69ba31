// emit-model MODEL.onnx DIR [STAGES [LAYERS]]: model.py and weights/ of a model cut into about
// equally many layers a stage, without a search or a cluster; each stage in segments of LAYERS that
// are computed again in the backward pass. The tests of the generated code use it.
// emit-model --all: such jobs from standard input, their parts separated by tabs. Answers each at
// once with a line of three parts: how far it came (refused, imported, generated), what has no cost
// or "", why it came no further or "".
#include "codegen/ModelEmitter.h"
#include "codegen/Weights.h"
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <iostream>

using namespace heterplan;
using namespace llvm;

namespace {
/// Every `layers`-th layer of `stage` begins a segment; of 0, none.
void recompute(Stage &stage, int layers) {
  for (size_t i = 0; layers && i < stage.layers.size(); i += layers)
    stage.recompute.push_back(stage.layers[i]);
}

/// Cuts where tied parameters allow it.
Plan evenPlan(const LayerGraph &layers, int stages, int segmentLayers) {
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
  for (Stage &stage : plan.stages)
    recompute(stage, segmentLayers);
  return plan;
}

Error writePackage(const Graph &graph, const std::vector<StageModule> &modules,
                   StringRef directory) {
  if (std::error_code failure = sys::fs::create_directories(directory + "/weights"))
    return errorCodeToError(failure);
  for (size_t stage = 0; stage < modules.size(); ++stage) {
    std::string digits = std::to_string(stage);
    std::string file = (directory + "/weights/stage-").str() +
                       std::string(4 - std::min<size_t>(4, digits.size()), '0') + digits +
                       ".safetensors";
    std::vector<TensorId> stored = storedTensors(graph, modules[stage]);
    if (!stored.empty())
      if (Error error = writeWeights(file, graph, stored))
        return error;
  }
  Expected<std::string> code = emitModel(graph, modules);
  return code ? writeFile((directory + "/model.py").str(), *code) : code.takeError();
}

/// How far a model came.
struct Outcome {
  const char *state = "refused";
  std::string uncosted; // operators without a cost of their own
  Error error = Error::success();
};

std::string uncostedOperators(const Graph &graph) {
  std::string result;
  for (const CoverageRow &row : coverage(graph))
    if (!row.costed)
      result += (result.empty() ? "" : " ") + row.op;
  return result;
}

Outcome emit(StringRef model, StringRef directory, int stages, int segmentLayers) {
  Outcome outcome;
  ImportOptions options;
  options.lookOnly = true; // many operator tests have no axis of samples
  auto graph = importGraph(model, options);
  if (!graph) {
    outcome.error = graph.takeError();
    return outcome;
  }
  outcome.state = "imported";
  outcome.uncosted = uncostedOperators(*graph);
  auto layers = groupLayers(*graph);
  if (!layers) {
    outcome.uncosted = "layers";
    outcome.error = layers.takeError();
    return outcome;
  }
  auto modules = buildModules(*graph, *layers, evenPlan(*layers, stages, segmentLayers));
  outcome.error = modules ? writePackage(*graph, *modules, directory) : modules.takeError();
  if (!outcome.error)
    outcome.state = "generated";
  return outcome;
}

int emitAll() {
  for (std::string line; std::getline(std::cin, line);) {
    auto [model, rest] = StringRef(line).split('\t');
    auto [directory, counts] = rest.split('\t');
    auto [count, segment] = counts.split('\t');
    int stages = 1, layers = 0;
    count.getAsInteger(10, stages);
    segment.getAsInteger(10, layers);
    Outcome outcome = emit(model, directory, std::max(1, stages), std::max(0, layers));
    std::string message;
    if (outcome.error)
      message = toText(std::move(outcome.error));
    std::replace_if(
        message.begin(), message.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    outs() << outcome.state << '\t' << outcome.uncosted << '\t' << message << '\n';
    outs().flush(); // whoever waits learns which model comes next, should that one crash
  }
  return 0;
}
} // namespace

int main(int argc, char **argv) {
  if (argc == 2 && StringRef(argv[1]) == "--all")
    return emitAll();
  int stages = 1, layers = 0;
  if (argc < 3 || argc > 5 || (argc > 3 && StringRef(argv[3]).getAsInteger(10, stages)) ||
      (argc > 4 && StringRef(argv[4]).getAsInteger(10, layers))) {
    errs() << "usage: emit-model MODEL.onnx DIR [STAGES [LAYERS]] | emit-model --all\n";
    return 1;
  }
  Outcome outcome = emit(argv[1], argv[2], std::max(1, stages), std::max(0, layers));
  if (outcome.error) {
    errs() << toText(std::move(outcome.error)) << '\n';
    return 1;
  }
  return 0;
}
