#include "ir/FileForms.h"
#include "ir/FormParts.h"
#include "ir/JsonForm.h"

#include "heterplan.pb.h"

#include "support/Files.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
void writeKernel(const KernelWork &kernel, v1::KernelWork &form) {
  form.set_kind(nameOf(kernel.kind));
  form.set_count(kernel.count);
  form.set_forward_flops(kernel.forwardFlops.value());
  form.set_backward_flops(kernel.backwardFlops.value());
  form.set_forward_bytes(kernel.forwardBytes.value());
  form.set_backward_bytes(kernel.backwardBytes.value());
  form.set_autocast_forward(kernel.autocastForward.value());
  form.set_autocast_backward(kernel.autocastBackward.value());
  if (!kernel.product)
    return;
  form.set_rows(kernel.product.rows);
  form.set_columns(kernel.product.columns);
  form.set_depth(kernel.product.depth);
  form.set_groups(kernel.product.groups);
  if (kernel.channelsLast)
    form.set_channels_last(true);
}

KernelWork readKernel(const v1::KernelWork &form, const Twine &place, NameReader &names) {
  KernelWork kernel;
  kernel.kind = names.named<LayerKind>(form.kind(), layerKindCount, place + ".kind");
  kernel.count = form.count();
  kernel.forwardFlops = Flops(form.forward_flops());
  kernel.backwardFlops = Flops(form.backward_flops());
  kernel.forwardBytes = Bytes(form.forward_bytes());
  kernel.backwardBytes = Bytes(form.backward_bytes());
  kernel.autocastForward = Bytes(form.autocast_forward());
  kernel.autocastBackward = Bytes(form.autocast_backward());
  kernel.product = {form.rows(), form.columns(), form.depth(), form.rows() > 0 ? form.groups() : 1};
  kernel.channelsLast = form.channels_last();
  return kernel;
}

void writeCollective(const LayerCollective &each, v1::LayerCollective &form) {
  form.set_collective(nameOf(each.collective));
  if (each.backward)
    form.set_backward(true);
  form.set_count(double(each.count));
  form.set_bytes_per_sample(each.bytesPerSample.value());
  form.set_fixed_bytes(each.fixedBytes.value());
}

/// Writes figures into the form of a layer or of a shard, which have the same fields for them.
template <typename Form> void writeFigures(const LayerFigures &figures, Form &form) {
  form.set_signature(figures.signature);
  form.set_forward_flops(figures.forwardFlops.value());
  form.set_backward_flops(figures.backwardFlops.value());
  form.set_forward_bytes(figures.forwardBytes.value());
  form.set_backward_bytes(figures.backwardBytes.value());
  form.set_parameter_bytes(figures.parameterBytes.value());
  form.set_buffer_bytes(figures.bufferBytes.value());
  form.set_activation_bytes(figures.activationBytes.value());
  form.set_workspace_bytes(figures.workspaceBytes.value());
  if (figures.convolutionBytes > Bytes())
    form.set_convolution_bytes(figures.convolutionBytes.value());
  for (const KernelWork &kernel : figures.kernels)
    writeKernel(kernel, *form.add_kernels());
  if (figures.autocast) {
    form.set_autocast_activation_bytes(figures.autocast->activations.value());
    form.set_autocast_workspace_bytes(figures.autocast->workspace.value());
  }
}

void writeShard(const LayerShard &shard, v1::LayerShard &form) {
  form.set_degree(shard.degree);
  writeFigures(shard, form);
  for (const LayerCollective &each : shard.collectives)
    writeCollective(each, *form.add_collectives());
}

void writeLayer(const Layer &layer, v1::Layer &form) {
  form.set_name(layer.name);
  form.set_kind(nameOf(layer.kind));
  writeFigures(layer, form);
  for (const std::string &node : layer.nodes)
    form.add_nodes(node);
  for (const std::string &parameter : layer.parameters)
    form.add_parameters(parameter);
  for (const SparseTable &table : layer.tables) {
    v1::SparseTable &tableForm = *form.add_tables();
    tableForm.set_parameter(table.parameter);
    tableForm.set_rows(double(table.rows));
    tableForm.set_columns(double(table.columns));
    tableForm.set_type(nameOf(table.type));
    tableForm.set_lookups(double(table.lookups));
  }
  for (const LayerCollective &each : layer.shardCollectives)
    writeCollective(each, *form.add_shard_collectives());
  for (const LayerShard &shard : layer.shards)
    writeShard(shard, *form.add_shards());
  if (layer.continuesStage)
    form.set_continues_stage(true);
  if (layer.inPassAllReduces == 0)
    return;
  form.set_in_pass_all_reduces(double(layer.inPassAllReduces));
  form.set_in_pass_all_reduce_bytes(layer.inPassAllReduceBytes.value());
}

