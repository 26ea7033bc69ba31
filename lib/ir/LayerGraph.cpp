#include "ir/LayerGraph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
constexpr struct {
  LayerKind kind;
  const char *name;
} layerKinds[] = {
#define HETERPLAN_LAYER_KIND(enumerator, name, help) {LayerKind::enumerator, name},
#include "ir/Layers.def"
};

Location at(const std::string &element) { return {"", 0, 0, element}; }

bool isSize(Bytes size) { return std::isfinite(size.value()) && size.value() >= 0; }
bool isWork(Flops work) { return std::isfinite(work.value()) && work.value() >= 0; }

bool isTable(const SparseTable &table, const Layer &layer) {
  return table.rows > 0 && table.columns > 0 && table.lookups > 0 && sizeOf(table.type) > 0 &&
         std::count(layer.parameters.begin(), layer.parameters.end(), table.parameter) == 1;
}

Error verifyTables(const Layer &layer, const Location &place) {
  for (const SparseTable &table : layer.tables)
    if (!isTable(table, layer))
      return Diagnostic(Diag::InvalidLayerGraph, place)
             << "table '" << table.parameter << "' of layer '" << layer.name
             << "' is not one of its parameters with rows, columns and lookups";
  if (layer.tableBytes() > layer.parameterBytes)
    return Diagnostic(Diag::InvalidLayerGraph, place)
           << "the tables of layer '" << layer.name << "' have " << layer.tableBytes().value()
           << " bytes, more than its parameters";
  return Error::success();
}

bool isCollective(const LayerCollective &each) {
  return each.collective != ShardCollective::None && each.count > 0 &&
         isSize(each.bytesPerSample) && isSize(each.fixedBytes);
}

/// Collectives stand between shards.
Error verifyCollectives(const LayerGraph &graph) {
  if (graph.shardDegree < 1 || graph.shardDegree > mostShards)
    return Diagnostic(Diag::InvalidLayerGraph, at("shardDegree"))
           << "a shard degree of " << graph.shardDegree << "; accepted is 1 to " << mostShards;
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const Layer &layer = graph.layers[i];
    bool holds = all_of(layer.shardCollectives, isCollective) &&
                 (layer.shardCollectives.empty() || graph.shardDegree > 1);
    if (!holds)
      return Diagnostic(Diag::InvalidLayerGraph, at("layers[" + std::to_string(i) + "]"))
             << "the collectives of layer '" << layer.name
             << "' need a kind, a count, sizes that are not negative, and a 'shardDegree' above 1 "
                "of the layers file";
  }
  return Error::success();
}

Error verifyShard(const Layer &layer, size_t index, const Location &place) {
  const LayerShard &shard = layer.shards[index];
  const int before = index == 0 ? 1 : layer.shards[index - 1].degree;
  if (shard.degree <= before || shard.degree > mostShards || shard.degree % before != 0)
    return Diagnostic(Diag::InvalidLayerGraph, place)
           << "the shards of layer '" << layer.name << "' have degree " << shard.degree
           << " after degree " << before << "; degrees ascend up to " << mostShards
           << ", and each divides the next";
  bool holds = isWork(shard.forwardFlops) && isWork(shard.backwardFlops) &&
               all_of(shard.collectives, isCollective);
  for (Bytes size : {shard.forwardBytes, shard.backwardBytes, shard.parameterBytes,
                     shard.bufferBytes, shard.activationBytes, shard.workspaceBytes})
    holds = holds && isSize(size);
  if (!holds)
    return Diagnostic(Diag::InvalidLayerGraph, place)
           << "a shard of layer '" << layer.name
           << "' has a size that is negative or not finite, or a collective without kind or count";
  return Error::success();
}

std::vector<int> degreesOf(const Layer &layer) {
  std::vector<int> degrees;
  for (const LayerShard &shard : layer.shards)
    degrees.push_back(shard.degree);
  return degrees;
}

