#include "ir/sharding/DividedModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <set>

using namespace llvm;

namespace heterplan {

namespace {

LayerShard figuresOf(const Layer &local, int degree) {
  LayerShard shard;
  static_cast<LayerFigures &>(shard) = local;
  shard.degree = degree;
  shard.collectives = local.shardCollectives;
  return shard;
}

/// By name: the tensor of the model that a tensor of a shard is as a whole, with a whole gradient.
/// Other tensors of the shard are absent.
StringMap<std::string> wholeTensors(const LocalGraph &local, const LayerGraph &whole) {
  const std::vector<TensorId> originals = local.originals();
  const std::vector<bool> areWhole = local.areWhole();
  StringMap<Shape> shapes;
  for (const LayerTensor &tensor : whole.tensors)
    shapes[tensor.name] = tensor.shape;
  StringMap<std::string> result;
  for (size_t id = 0; id < originals.size(); ++id) {
    if (originals[id] == noTensor || !areWhole[id])
      continue;
    const GraphTensor &tensor = local.graph.tensors[id];
    const std::string &original = local.wholeNames[originals[id]];
    auto shape = shapes.find(original);
    if (shape != shapes.end() && shape->second == tensor.shape)
      result[tensor.name] = original;
  }
  return result;
}

/// The names of the tensors that cross each cut, as `nameOf` gives them; nullopt: one has none.
std::vector<std::optional<std::set<std::string>>>
crossing(const LayerGraph &graph, function_ref<std::string(const std::string &)> nameOf) {
  std::vector<std::optional<std::set<std::string>>> result;
  for (const Cut &cut : graph.cuts()) {
    std::optional<std::set<std::string>> &names = result.emplace_back(std::set<std::string>());
    for (int index : cut.tensors) {
      std::string name = nameOf(graph.tensors[index].name);
      if (name.empty() || !names->insert(name).second) {
        names.reset();
        break;
      }
    }
  }
  return result;
}

} // namespace

const ModelShard *DividedModel::find(int degree) const {
  auto found = find_if(shards, [&](const ModelShard &each) { return each.local.degree == degree; });
  return found == shards.end() ? nullptr : &*found;
}

LayerGraph withShards(LayerGraph whole, const std::vector<ModelShard> &shards) {
  const auto stated = crossing(whole, [](const std::string &name) { return name; });
  for (const ModelShard &shard : shards) {
    const StringMap<std::string> known = wholeTensors(shard.local, whole);
    const auto own =
        crossing(shard.layers, [&](const std::string &name) { return known.lookup(name); });
    for (int i = 0; i < whole.size(); ++i) {
      Layer &layer = whole.layers[i];
      layer.shards.push_back(figuresOf(shard.layers.layers[i], shard.local.degree));
      layer.continuesStage |= i > 0 && own[i] != stated[i];
    }
  }
  return whole;
}

} // namespace heterplan
