// The effect of each operator on the samples of a batch: one table of rules. A rule serves all
// operators that compute along their axes in the same way.
#pragma once

#include "ir/onnx/batch/BatchLayout.h"

#include "llvm/ADT/ArrayRef.h"

namespace heterplan {

enum class SampleEffect {
  Each,    // the result of a sample depends on that sample alone, in the same way for all
  Unknown, // or it may not
  Mixes
};

struct SampleResult {
  SampleEffect effect = SampleEffect::Each;
  int64_t runs = 1; // of the result; see SampleLayout
  const char *why = "";
  bool ruled = true; // otherwise nothing is known of the operator
};

/// A node of which operand and result `output` grow with the batch.
struct SampleNode {
  const Graph &graph;
  const GraphNode &node;
  llvm::ArrayRef<SampleLayout> layouts; // by tensor; of operands they are final
  size_t output;

  size_t count() const { return node.inputs.size(); }
  bool has(size_t input) const { return input < count() && node.inputs[input] != noTensor; }
  /// Shared where it is left out.
  SampleLayout in(size_t input) const {
    return has(input) ? layouts[node.inputs[input]] : SampleLayout();
  }
  bool grows(size_t input) const { return in(input).kind != SampleLayout::Shared; }
  const Shape &shape(size_t input) const { return graph.tensors[node.inputs[input]].shape; }
  int rank(size_t input) const { return has(input) ? static_cast<int>(shape(input).size()) : 0; }
  /// Elements a sample along the axis that grows.
  int64_t perSample(size_t input) const { return shape(input)[in(input).axis].perSample; }

  const Shape &result() const { return graph.tensors[node.outputs[output]].shape; }
  int axis() const { return layouts[node.outputs[output]].axis; }
  int64_t perSample() const { return result()[axis()].perSample; }
};

/// The rule of its operator; Unknown where there is none, or where an operand is torn.
SampleResult applySampleRule(const SampleNode &node);

/// Whether the Loop, Scan or SequenceMap `node` runs its body for one sample after another.
bool walksAlongSamples(const GraphNode &node, llvm::ArrayRef<SampleLayout> layouts);

} // namespace heterplan
