#include "ir/onnx/batch/MixedSamples.h"

#include "ir/onnx/batch/BatchLayout.h"
#include "support/Diagnostic.h"

using namespace llvm;

namespace heterplan {

Error checkSamplesApart(const Graph &graph, StringRef path) {
  for (const SampleFinding &finding : analyseSamples(graph).findings) {
    const GraphNode &node = graph.nodes[finding.node];
    if ((!finding.mixes && !finding.ruled) || node.op == "BatchNormalization")
      continue;
    const std::string &name = finding.inside.empty() ? node.name : finding.inside;
    return Diagnostic(Diag::NotSupported, {path.str(), 0, 0, name})
               .note({},
                     "if a step is one run of the model (say, one graph): --batch-dim none; it is "
                     "computed whole on one replica, and --batch counts such runs")
               .note({}, "if another axis counts samples: --batch-dim says which")
           << "operator " << node.op << " " << finding.why
           << ", so that replicas with a part of the batch " << (finding.mixes ? "would" : "may")
           << " train something else";
  }
  return Error::success();
}

} // namespace heterplan
