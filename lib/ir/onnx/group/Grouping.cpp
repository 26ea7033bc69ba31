#include "ir/onnx/group/Grouping.h"

#include "ir/Bodies.h"
#include "ir/onnx/batch/BatchLayout.h"
#include "ir/onnx/group/Operators.h"
#include "ir/onnx/group/Roles.h"
#include "ir/onnx/group/Signature.h"
#include "ir/onnx/group/SparseTables.h"
#include "ir/sharding/ShardConversions.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {

constexpr int noLayer = -1;
/// Notes of one kind beyond these are counted, not listed.
constexpr int mostNotes = 5;
constexpr const char *profileOnly = "profile only";

class Grouper {
public:
  explicit Grouper(const Graph &graph)
      : graph(graph), facts(graph), samples(analyseSamples(graph)),
        splits(splitsBySample(samples)) {
    for (size_t id = 0; id < splits.size(); ++id) // what is sent has a size that both sides know
      splits[id] = splits[id] && !graph.tensors[id].dynamic &&
                   graph.tensors[id].container == Container::None;
  }

  Expected<LayerGraph> run() {
    if (graph.nodes.empty())
      return Diagnostic(Diag::InvalidLayerGraph, {graph.name, 0, 0, ""})
             << "the model has no operators left after constants are folded";
    for (const GraphNode &node : graph.nodes)
      costs.push_back(costOf(node, facts));
    assignLayers();
    mergeUnsplit();
    collectNodes();
    for (size_t i = 0; i < members.size(); ++i)
      addLayer(static_cast<int>(i));
    addSparseTables(facts, layerOf, ofInputs, result.layers);
    addTensors();
    addNotes();
    result.model = graph.name;
    result.fingerprint = graph.fingerprint;
    if (Error error = result.verify())
      return error;
    return std::move(result);
  }

private:
  const Graph &graph;
  GraphFacts facts;
  std::vector<OperatorCost> costs;
  std::vector<int> producer; // by tensor: node, or -1
  std::vector<int> layerOf;  // by node
  std::vector<int> heads;    // by layer: the heavy node
  std::vector<std::vector<int>> members;
  LayerGraph result;
  StringMap<int> names;
  StringSet<> counted;    // parameters and buffers whose bytes are counted
  std::vector<bool> kept; // by tensor: its storage is counted as activation
  std::vector<bool> keptUnderAutocast;
  SampleAnalysis samples;
  std::vector<bool> splits;   // by tensor: may cross a cut
  std::vector<bool> ofInputs; // by node: cheap, and depends on no layer and no parameter
  int superlinear = 0;
  int merged = 0;

