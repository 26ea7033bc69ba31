#include "ir/onnx/batch/BatchLayout.h"

#include "ir/onnx/batch/SampleRules.h"
#include "ir/onnx/fold/FoldingSupport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <optional>

using namespace llvm;

namespace heterplan {

namespace {

SampleLayout layoutOf(ArrayRef<Dim> shape) {
  SampleLayout result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].perSample)
      continue;
    bool torn = result.kind != SampleLayout::Shared || shape[i].fixed;
    result.kind = torn ? SampleLayout::Torn : SampleLayout::Split;
    result.axis = static_cast<int>(i);
    result.runs = torn ? 0 : 1;
  }
  return result;
}

class Analyser {
public:
  explicit Analyser(const Graph &graph) : graph(graph) {
    for (const GraphTensor &tensor : graph.tensors)
      result.layouts.push_back(layoutOf(tensor.shape));
  }

  SampleAnalysis run() {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      outermost = static_cast<int>(i);
      visit(graph.nodes[i], false);
    }
    return std::move(result);
  }

private:
  const Graph &graph;
  SampleAnalysis result;
  int outermost = 0;

  SampleLayout &layout(TensorId id) { return result.layouts[id]; }

  bool reads(const GraphNode &node, SampleLayout::Content least) {
    return any_of(node.inputs, [&](TensorId id) {
      return id != noTensor && layout(id).kind != SampleLayout::Shared &&
             layout(id).content <= least;
    });
  }

  bool writes(const GraphNode &node) {
    return any_of(node.outputs, [&](TensorId id) {
      return id != noTensor && layout(id).kind != SampleLayout::Shared;
    });
  }

  void find(const GraphNode &node, bool inBody, bool mixes, const char *why, bool ruled = true) {
    if (!result.findings.empty() && result.findings.back().node == outermost) {
      result.findings.back().mixes |= mixes;
      return;
    }
    result.findings.push_back({outermost, inBody ? node.name : "", mixes, ruled, why});
  }

  void visit(const GraphNode &node, bool inBody) {
    static const StringSet<> shapesOnly = {"Shape", "Size", "SequenceLength", "OptionalHasElement"};
    if (!node.bodies.empty())
      return visitBodies(node, inBody);
    if (node.domain.empty() && shapesOnly.count(node.op))
      return;
    if (!reads(node, SampleLayout::Equal))
      return makeRows(node);
    if (!writes(node)) {
      if (reads(node, SampleLayout::Numbers))
        find(node, inBody, true, "reads all samples together and gives nothing for each");
      return;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != noTensor)
        visitOutput(node, i, inBody);
  }

  /// Rows for each sample that are made of no sample: zeros, random numbers, or the samples
  /// counted.
  void makeRows(const GraphNode &node) {
    for (TensorId id : node.outputs)
      if (id != noTensor)
        layout(id).content = node.op == "Range" || node.op == "EyeLike" ? SampleLayout::Numbers
                                                                        : SampleLayout::Equal;
    if (node.op == "Range" && node.inputs.size() == 3 && numberOf(node.inputs[0]) == 0 &&
        numberOf(node.inputs[2]) == 1)
      layout(node.outputs[0]).step = 1;
  }

  /// The only element of an integer that is known at import.
  std::optional<int64_t> numberOf(TensorId id) const {
    if (id == noTensor)
      return std::nullopt;
    const GraphTensor &tensor = graph.tensors[id];
    if (tensor.role == TensorRole::Size && tensor.sizes.size() == 1 && !tensor.sizes[0].perSample)
      return tensor.sizes[0].fixed;
    if (tensor.role != TensorRole::Constant || !tensor.data ||
        !folding::isInteger(tensor.data->type))
      return std::nullopt;
    std::vector<int64_t> values = folding::integersOf(*tensor.data);
    return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
  }

  /// See SampleLayout::step; numbers of rows of all samples together are i·rows + row.
  int64_t stepOf(const GraphNode &node) {
    static const StringSet<> handsOn = {"Cast", "Identity", "Unsqueeze", "Squeeze"};
    if (node.inputs.empty() || node.inputs[0] == noTensor)
      return 0;
    if (handsOn.count(node.op))
      return layout(node.inputs[0]).step;
    if ((node.op != "Mul" && node.op != "Add") || node.inputs.size() != 2)
      return 0;
    int counting = layout(node.inputs[0]).step ? 0 : 1;
    const SampleLayout &other = layout(node.inputs[1 - counting]);
    int64_t step = layout(node.inputs[counting]).step;
    auto number = numberOf(node.inputs[1 - counting]);
    if (node.op == "Add") {
      bool isRow = number ? *number >= 0 && *number < step : other.kind == SampleLayout::Split;
      return isRow && step > 1 && !other.step ? step : 0;
    }
    return number && *number > 0 && *number < int64_t(1) << 30 ? step * *number : 0;
  }

  void visitOutput(const GraphNode &node, size_t output, bool inBody) {
    SampleLayout &made = layout(node.outputs[output]);
    made.content = SampleLayout::Equal;
    for (TensorId id : node.inputs)
      if (id != noTensor && layout(id).kind != SampleLayout::Shared)
        made.content = std::min(made.content, layout(id).content);
    if (made.kind == SampleLayout::Shared)
      return;
    made.step = stepOf(node);
    SampleResult effect = applySampleRule({graph, node, result.layouts, output});
    if (made.kind == SampleLayout::Torn)
      effect = {SampleEffect::Unknown, 0, "gives a result of more rows than those of the samples"};
    made.runs = effect.runs;
    if (effect.effect != SampleEffect::Each && made.content != SampleLayout::Equal)
      find(node, inBody, effect.effect == SampleEffect::Mixes, effect.why, effect.ruled);
  }

  void visitBodies(const GraphNode &node, bool inBody) {
    if (reads(node, SampleLayout::Numbers)) {
      if (!node.outputs.empty() && !writes(node))
        find(node, inBody, true, "reads all samples together and gives nothing for each");
      if (walksAlongSamples(node, result.layouts))
        find(node, inBody, true, "goes from sample to sample");
    }
    for (const GraphBody &body : node.bodies)
      for (const GraphNode &inner : body.nodes)
        visit(inner, true);
  }
};

} // namespace

SampleAnalysis analyseSamples(const Graph &graph) { return Analyser(graph).run(); }

std::vector<int> mixingNodes(const SampleAnalysis &analysis) {
  std::vector<int> result;
  for (const SampleFinding &finding : analysis.findings)
    if (finding.mixes)
      result.push_back(finding.node);
  return result;
}

std::vector<bool> splitsBySample(const SampleAnalysis &analysis) {
  std::vector<bool> result;
  for (const SampleLayout &layout : analysis.layouts)
    result.push_back(layout.kind == SampleLayout::Shared ||
                     (layout.kind == SampleLayout::Split && layout.runs == 1));
  return result;
}

} // namespace heterplan