std::string text(ArrayRef<int> degrees) {
  if (degrees.empty())
    return "none";
  return join(map_range(degrees, [](int degree) { return std::to_string(degree); }), ", ");
}

/// All layers state figures for the same degrees.
Error verifyShards(const LayerGraph &graph) {
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const Layer &layer = graph.layers[i];
    const std::string place = "layers[" + std::to_string(i) + "]";
    if (!layer.shards.empty() && graph.shardDegree > 1)
      return Diagnostic(Diag::InvalidLayerGraph, at(place))
             << "layer '" << layer.name << "' has 'shards', and the layers are those of one of "
             << graph.shardDegree << " devices already ('shardDegree')";
    for (size_t k = 0; k < layer.shards.size(); ++k)
      if (Error error = verifyShard(layer, k, at(place + ".shards[" + std::to_string(k) + "]")))
        return error;
    if (degreesOf(layer) != degreesOf(graph.layers.front()))
      return Diagnostic(Diag::InvalidLayerGraph, at(place))
             << "the shards of layer '" << layer.name << "' have the degrees "
             << text(degreesOf(layer)) << ", and those of layer '" << graph.layers.front().name
             << "' " << text(degreesOf(graph.layers.front()));
  }
  return Error::success();
}

Error verifyLayer(const Layer &layer, int index) {
  Location place = at("layers[" + std::to_string(index) + "]");
  if (layer.name.empty())
    return Diagnostic(Diag::InvalidLayerGraph, place) << "a layer has no name";
  if (layer.signature.empty())
    return Diagnostic(Diag::InvalidLayerGraph, place)
           << "layer '" << layer.name << "' has no signature";
  bool sizesHold = isWork(layer.forwardFlops) && isWork(layer.backwardFlops);
  for (Bytes size :
       {layer.forwardBytes, layer.backwardBytes, layer.parameterBytes, layer.bufferBytes,
        layer.activationBytes, layer.workspaceBytes, layer.inPassAllReduceBytes})
    sizesHold = sizesHold && isSize(size);
  if (!sizesHold || layer.inPassAllReduces < 0)
    return Diagnostic(Diag::InvalidLayerGraph, place)
           << "layer '" << layer.name << "' has a size that is negative or not finite";
  return verifyTables(layer, place);
}

Error verifyTensor(const LayerTensor &tensor, int index, int layerCount) {
  Location place = at("tensors[" + std::to_string(index) + "]");
  if (tensor.name.empty())
    return Diagnostic(Diag::InvalidLayerGraph, place) << "a tensor has no name";
  if (!isSize(tensor.bytesPerSample) || !isSize(tensor.fixedBytes))
    return Diagnostic(Diag::InvalidLayerGraph, place)
           << "tensor '" << tensor.name << "' has a size that is negative or not finite";
  if (tensor.producer < 0 || tensor.producer >= layerCount)
    return Diagnostic(Diag::InvalidLayerGraph, place)
           << "tensor '" << tensor.name << "' has no producer among the layers";
  for (int consumer : tensor.consumers)
    if (consumer <= tensor.producer || consumer >= layerCount)
      return Diagnostic(Diag::CyclicGraph, place)
             << "tensor '" << tensor.name
             << "' flows back to a layer that it depends on; the layers form a cycle";
  return Error::success();
}

/// Each table is in one layer, the first that uses it.
Error verifyTablesApart(const LayerGraph &graph) {
  StringMap<const Layer *> owners;
  for (const Layer &layer : graph.layers)
    for (const SparseTable &table : layer.tables)
      if (!owners.try_emplace(table.parameter, &layer).second)
        return Diagnostic(Diag::DuplicateName, at("layers"))
               << "table '" << table.parameter << "' is listed twice, in layers '"
               << owners.lookup(table.parameter)->name << "' and '" << layer.name << "'";
  return Error::success();
}
} // namespace

const char *nameOf(LayerKind kind) { return layerKinds[static_cast<int>(kind)].name; }