SparseTable readTable(const v1::SparseTable &form, const Twine &place, NameReader &names) {
  SparseTable table;
  table.parameter = form.parameter();
  table.rows = int64_t(form.rows());
  table.columns = int64_t(form.columns());
  table.lookups = int64_t(form.lookups());
  if (!form.type().empty())
    table.type = names.named<DataType>(form.type(), dataTypeCount, place + ".type");
  return table;
}

LayerCollective readCollective(const v1::LayerCollective &form, const Twine &place,
                               NameReader &names) {
  LayerCollective each;
  each.collective =
      names.named<ShardCollective>(form.collective(), shardCollectiveCount, place + ".collective");
  each.backward = form.backward();
  each.count = int64_t(form.count());
  each.bytesPerSample = Bytes(form.bytes_per_sample());
  each.fixedBytes = Bytes(form.fixed_bytes());
  return each;
}

/// The figures in the form of a layer or of a shard; `unsignedName` is the signature if it has
/// none.
template <typename Form>
LayerFigures readFigures(const Form &form, const std::string &unsignedName, const Twine &place,
                         NameReader &names) {
  LayerFigures figures;
  figures.signature = form.signature().empty() ? unsignedName : form.signature();
  figures.forwardFlops = Flops(form.forward_flops());
  figures.backwardFlops = Flops(form.backward_flops());
  figures.forwardBytes = Bytes(form.forward_bytes());
  figures.backwardBytes = Bytes(form.backward_bytes());
  figures.parameterBytes = Bytes(form.parameter_bytes());
  figures.bufferBytes = Bytes(form.buffer_bytes());
  figures.activationBytes = Bytes(form.activation_bytes());
  figures.workspaceBytes = Bytes(form.workspace_bytes());
  figures.convolutionBytes = Bytes(form.convolution_bytes());
  for (int i = 0; i < form.kernels_size(); ++i)
    figures.kernels.push_back(
        readKernel(form.kernels(i), place + ".kernels[" + Twine(i) + "]", names));
  if (form.has_autocast_activation_bytes() || form.has_autocast_workspace_bytes())
    figures.autocast = {Bytes(form.autocast_activation_bytes()),
                        Bytes(form.autocast_workspace_bytes())};
  return figures;
}

LayerShard readShard(const v1::LayerShard &form, const Layer &layer, const std::string &place,
                     NameReader &names) {
  const int degree = int(form.degree());
  LayerShard shard;
  static_cast<LayerFigures &>(shard) =
      readFigures(form, layer.signature + "/" + std::to_string(degree), place, names);
  shard.degree = degree;
  for (int i = 0; i < form.collectives_size(); ++i)
    shard.collectives.push_back(
        readCollective(form.collectives(i), place + ".collectives[" + Twine(i) + "]", names));
  return shard;
}

Layer readLayer(const v1::Layer &form, const std::string &place, NameReader &names) {
  Layer layer;
  layer.name = form.name();
  if (!form.kind().empty())
    layer.kind = names.named<LayerKind>(form.kind(), layerKindCount, place + ".kind");
  static_cast<LayerFigures &>(layer) = readFigures(form, form.name(), place, names);
  layer.nodes.assign(form.nodes().begin(), form.nodes().end());
  layer.parameters.assign(form.parameters().begin(), form.parameters().end());
  for (int i = 0; i < form.tables_size(); ++i)
    layer.tables.push_back(readTable(form.tables(i), place + ".tables[" + Twine(i) + "]", names));
  for (int i = 0; i < form.shard_collectives_size(); ++i)
    layer.shardCollectives.push_back(readCollective(
        form.shard_collectives(i), place + ".shardCollectives[" + Twine(i) + "]", names));
  for (int i = 0; i < form.shards_size(); ++i)
    layer.shards.push_back(
        readShard(form.shards(i), layer, (place + ".shards[" + Twine(i) + "]").str(), names));
  layer.continuesStage = form.continues_stage();
  layer.inPassAllReduces = int64_t(form.in_pass_all_reduces());
  layer.inPassAllReduceBytes = Bytes(form.in_pass_all_reduce_bytes());
  return layer;
}

