#include "ir/onnx/batch/BatchLayout.h"

#include "ir/onnx/batch/SampleNumbers.h"
#include "ir/onnx/batch/SampleRules.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

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
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == noTensor)
        continue;
      SampleLayout &made = layout(node.outputs[i]);
      made.content =
          node.op == "Range" || node.op == "EyeLike" ? SampleLayout::Numbers : SampleLayout::Equal;
      if (made.kind == SampleLayout::Split && node.op == "Range")
        made.step = stepOfRange({graph, node, result.layouts, i});
    }
  }

  /// Whether equal rows become rows that differ: their sums.
  static bool counts(const GraphNode &node) {
    return node.domain.empty() && (node.op == "CumSum" || node.op == "CumProd");
  }

  void visitOutput(const GraphNode &node, size_t output, bool inBody) {
    SampleLayout &made = layout(node.outputs[output]);
    made.content = SampleLayout::Equal;
    for (TensorId id : node.inputs)
      if (id != noTensor && layout(id).kind != SampleLayout::Shared)
        made.content = std::min(made.content, layout(id).content);
    if (made.kind == SampleLayout::Shared)
      return;
    SampleNode rows = {graph, node, result.layouts, output};
    SampleResult effect = applySampleRule(rows);
    if (made.kind == SampleLayout::Torn)
      effect = {SampleEffect::Unknown, 0, "gives a result of more rows than those of the samples"};
    made.runs = effect.runs;
    if (effect.effect == SampleEffect::Each && made.runs)
      followNumbers(rows, made);
    if (effect.effect != SampleEffect::Each && made.content == SampleLayout::Equal)
      made.content = counts(node) ? SampleLayout::Numbers : SampleLayout::Equal;
    else if (effect.effect != SampleEffect::Each)
      find(node, inBody, effect.effect == SampleEffect::Mixes, effect.why, effect.ruled);
    else if (computesWithNumbers(rows, made))
      find(node, inBody, true, "computes with the number of a sample among all samples");
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

bool SampleLayout::indexes(size_t number, size_t count, int64_t rows) const {
  if (columns.empty())
    return step == rows && count == 1;
  if (columns.size() != count)
    return false;
  for (size_t i = 0; i < count; ++i)
    if (columns[i] != (i == number ? rows : 0))
      return false;
  return true;
}

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
