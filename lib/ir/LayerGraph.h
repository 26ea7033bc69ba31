// The unit of placement. A layer is one heavy operator with the cheap ones that ride on it; it
// knows what it costs per sample, not how long that takes anywhere. Layers are numbered in
// topological order; a stage of a plan is a contiguous run of them.
#pragma once

#include "ir/ExecutionMode.h"
#include "ir/Graph.h"
#include "ir/LayerOrder.h"
#include "ir/sharding/ShardCollective.h"
#include "support/Diagnostic.h"
#include "support/Units.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// One enumerator for each line of Layers.def. Search and cost ask a layer for facts; only the
/// tables (efficiency of the roofline, operators of the importer) look at the kind.
enum class LayerKind : int {
#define HETERPLAN_LAYER_KIND(enumerator, name, help) enumerator,
#include "ir/Layers.def"
};
constexpr int layerKindCount = 0
#define HETERPLAN_LAYER_KIND(enumerator, name, help) +1
#include "ir/Layers.def"
    ;
const char *nameOf(LayerKind kind);
/// The kind called `name`, or an error that lists the accepted names.
llvm::Expected<LayerKind> layerKind(llvm::StringRef name, const Location &location);

/// A trained table of which a sample reads a few rows only, so that its gradient is sparse. Such a
/// table is never all-reduced: the replicas of a stage each hold a part of its rows and exchange
/// those that their samples look up.
struct SparseTable {
  std::string parameter; // one of Layer::parameters
  int64_t rows = 0, columns = 0;
  DataType type = DataType::Float32;
  int64_t lookups = 0; // rows that one sample reads, repeated ones included
  bool operator==(const SparseTable &) const = default;

  Bytes rowBytes() const { return Bytes(double(columns * sizeOf(type))); }
  Bytes bytes() const { return rowBytes() * double(rows); }
  /// Bytes of the rows that one sample reads, and of their gradients.
  Bytes lookupBytes() const { return rowBytes() * double(lookups); }
};

/// Rows of sparse tables that are read, repeated ones included.
struct TableRows {
  double count = 0;
  Bytes bytes{};

  TableRows &operator+=(const TableRows &other) {
    count += other.count;
    bytes += other.bytes;
    return *this;
  }
  TableRows operator-(const TableRows &other) const {
    return {count - other.count, bytes - other.bytes};
  }
  TableRows operator*(double times) const { return {count * times, bytes * times}; }
};

/// The size of a matrix product, or of the product that a convolution is: `groups` independent ones
/// of [rows, depth] with [depth, columns]. A sample has `rows` rows, or `groups` products where the
/// kind is BatchedMatMul.
struct ProductShape {
  double rows = 0, columns = 0, depth = 0, groups = 1;
  bool operator==(const ProductShape &) const = default;

  explicit operator bool() const { return rows > 0 && columns > 0 && depth > 0; }
};

/// Kernels of one kind in a layer: those of one product, or of all operators of another kind. Work
/// is that of one sample.
struct KernelWork {
  LayerKind kind = LayerKind::Opaque;
  double count = 1; // of operators
  Flops forwardFlops{}, backwardFlops{};
  Bytes forwardBytes{}, backwardBytes{};       // activations read and written, in fp32
  Bytes autocastForward{}, autocastBackward{}; // those under autocast, casts included
  ProductShape product{};                      // of a product
  /// The images of a convolution lie channels last, whatever the format of the plan.
  bool channelsLast = false;
  bool operator==(const KernelWork &) const = default;
};

/// Memory of a layer per sample if autocast computes in 16 bits: kept activations and workspace.
struct AutocastMemory {
  Bytes activations{}, workspace{};
  bool operator==(const AutocastMemory &) const = default;
};

/// The figures of a layer: those of one device that computes and holds it, or its part of it.
struct LayerFigures {
  /// Layers with equal signatures cost the same on every device; never empty.
  std::string signature;
  Flops forwardFlops{};    // per sample
  Flops backwardFlops{};   // per sample
  Bytes forwardBytes{};    // activations read and written per sample; parameters not counted
  Bytes backwardBytes{};   // likewise
  Bytes parameterBytes{};  // trained, sparse tables included; a tied one counts in its first layer
  Bytes bufferBytes{};     // not trained (running statistics, constants)
  Bytes activationBytes{}; // kept from forward to backward, per sample
  Bytes workspaceBytes{};  // gradients under way and scratch of its kernels, per sample
  /// Activations that its largest convolution with stride 1 and a filter of more than one element
  /// reads and writes in fp32, per sample: kernels may transform copies of them (Winograd, FFT).
  Bytes convolutionBytes{};
  /// The kernels of its operators; empty in hand-written files: one of the layer's kind.
  std::vector<KernelWork> kernels;
  std::optional<AutocastMemory> autocast; // absent: as in fp32
  bool operator==(const LayerFigures &) const = default;
};

/// The figures of a layer on one of `degree` devices that share it. All else is as in the layer.
struct LayerShard : LayerFigures {
  int degree = 2;
  std::vector<LayerCollective> collectives;
  bool operator==(const LayerShard &) const = default;
};

