// The branches of a model: a tree of series and parallel blocks over the layers of a LayerGraph,
// with what flows at each place where a block can be cut. Inception's branches, DLRM's towers and
// the three projections of an attention are parallel blocks; a residual connection only makes a cut
// wider.
#pragma once

#include "ir/LayerGraph.h"

#include <vector>

namespace heterplan {

/// Tensors that cross a border, each counted once however many layers use it.
struct Flow {
  int tensors = 0;
  Bytes forward{};  // per sample
  Bytes backward{}; // per sample; gradients of the differentiable ones
  Bytes fixed{};    // per micro-batch
  bool operator==(const Flow &) const = default;
};

struct Block {
  enum class Kind {
    Layer,    // one layer
    Series,   // each layer of a child depends on each layer of the children before
    Parallel, // no layer of a child depends on a layer of another
    General,  // neither: layers in topological order; a prefix of them is cut off by an antichain
  };
  Kind kind = Kind::Layer;
  int layer = -1; // index, of a Layer
  std::vector<Block> children;
  int layers = 1; // in all

  Flow inputs;  // made outside and used inside
  Flow outputs; // made inside and used outside
  /// Only for Series and General. The cut behind child i has all tensors that children up to i make
  /// and that later layers use, inside or outside. Cuts of parallel children have no tensor in
  /// common: a cut through all of them is their sum, plus once the tensors of `passing` of the
  /// block around them.
  std::vector<Flow> cuts;
  /// Behind child i, what comes from before the block and later children use.
  std::vector<Flow> passing;
};

/// The tree of `graph`, which has layers and whose tensors flow forward (LayerGraph::verify).
/// Blocks nested deeper than `deepest` are General. O(deepest · (layers + uses of tensors)).
Block decompose(const LayerGraph &graph, int deepest = 48);

/// Checks that `block` holds each layer of `graph` once, and that each block is of its kind; meant
/// for tests, its time is quadratic in the worst case.
llvm::Error verify(const Block &block, const LayerGraph &graph);

/// The flow across each position 0..size(), as LayerGraph::cuts has it, without the lists of
/// tensors: in O(layers + uses of tensors).
std::vector<Flow> cutFlows(const LayerGraph &graph);

const char *nameOf(Block::Kind kind); // "layer", "series", ...

} // namespace heterplan