void writeTensor(const LayerTensor &tensor, const LayerGraph &graph, v1::LayerTensor &form) {
  form.set_name(tensor.name);
  form.set_producer(graph.layers[tensor.producer].name);
  for (int consumer : tensor.consumers)
    form.add_consumers(graph.layers[consumer].name);
  form.set_bytes_per_sample(tensor.bytesPerSample.value());
  form.set_fixed_bytes(tensor.fixedBytes.value());
  form.set_differentiable(tensor.differentiable);
  form.set_type(nameOf(tensor.type));
  writeShape(tensor.shape, form);
}

/// Index of each layer by name; the first of two equal names, which verify() refuses.
using LayerIndex = StringMap<int>;

Expected<int> layerCalled(StringRef name, const LayerIndex &layers, const JsonSource &source,
                          const Twine &element) {
  auto match = layers.find(name);
  if (match != layers.end())
    return match->second;
  return Diagnostic(Diag::UnknownLayer, source.at(element))
         << "no layer is called '" << name << "'";
}

Expected<LayerTensor> readTensor(const v1::LayerTensor &form, const LayerIndex &layers,
                                 const JsonSource &source, const std::string &place,
                                 NameReader &names) {
  LayerTensor tensor;
  tensor.name = form.name();
  auto producer = layerCalled(form.producer(), layers, source, place + ".producer");
  if (!producer)
    return producer.takeError();
  tensor.producer = *producer;
  for (int i = 0; i < form.consumers_size(); ++i) {
    auto consumer =
        layerCalled(form.consumers(i), layers, source, place + ".consumers[" + Twine(i) + "]");
    if (!consumer)
      return consumer.takeError();
    tensor.consumers.push_back(*consumer);
  }
  std::sort(tensor.consumers.begin(), tensor.consumers.end());
  tensor.consumers.erase(std::unique(tensor.consumers.begin(), tensor.consumers.end()),
                         tensor.consumers.end());
  tensor.bytesPerSample = Bytes(form.bytes_per_sample());
  tensor.fixedBytes = Bytes(form.fixed_bytes());
  tensor.differentiable = !form.has_differentiable() || form.differentiable();
  if (!form.type().empty())
    tensor.type = names.named<DataType>(form.type(), dataTypeCount, place + ".type");
  tensor.shape = readShape(form);
  return tensor;
}
} // namespace

std::string toJson(const LayerGraph &graph) {
  v1::LayerGraph form;
  form.set_schema_version(schemaVersion);
  form.set_model(graph.model);
  form.set_fingerprint(graph.fingerprint);
  for (const Layer &layer : graph.layers)
    writeLayer(layer, *form.add_layers());
  for (const LayerTensor &tensor : graph.tensors)
    writeTensor(tensor, graph, *form.add_tensors());
  for (const std::string &note : graph.notes)
    form.add_notes(note);
  if (graph.shardDegree > 1)
    form.set_shard_degree(graph.shardDegree);
  return printMessage(form);
}

Expected<LayerGraph> parseLayerGraph(StringRef text, StringRef path) {
  JsonSource source{text, path};
  v1::LayerGraph form;
  if (Error error = parseMessage(source, form, "schemaVersion", /*versionOptional=*/true))
    return error;
  LayerGraph graph;
  NameReader names(source);
  LayerIndex layers;
  graph.model = form.model();
  graph.fingerprint = form.fingerprint().empty() ? sha256(text) : form.fingerprint();
  for (int i = 0; i < form.layers_size(); ++i) {
    graph.layers.push_back(readLayer(form.layers(i), ("layers[" + Twine(i) + "]").str(), names));
    layers.try_emplace(graph.layers.back().name, i);
  }
  for (int i = 0; i < form.tensors_size(); ++i) {
    auto tensor =
        readTensor(form.tensors(i), layers, source, ("tensors[" + Twine(i) + "]").str(), names);
    if (!tensor)
      return tensor.takeError();
    graph.tensors.push_back(std::move(*tensor));
  }
  if (form.has_shard_degree())
    graph.shardDegree = int(form.shard_degree());
  for (Layer &layer : graph.layers)
    layer.shardDegree = graph.shardDegree;
  graph.notes.assign(form.notes().begin(), form.notes().end());
  if (Error error = names.take())
    return error;
  sortTopologically(graph);
  if (Error error = graph.verify())
    return source.located(std::move(error));
  return graph;
}

Expected<LayerGraph> readLayerGraph(StringRef path) {
  auto text = readFile(path, largestJson);
  return text ? parseLayerGraph(*text, path) : text.takeError();
}

} // namespace heterplan
