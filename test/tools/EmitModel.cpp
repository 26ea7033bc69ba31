// emit-model MODEL.onnx DIR [STAGES [LAYERS]]: model.py and weights/ of a model cut into about
// equally many layers a stage, without a search or a cluster; each stage in segments of LAYERS that
// are computed again in the backward pass. The tests of the generated code use it.
// emit-model --shards DEGREE MODEL.onnx DIR [RANDOM]: model.py of the graph that each of DEGREE
// shards computes, and slices.json: the axis and the segments of each stored tensor that is sliced.
// With a number RANDOM the strategies of the nodes are drawn by it; otherwise they are the fastest
// ones. emit-model --strategies DEGREE MODEL.onnx DIR: such folders DIR/0, DIR/1, ... for each
// strategy of the last node; the others are replicated. emit-model --all: such jobs from standard
// input, their parts separated by tabs. Answers each at once with a line of three parts: how far it
// came (refused, imported, generated), what has no cost or "", why it came no further or "".
#include "codegen/ModelEmitter.h"
#include "codegen/Weights.h"
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "ir/onnx/group/NodeTimes.h"
#include "ir/sharding/LocalGraph.h"
#include "support/Diagnostic.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <iostream>
#include <random>

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

// ---- shards

std::string slicesOf(const LocalGraph &local) {
  std::string text;
  raw_string_ostream os(text);
  JsonWriter json(os);
  json.object([&] {
    for (TensorId id : local.slicedTensors())
      json.attributeObject(local.graph.tensors[id].name, [&] {
        json.attribute("axis", int64_t(local.states[id].axis));
        json.attributeArray("segments", [&] {
          for (int64_t length : local.states[id].pattern)
            json.value(length);
        });
      });
  });
  return os.str();
}

Error writeShard(const Graph &graph, const ShardAssignment &assignment, const ShardMachine &machine,
                 const std::string &directory) {
  if (std::error_code failure = sys::fs::create_directories(directory))
    return errorCodeToError(failure);
  auto local = localGraph(graph, assignment, machine);
  if (!local)
    return local.takeError();
  auto layers = groupLayers(local->graph);
  if (!layers)
    return layers.takeError();
  auto modules = buildModules(local->graph, *layers, evenPlan(*layers, 1, 0));
  if (!modules)
    return modules.takeError();
  Expected<std::string> code = emitModel(local->graph, *modules);
  if (!code)
    return code.takeError();
  if (Error error = writeFile(directory + "/model.py", *code))
    return error;
  return writeFile(directory + "/slices.json", slicesOf(*local));
}

/// A strategy for each node, and a state for each stored tensor, drawn at random.
ShardAssignment drawn(const Graph &graph, const ShardSpace &space, unsigned seed) {
  std::mt19937 random(seed);
  auto draw = [&](size_t count) { return random() % count; };
  ShardAssignment result = replicatedAssignment(graph, space.degree);
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    if (isStored(graph.tensors[i].role) && graph.tensors[i].role != TensorRole::Constant &&
        !space.states[i].empty() && draw(3))
      result.tensors[i] = space.states[i][draw(space.states[i].size())];
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    result.nodes[i] = space.strategies[i][draw(space.strategies[i].size())];
    for (size_t k = 0; k < graph.nodes[i].outputs.size(); ++k)
      if (graph.nodes[i].outputs[k] != noTensor)
        result.tensors[graph.nodes[i].outputs[k]] = result.nodes[i].results[k];
  }
  return result;
}

Error emitShards(StringRef degree, StringRef model, const std::string &directory, StringRef seed) {
  ShardMachine machine;
  unsigned number = 0;
  degree.getAsInteger(10, machine.degree);
  ImportOptions options;
  options.lookOnly = true;
  auto graph = importGraph(model, options);
  if (!graph)
    return graph.takeError();
  const bool isBest = seed.empty() || seed == "slow" || seed == "whole";
  ShardSpace space = shardSpace(*graph, machine.degree,
                                seed == "whole" ? ShardBegin::Weights
                                : isBest        ? ShardBegin::WeightsAndSums
                                                : ShardBegin::Everywhere);
  if (isBest) {
    machine.batch = 8;
    machine.link = BytesPerSecond(3e11);
    machine.memory = BytesPerSecond(3e12);
    machine.latency = Seconds(seed == "slow" ? 1e-9 : 5e-6);
    FlopsPerSecond peak(seed == "slow" ? 1e9 : 1e14);
    auto times = nodeTimes(*graph, machine.batch, peak, machine.memory);
    return writeShard(*graph, bestAssignment({*graph, space, times, machine}), machine, directory);
  }
  if (!seed.getAsInteger(10, number))
    return writeShard(*graph, drawn(*graph, space, number), machine, directory);
  const auto &strategies = space.strategies.back();
  for (size_t i = 0; i < strategies.size(); ++i) {
    ShardAssignment assignment = replicatedAssignment(*graph, machine.degree);
    assignment.nodes.back() = strategies[i];
    for (size_t k = 0; k < strategies[i].results.size(); ++k)
      if (TensorId id = graph->nodes.back().outputs[k]; id != noTensor)
        assignment.tensors[id] = strategies[i].results[k];
    for (size_t k = 0; k < strategies[i].operands.size(); ++k)
      if (TensorId id = graph->nodes.back().inputs[k]; id != noTensor &&
                                                       isWeight(graph->tensors[id].role) &&
                                                       strategies[i].operands[k].isSharded())
        assignment.tensors[id] = strategies[i].operands[k];
    if (Error error = writeShard(*graph, assignment, machine, directory + "/" + std::to_string(i)))
      return error;
  }
  return Error::success();
}

int finish(Error error) {
  if (!error)
    return 0;
  errs() << toText(std::move(error)) << '\n';
  return 1;
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
  if (argc >= 5 && argc <= 6 && StringRef(argv[1]) == "--shards")
    return finish(emitShards(argv[2], argv[3], argv[4], argc == 6 ? argv[5] : ""));
  if (argc == 5 && StringRef(argv[1]) == "--strategies")
    return finish(emitShards(argv[2], argv[3], argv[4], "each"));
  int stages = 1, layers = 0;
  if (argc < 3 || argc > 5 || (argc > 3 && StringRef(argv[3]).getAsInteger(10, stages)) ||
      (argc > 4 && StringRef(argv[4]).getAsInteger(10, layers))) {
    errs() << "usage: emit-model MODEL.onnx DIR [STAGES [LAYERS]] | emit-model --all\n";
    return 1;
  }
  Outcome outcome = emit(argv[1], argv[2], std::max(1, stages), std::max(0, layers));
  return finish(std::move(outcome.error));
}