struct Layer : LayerFigures {
  std::string name;
  LayerKind kind = LayerKind::Opaque;
  std::vector<std::string> nodes; // of the Graph, in order
  /// Names of the trained parameters; a name that two layers share is one tied parameter.
  std::vector<std::string> parameters;
  /// The sparse ones among them; one that several layers use is listed in the first, with the
  /// lookups of all.
  std::vector<SparseTable> tables;
  /// In-pass all-reduces of the replicas of a stage, forward and backward alike, such as the
  /// statistics of batch normalisation: their number, one after another, and their bytes together.
  int64_t inPassAllReduces = 0;
  Bytes inPassAllReduceBytes{};
  /// Among the devices that share the layer (LayerGraph::shardDegree).
  std::vector<LayerCollective> shardCollectives;
  /// Its figures by the number of devices that share it, ascending.
  std::vector<LayerShard> shards;
  /// No stage begins with it: at some degree, devices have slices of what flows to it.
  bool continuesStage = false;
  int shardDegree = 1; // as in the graph
  bool operator==(const Layer &) const = default;

  Bytes tableBytes() const;
  /// Bytes of the parameters that every replica holds in full.
  Bytes denseBytes() const;
  /// Rows of `tables` that one sample reads.
  TableRows lookups() const;
  Bytes lookupBytes() const { return lookups().bytes; }
};

/// Most devices that share a layer.
constexpr int mostShards = 1024;

/// A value that flows from one layer to others. Graph inputs are not listed: every stage can read
/// them from the data loader.
struct LayerTensor {
  std::string name;
  int producer = 0;
  std::vector<int> consumers; // ascending, after the producer
  Bytes bytesPerSample{};
  Bytes fixedBytes{}; // of a tensor that does not grow with the batch
  /// Whether a gradient of the same size flows back.
  bool differentiable = true;
  DataType type = DataType::Float32;
  Shape shape; // empty in hand-written files
  bool operator==(const LayerTensor &) const = default;
};

/// The tensors that cross a cut: everything produced before layer `position` and used at or after
/// it, each tensor once.
struct Cut {
  int position = 0;
  Bytes forwardBytes{};       // per sample
  Bytes backwardBytes{};      // per sample; gradients of the differentiable ones
  Bytes fixedBytes{};         // per micro-batch
  Bytes fixedGradientBytes{}; // per micro-batch; gradients of the differentiable ones of those
  std::vector<int> tensors;   // indices into LayerGraph::tensors

  /// Adds tensor `index` of a graph.
  void add(int index, const LayerTensor &tensor);
};

/// A dense parameter that several layers use. Each stage that has some of these layers holds a
/// copy, and the stages sum the gradients of their copies once an iteration.
struct TiedParameter {
  std::string name;
  std::vector<int> layers; // ascending
  Bytes bytes{};           // of it; where its first layer has others too, of all of them at most
};

struct LayerGraph {
  std::string model;       // name
  std::string fingerprint; // of the file it was read from, hex SHA-256
  std::vector<Layer> layers;
  std::vector<LayerTensor> tensors;
  std::vector<std::string> notes; // what the importer had to assume
  /// Devices that share every layer (tensor parallelism): figures are those of one of them.
  int shardDegree = 1;
  ModelDivision division; // of a model; of a layers file nothing is known
  LayerOrder order = LayerOrder::Given;

  bool operator==(const LayerGraph &) const = default;
  int size() const { return static_cast<int>(layers.size()); }

  /// Checks names (unique, not empty), sizes (finite, not negative; tables no larger than the
  /// parameters), that tensors flow forward.
  llvm::Error verify() const;
  /// All cuts, at positions 0..size(); the first and the last carry nothing. O(layers·live
  /// tensors).
  std::vector<Cut> cuts() const;
  /// The numbers of devices that may share a layer: shardDegree, and those of Layer::shards. They
  /// are the same in all layers, ascending, and each divides the next.
  std::vector<int> degrees() const;
  /// The layers of one of `degree` devices, one of degrees(), without Layer::shards.
  LayerGraph ofDegree(int degree) const;
  /// Index of the layer called `name`, or -1.
  int find(llvm::StringRef name) const;
  /// Position p may be a stage boundary unless its layer continues a stage, or a sparse table has
  /// users on both sides: its rows lie spread over the replicas of one stage.
  std::vector<bool> allowedCuts() const;
  /// In the order of their first layers.
  std::vector<TiedParameter> tiedParameters() const;
};

/// Numbers the layers so that tensors flow forward, keeping the given order where it can. A graph
/// with a cycle is left as it is: `verify` then names a tensor of it.
void sortTopologically(LayerGraph &graph);

/// `graph` where autocast computes in 16 bits: with the activations and the workspace of that.
LayerGraph underAutocast(LayerGraph graph);

Bytes totalParameterBytes(const LayerGraph &graph); // a tied one is part of its first layer only
Flops totalForwardFlops(const LayerGraph &graph);   // per sample

} // namespace heterplan
