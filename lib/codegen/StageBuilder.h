// How a stage becomes a module: internal to StageModule.cpp and StageBuilder.cpp.
#pragma once

#include "codegen/LinearNodes.h"
#include "codegen/StageModule.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

namespace heterplan {

/// The facts of the whole model that building a stage needs.
struct StageSource {
  StageSource(const Graph &graph, const LayerGraph &layers)
      : graph(graph), layers(layers), use(graph), nodeByName(numbersOf(graph)),
        layerOf(layersOf(nodeByName, layers)), linear(graph, use, layerOf) {
    for (size_t i = 0; i < graph.tensors.size(); ++i)
      tensorByName[graph.tensors[i].name] = static_cast<TensorId>(i);
  }

  const Graph &graph;
  const LayerGraph &layers;
  GraphUse use;
  const llvm::StringMap<int> nodeByName;
  const llvm::DenseMap<int, int> layerOf; // of the nodes that belong to one
  const LinearNodes linear;
  llvm::StringMap<TensorId> tensorByName;

private:
  static llvm::StringMap<int> numbersOf(const Graph &graph);
  static llvm::DenseMap<int, int> layersOf(const llvm::StringMap<int> &nodes,
                                           const LayerGraph &layers);
};

/// The tensors that a stage receives and sends, as indices into LayerGraph::tensors. A tensor that
/// several stages consume is sent once to each.
struct StageTensors {
  std::vector<int> received, sent;
};

class StageBuilder {
public:
  /// Layers from `begin` to `end`. `tables`: those that the replicas share. `alone`: it sends no
  /// outputs of the model but those that its layers make. `gathers`: each layer has its parameters
  /// gathered.
  StageBuilder(const StageSource &model, int begin, int end, const StageTensors &boundary,
               llvm::ArrayRef<TableShards> tables, bool alone = false, bool gathers = false)
      : model(model), begin(begin), end(end), boundary(boundary), tables(tables), alone(alone),
        gathers(gathers), scope(model.graph, model.use) {}

  /// `segments`: the first layers of those that are computed again in the backward pass.
  llvm::Expected<StageModule> build(llvm::ArrayRef<std::string> segments = {});

private:
  llvm::Error addTables();
  llvm::Error addBoundary();
  llvm::Error findSends();
  void addOwnResults();
  llvm::Error findInputs();
  bool computesAgain(TensorId tensor) const;
  void collect(int node);
  llvm::Error emitLayer(int layer, int last);
  void noteGathered();
  llvm::Error emitLayers(int first, int last);
  llvm::Error emitSegment(int first, int last);
  llvm::Error emitSegments(llvm::ArrayRef<std::string> firstLayers);
  std::vector<std::string> argumentsOf(const ScopeSegment &code) const;
  llvm::Error emitNodes(llvm::ArrayRef<int> nodes);
  llvm::Error addResults();
  llvm::Error addSizes();
  llvm::Error addIndices();
  llvm::Error emitBody(llvm::ArrayRef<std::string> segments);
  StageModule finish();
  llvm::Error addOutputs();
  llvm::Error checkNames() const;
  llvm::DenseMap<TensorId, int> localTensors(llvm::ArrayRef<int> nodes) const;
  bool isDead(TensorId variable) const;
  void release(std::vector<std::string> dead);
  llvm::Error invalid(llvm::StringRef why, llvm::StringRef name) const;
  std::vector<int> nodesOf(int layer) const { return layerNodes[layer - begin]; }

  const StageSource &model;
  int begin, end;
  const StageTensors boundary;
  llvm::ArrayRef<TableShards> tables;
  bool alone;
  bool gathers;
  Scope scope;
  StageModule stage;
  std::vector<std::vector<int>> layerNodes;
  llvm::DenseSet<int> collected;               // nodes of this stage
  std::vector<int> preamble;                   // nodes of no layer that it needs
  llvm::DenseMap<TensorId, int> remainingUses; // within this stage
};

} // namespace heterplan