Expected<LayerKind> layerKind(StringRef name, const Location &location) {
  std::string accepted;
  for (const auto &entry : layerKinds) {
    if (name == entry.name)
      return entry.kind;
    accepted += (accepted.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Diagnostic(Diag::WrongType, location).note({}, "accepted are " + accepted)
         << "'" << name << "' is not a kind of layer";
}

Bytes Layer::tableBytes() const {
  Bytes total{};
  for (const SparseTable &table : tables)
    total += table.bytes();
  return total;
}

Bytes Layer::denseBytes() const { return parameterBytes - tableBytes(); }

TableRows Layer::lookups() const {
  TableRows total;
  for (const SparseTable &table : tables)
    total += {double(table.lookups), table.lookupBytes()};
  return total;
}

Error LayerGraph::verify() const {
  if (layers.empty())
    return Diagnostic(Diag::InvalidLayerGraph, at("layers")) << "the model has no layers";
  if (Error error = verifyCollectives(*this))
    return error;
  if (Error error = verifyShards(*this))
    return error;
  StringMap<int> layerNames, tensorNames;
  for (int i = 0; i < size(); ++i) {
    if (Error error = verifyLayer(layers[i], i))
      return error;
    if (!layerNames.try_emplace(layers[i].name, i).second)
      return Diagnostic(Diag::DuplicateName, at("layers[" + std::to_string(i) + "]"))
             << "two layers are called '" << layers[i].name << "'";
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (Error error = verifyTensor(tensors[i], static_cast<int>(i), size()))
      return error;
    if (!tensorNames.try_emplace(tensors[i].name, i).second)
      return Diagnostic(Diag::DuplicateName, at("tensors[" + std::to_string(i) + "]"))
             << "two tensors are called '" << tensors[i].name << "'";
  }
  return verifyTablesApart(*this);
}

void Cut::add(int index, const LayerTensor &tensor) {
  tensors.push_back(index);
  forwardBytes += tensor.bytesPerSample;
  fixedBytes += tensor.fixedBytes;
  if (!tensor.differentiable)
    return;
  backwardBytes += tensor.bytesPerSample;
  fixedGradientBytes += tensor.fixedBytes;
}

std::vector<Cut> LayerGraph::cuts() const {
  std::vector<Cut> result(size() + 1);
  for (int position = 0; position <= size(); ++position)
    result[position].position = position;
  for (size_t index = 0; index < tensors.size(); ++index) {
    const LayerTensor &tensor = tensors[index];
    if (tensor.consumers.empty())
      continue;
    int last = *std::max_element(tensor.consumers.begin(), tensor.consumers.end());
    for (int position = tensor.producer + 1; position <= last; ++position)
      result[position].add(static_cast<int>(index), tensor);
  }
  return result;
}

int LayerGraph::find(StringRef name) const {
  auto match = std::find_if(layers.begin(), layers.end(),
                            [&](const Layer &layer) { return layer.name == name; });
  return match == layers.end() ? -1 : static_cast<int>(match - layers.begin());
}

std::vector<bool> LayerGraph::allowedCuts() const {
  StringMap<int> firstUse; // of sparse tables, whose first layer lists them
  std::vector<bool> allowed(size() + 1, true);
  for (int i = 0; i < size(); ++i) {
    if (layers[i].continuesStage)
      allowed[i] = false;
    for (const SparseTable &table : layers[i].tables)
      firstUse.try_emplace(table.parameter, i);
    for (const std::string &parameter : layers[i].parameters)
      if (auto use = firstUse.find(parameter); use != firstUse.end())
        std::fill(allowed.begin() + use->second + 1, allowed.begin() + i + 1, false);
  }
  return allowed;
}

std::vector<TiedParameter> LayerGraph::tiedParameters() const {
  std::vector<TiedParameter> parameters;
  StringMap<size_t> known;
  for (int i = 0; i < size(); ++i)
    for (const std::string &name : layers[i].parameters) {
      auto [entry, isNew] = known.try_emplace(name, parameters.size());
      if (isNew)
        parameters.push_back({name, {}, layers[i].denseBytes()});
      std::vector<int> &users = parameters[entry->second].layers;
      if (users.empty() || users.back() != i)
        users.push_back(i);
    }
  std::vector<TiedParameter> tied;
  for (TiedParameter &parameter : parameters) {
    const std::vector<SparseTable> &tables = layers[parameter.layers.front()].tables;
    bool isTable = std::any_of(tables.begin(), tables.end(), [&](const SparseTable &table) {
      return table.parameter == parameter.name;
    });
    if (parameter.layers.size() > 1 && !isTable)
      tied.push_back(std::move(parameter));
  }
  return tied;
}

namespace {
/// The layers' indices in topological order, smallest first among those that are ready; shorter
/// than the layers where there is a cycle.
std::vector<int> topologicalOrder(const LayerGraph &graph) {
  std::vector<std::vector<int>> consumers(graph.layers.size());
  std::vector<int> waitingFor(graph.layers.size(), 0);
  for (const LayerTensor &tensor : graph.tensors)
    for (int consumer : tensor.consumers) {
      consumers[tensor.producer].push_back(consumer);
      ++waitingFor[consumer];
    }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < graph.size(); ++i)
    if (waitingFor[i] == 0)
      ready.push(i);
  std::vector<int> order;
  while (!ready.empty()) {
    int layer = ready.top();
    ready.pop();
    order.push_back(layer);
    for (int consumer : consumers[layer])
      if (--waitingFor[consumer] == 0)
        ready.push(consumer);
  }
  return order;
}
} // namespace

void sortTopologically(LayerGraph &graph) {
  std::vector<int> order = topologicalOrder(graph);
  if (order.size() != graph.layers.size() || std::is_sorted(order.begin(), order.end()))
    return;
  graph = permuted(std::move(graph), order);
}

std::vector<int> LayerGraph::degrees() const {
  std::vector<int> degrees{shardDegree};
  if (!layers.empty())
    for (const LayerShard &shard : layers.front().shards)
      degrees.push_back(shard.degree);
  return degrees;
}

LayerGraph LayerGraph::ofDegree(int degree) const {
  LayerGraph local = *this;
  local.shardDegree = degree;
  for (Layer &layer : local.layers) {
    for (const LayerShard &shard : std::exchange(layer.shards, {})) {
      if (shard.degree != degree)
        continue;
      layer.shardDegree = degree;
      static_cast<LayerFigures &>(layer) = shard;
      layer.shardCollectives = shard.collectives;
    }
  }
  return local;
}

namespace {
/// Makes the figures of a layer, and the collectives within it, those under autocast: kernels of 16
/// bits do without copies of the operands of convolutions.
void castDown(LayerFigures &figures, std::vector<LayerCollective> &collectives) {
  if (!figures.autocast)
    return;
  figures.activationBytes = figures.autocast->activations;
  figures.workspaceBytes = figures.autocast->workspace;
  figures.convolutionBytes = Bytes();
  for (LayerCollective &each : collectives) {
    each.bytesPerSample = each.bytesPerSample * 0.5;
    each.fixedBytes = each.fixedBytes * 0.5;
  }
}
} // namespace

LayerGraph underAutocast(LayerGraph graph) {
  for (Layer &layer : graph.layers) {
    for (LayerShard &shard : layer.shards)
      castDown(shard, shard.collectives);
    castDown(layer, layer.shardCollectives);
  }
  return graph;
}

Bytes totalParameterBytes(const LayerGraph &graph) {
  Bytes total{};
  for (const Layer &layer : graph.layers)
    total += layer.parameterBytes;
  return total;
}

Flops totalForwardFlops(const LayerGraph &graph) {
  Flops total{};
  for (const Layer &layer : graph.layers)
    total += layer.forwardFlops;
  return total;
}

} // namespace heterplan