  void assignLayers() {
    producer.assign(graph.tensors.size(), -1);
    layerOf.assign(graph.nodes.size(), noLayer);
    ofInputs.assign(graph.nodes.size(), false);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (TensorId id : graph.nodes[i].outputs)
        if (id != noTensor)
          producer[id] = static_cast<int>(i);
      if (costs[i].heavy) {
        layerOf[i] = static_cast<int>(heads.size());
        heads.push_back(static_cast<int>(i));
      } else {
        layerOf[i] = lastProducerLayer(graph.nodes[i]);
        ofInputs[i] = dependsOnInputsOnly(graph.nodes[i]);
      }
    }
    if (heads.empty())
      heads.push_back(heaviest());
    joinFirstUsers();
  }

  /// Such a value (say, an attention mask) crosses no cut: every stage that reads it computes it
  /// from the inputs.
  bool dependsOnInputsOnly(const GraphNode &node) const {
    static const StringSet<> random = {"RandomNormal", "RandomNormalLike",  "RandomUniform",
                                       "Bernoulli",    "RandomUniformLike", "Multinomial",
                                       "Dropout"};
    return !random.count(node.op) && all_of(node.inputs, [&](TensorId id) {
      if (id == noTensor)
        return true;
      if (producer[id] >= 0)
        return static_cast<bool>(ofInputs[producer[id]]);
      TensorRole role = graph.tensors[id].role;
      return !isWeight(role) && role != TensorRole::Buffer;
    });
  }

  /// Whether a layer other than that of its producer has to receive it.
  bool flows(TensorId id) const {
    return id != noTensor && producer[id] >= 0 && !ofInputs[producer[id]];
  }

  int lastProducerLayer(const GraphNode &node) const {
    int layer = noLayer;
    for (TensorId id : node.inputs)
      if (id != noTensor && producer[id] >= 0)
        layer = std::max(layer, layerOf[producer[id]]);
    return layer;
  }

  /// Without heavy operators the model is one layer, named after the one with most work.
  int heaviest() const {
    auto most = std::max_element(costs.begin(), costs.end(), [](const auto &a, const auto &b) {
      return a.forwardFlops < b.forwardFlops;
    });
    return static_cast<int>(most - costs.begin());
  }

  /// A view that tears the samples apart stays with its user, so that it crosses no cut. So does a
  /// replicated tensor of shards whose gradients are summands: what crosses has whole gradients.
  /// A gathered tensor stays with its user, too: slices cross.
  bool movesForward(const GraphNode &node) const {
    const std::optional<ShardOperator> op = shardOperator(node);
    if (op == ShardOperator::ShardCopy || op == ShardOperator::ShardSummand ||
        op == ShardOperator::ShardGather || op == ShardOperator::ShardGatherSum)
      return true;
    return isView(node.op) && node.outputs[0] != noTensor && !splits[node.outputs[0]];
  }

  /// Whether node `i` is a normalisation of a tensor that goes to its first user, or further, by
  /// itself, as a residual stream does. Its result then crosses no cut between.
  bool joinsUser(size_t i, const std::vector<int> &firstUse,
                 const std::vector<int> &lastUse) const {
    const GraphNode &node = graph.nodes[i];
    return costs[i].kind == LayerKind::Normalization && !costs[i].heavy && flows(node.inputs[0]) &&
           lastUse[node.inputs[0]] >= firstUse[node.outputs[0]];
  }

  /// Nodes that depend on no layer go to the first layer that uses them.
  void joinFirstUsers() {
    std::vector<int> firstUse(graph.tensors.size(), static_cast<int>(heads.size()));
    std::vector<int> lastUse(graph.tensors.size(), noLayer);
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      const GraphNode &node = graph.nodes[i];
      if (layerOf[i] == noLayer || movesForward(node) || joinsUser(i, firstUse, lastUse)) {
        int layer = static_cast<int>(heads.size());
        for (TensorId id : node.outputs)
          if (id != noTensor)
            layer = std::min(layer, firstUse[id]);
        layerOf[i] = layer == static_cast<int>(heads.size()) ? std::max(0, layerOf[i]) : layer;
      }
      for (TensorId id : node.inputs)
        if (id != noTensor) {
          firstUse[id] = std::min(firstUse[id], layerOf[i]);
          lastUse[id] = std::max(lastUse[id], layerOf[i]);
        }
    }
  }

  /// Merges the layers between which a tensor flows that cannot be split by sample.
  void mergeUnsplit() {
    std::vector<int> spans(heads.size() + 1, 0); // +1 where one begins, -1 where it ends
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (TensorId id : graph.nodes[i].inputs)
        if (flows(id) && !splits[id]) {
          ++spans[layerOf[producer[id]]];
          --spans[layerOf[i]];
        }
    for (TensorId id : ArrayRef<TensorId>(graph.outputs).take_front(1)) // see addTensors
      if (producer[id] >= 0 && !splits[id])
        ++spans[layerOf[producer[id]]];
    std::vector<int> number(heads.size()), newHeads;
    int open = 0;
    for (size_t i = 0; i < heads.size(); ++i) {
      if (!open) {
        newHeads.push_back(heads[i]);
      } else {
        ++merged;
        if (costs[heads[i]].forwardFlops > costs[newHeads.back()].forwardFlops)
          newHeads.back() = heads[i];
      }
      number[i] = static_cast<int>(newHeads.size()) - 1;
      open += spans[i];
    }
    for (int &layer : layerOf)
      layer = number[layer];
    heads = std::move(newHeads);
  }

  void collectNodes() {
    members.resize(heads.size());
    for (size_t i = 0; i < layerOf.size(); ++i)
      members[layerOf[i]].push_back(static_cast<int>(i));
    kept.assign(graph.tensors.size(), false);
    keptUnderAutocast = kept;
  }

  /// The name of the heavy node without white space and control characters, made unique.
  std::string uniqueName(const GraphNode &node) {
    std::string wanted = node.name.substr(0, 200);
    for (char &c : wanted)
      if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f)
        c = '_';
    std::string name = wanted;
    while (!names.try_emplace(name, 2).second)
      name = wanted + "_" + std::to_string(names[wanted]++);
    return name;
  }

  void addLayer(int index) {
    Layer layer;
    layer.name = uniqueName(graph.nodes[heads[index]]);
    layer.kind = costs[heads[index]].kind;
    layer.signature = signatureOf(facts, members[index], heads[index]);
    StringSet<> listed;
    bool opaque = false;
    for (int i : members[index]) {
      layer.nodes.push_back(graph.nodes[i].name);
      addCosts(layer, costs[i], graph.nodes[i]);
      addKernel(layer, costs[i]);
      addInPassAllReduces(layer, graph.nodes[i]);
      opaque |= costs[i].opaque;
      addWeights(layer, graph.nodes[i], listed);
    }
    if (opaque)
      makeOpaque(layer);
    result.layers.push_back(std::move(layer));
  }

  /// A layer that contains what nobody knows costs what its profile says, and nothing else does.
  static void makeOpaque(Layer &layer) {
    layer.kind = LayerKind::Opaque;
    layer.forwardFlops = layer.backwardFlops = Flops();
    layer.forwardBytes = layer.backwardBytes = Bytes();
    layer.kernels.clear();
  }

  void addCosts(Layer &layer, const OperatorCost &cost, const GraphNode &node) {
    layer.forwardFlops += Flops(cost.forwardFlops);
    layer.backwardFlops += Flops(cost.backwardFlops);
    layer.forwardBytes += Bytes(cost.forwardBytes);
    layer.backwardBytes += Bytes(cost.backwardBytes);
    layer.activationBytes += Bytes(cost.keepsBytes);
    layer.workspaceBytes = std::max(layer.workspaceBytes, Bytes(cost.workspaceBytes));
    layer.convolutionBytes = std::max(layer.convolutionBytes, Bytes(cost.convolutionBytes));
    AutocastMemory &autocast = layer.autocast ? *layer.autocast : layer.autocast.emplace();
    autocast.activations += Bytes(cost.keepsBytes);
    autocast.workspace = std::max(autocast.workspace, Bytes(cost.autocastWorkspace));
    for (TensorId id : cost.keeps)
      if (id != noTensor) {
        keep(layer, id);
        keepUnderAutocast(autocast, id, autocastRule(node));
      }
  }

  /// One for each product; operators of another kind together.
  static void addKernel(Layer &layer, const OperatorCost &cost) {
    if (cost.kernels == 0)
      return;
    KernelWork *kernel = nullptr;
    for (KernelWork &known : layer.kernels)
      if (!cost.product && !known.product && known.kind == cost.kind)
        kernel = &known;
    if (!kernel) {
      kernel = &layer.kernels.emplace_back();
      kernel->kind = cost.kind;
      kernel->count = 0;
      kernel->product = cost.product;
      kernel->channelsLast = cost.channelsLast;
    }
    kernel->count += cost.kernels;
    kernel->forwardFlops += Flops(cost.forwardFlops);
    kernel->backwardFlops += Flops(cost.backwardFlops);
    kernel->forwardBytes += Bytes(cost.forwardBytes);
    kernel->backwardBytes += Bytes(cost.backwardBytes);
    kernel->autocastForward += Bytes(cost.autocastForward);
    kernel->autocastBackward += Bytes(cost.autocastBackward);
  }

  /// Batch normalisation has the statistics of all replicas: of each channel they sum a mean and a
  /// mean square, and the number of values, in double precision; as much in the backward pass.
  void addInPassAllReduces(Layer &layer, const GraphNode &node) {
    if (node.op != "BatchNormalization" || node.inputs.size() < 2 || node.inputs[1] == noTensor)
      return;
    double channels = facts.elements(node.inputs[1]);
    ++layer.inPassAllReduces;
    layer.inPassAllReduceBytes += Bytes((2 * channels + 1) * sizeof(double));
  }

  /// Storage is kept once, by the first layer that keeps any view of it.
  void keep(Layer &layer, TensorId id) {
    TensorId storage = facts.storage[id];
    TensorRole role = graph.tensors[storage].role;
    if (kept[storage] || facts.weight[storage] || isStored(role))
      return;
    kept[storage] = true;
    layer.activationBytes += Bytes(facts.bytes(storage));
  }

  /// An operand that autocast casts is kept as the copy that it made, by each operator that casts
  /// it anew. An input of the model is there besides, as the samples of the micro-batch.
  void keepUnderAutocast(AutocastMemory &autocast, TensorId id, AutocastRule rule) {
    TensorId storage = facts.storage[id];
    if (facts.weight[storage] || isStored(graph.tensors[storage].role))
      return;
    bool isSingle = graph.tensors[storage].type == DataType::Float32;
    if (graph.tensors[storage].role == TensorRole::Input && !keptUnderAutocast[storage]) {
      keptUnderAutocast[storage] = true;
      autocast.activations += Bytes(facts.bytes(storage));
    }
    if (isSingle && rule == AutocastRule::Half && !facts.half[id]) {
      autocast.activations += Bytes(facts.bytes(storage) / 2);
      return;
    }
    if (isSingle && rule == AutocastRule::Single && facts.half[id]) {
      autocast.activations += Bytes(facts.bytes(storage));
      return;
    }
    if (keptUnderAutocast[storage])
      return;
    keptUnderAutocast[storage] = true;
    autocast.activations += Bytes(facts.autocastBytes(storage));
  }

  void addWeights(Layer &layer, const GraphNode &node, StringSet<> &listed) {
    for (TensorId id : node.inputs) {
      if (id == noTensor)
        continue;
      const GraphTensor &tensor = graph.tensors[id];
      bool parameter = tensor.role == TensorRole::Parameter;
      if (!isStored(tensor.role))
        continue;
      bool isNew = listed.insert(tensor.name).second;
      if (parameter && isNew)
        layer.parameters.push_back(tensor.name);
      if (tensor.role == TensorRole::Frozen) { // its layers may come to lie in several stages
        layer.bufferBytes += isNew ? Bytes(facts.bytes(id)) : Bytes();
        continue;
      }
      if (!counted.insert(tensor.name).second)
        continue;
      (parameter ? layer.parameterBytes : layer.bufferBytes) += Bytes(facts.bytes(id));
    }
  }

  void addTensors() {
    std::vector<std::vector<int>> users(graph.tensors.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (TensorId id : graph.nodes[i].inputs)
        if (flows(id) && layerOf[producer[id]] != layerOf[i])
          users[id].push_back(layerOf[i]);
    // The loss is computed from the first output, where the last layer is: it must get there.
    int last = static_cast<int>(result.layers.size()) - 1;
    for (TensorId id : ArrayRef<TensorId>(graph.outputs).take_front(1))
      if (producer[id] >= 0 && layerOf[producer[id]] != last)
        users[id].push_back(last);
    for (size_t id = 0; id < users.size(); ++id)
      if (!users[id].empty())
        addTensor(static_cast<TensorId>(id), std::move(users[id]));
  }

  void addTensor(TensorId id, std::vector<int> users) {
    const GraphTensor &source = graph.tensors[id];
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    LayerTensor tensor;
    tensor.name = source.name;
    tensor.producer = layerOf[producer[id]];
    tensor.consumers = std::move(users);
    double size = static_cast<double>(sizeOf(source.type));
    double none = std::max(0.0, elementCount(source.shape, 0));
    double one = std::max(none, elementCount(source.shape, 1));
    double two = elementCount(source.shape, 2);
    superlinear += two - one > one - none;
    tensor.bytesPerSample = Bytes((one - none) * size);
    tensor.fixedBytes = Bytes(none * size);
    tensor.differentiable = source.differentiable;
    tensor.type = source.type;
    tensor.shape = source.shape;
    result.tensors.push_back(std::move(tensor));
  }

  /// "'name' and 3 more": nodes or tensors of which a note speaks.
  static std::string named(const std::vector<std::string> &names) {
    return "'" + StringRef(names[0]).take_front(100).str() + "'" +
           (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "");
  }

  /// Notes on the assumptions of costs about loops, branches and shapes that depend on values.
  void addStructureNotes() {
    std::vector<std::string> branches, unknown, bounded, dynamic, opaque;
    eachNode(graph.nodes, [&](const GraphNode &node) {
      if (node.bodies.empty() && costOf(node, facts).opaque)
        opaque.push_back(node.domain + "." + node.op);
      if (node.op == "If")
        branches.push_back(node.name);
      else if (!node.bodies.empty() && !node.iterations)
        unknown.push_back(node.name);
      else if (node.iterations && node.iterations->bound)
        bounded.push_back(node.name);
      for (TensorId id : node.outputs)
        if (id != noTensor && graph.tensors[id].dynamic)
          dynamic.push_back(graph.tensors[id].name);
    });
    auto note = [&](const std::vector<std::string> &names, const char *text) {
      if (!names.empty())
        result.notes.push_back(named(names) + text);
    };
    note(branches, ": an If costs what its dearer branch does");
    note(unknown, ": the number of iterations is not known; one is assumed");
    note(bounded, ": the loop may end early; costs are those of all its iterations");
    note(dynamic,
         ": the shape depends on values; costs are those of its upper bound, or of the shape that "
         "the file declares");
    note(opaque, ": not a known operator; the costs of its layer can only come from a profile");
  }

  void addMixingNotes() {
    std::vector<std::string> normalising, others;
    for (int node : mixingNodes(samples))
      (graph.nodes[node].op == "BatchNormalization" ? normalising : others)
          .push_back(graph.nodes[node].name);
    if (!normalising.empty())
      result.notes.push_back(named(normalising) + ": batch normalisation uses the samples of a "
                                                  "micro-batch on all replicas");
    if (!others.empty())
      result.notes.push_back(named(others) + ": combines samples, so that the model cannot be "
                                             "planned unless --batch-dim none says that each run "
                                             "of it is one sample");
  }

  void addNotes() {
    result.notes = graph.guesses;
    append_range(result.notes, graph.notes);
    addMixingNotes();
    int listed = 0;
    for (const CoverageRow &row : coverage(graph))
      if (!row.costed && row.how != profileOnly && listed++ < mostNotes)
        result.notes.push_back("operator " + row.op + " (" + std::to_string(row.nodes) +
                               " nodes) has no formula of its own; it counts as cheap "
                               "elementwise work");
    if (listed > mostNotes)
      result.notes.push_back("and " + std::to_string(listed - mostNotes) + " more operators");
    if (merged)
      result.notes.push_back(std::to_string(merged) +
                             " layers are merged with the one before, since what flows between "
                             "them cannot be split by sample");
    addStructureNotes();
    if (superlinear)
      result.notes.push_back(std::to_string(superlinear) +
                             " tensors grow faster than the batch; their sizes are those at a "
                             "batch of one");
  }
};

} // namespace

Expected<LayerGraph> groupLayers(const Graph &graph) { return Grouper(graph).run(); }

std::vector<CoverageRow> coverage(const Graph &graph) {
  std::map<std::string, CoverageRow> rows;
  eachNode(graph.nodes, [&](const GraphNode &node) {
    std::string name = node.domain.empty() ? node.op : node.domain + "." + node.op;
    CoverageRow &row = rows[name];
    row.op = name;
    bool byBody = !node.bodies.empty();
    row.costed = byBody || hasFormula(node);
    row.how = byBody                 ? "sum of its body"
              : row.costed           ? "formula"
              : !node.domain.empty() ? profileOnly
                                     : "default elementwise";
    ++row.nodes;
  });
  std::vector<CoverageRow> result;
  result.reserve(rows.size());
  for (auto &[op, row] : rows)
    result.push_back(std::move(row));
  return result;
}

} // namespace heterplan
