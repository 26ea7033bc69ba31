#include "codegen/LookupIndices.h"

#include "codegen/NodeEmitter.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace llvm;

namespace heterplan {
namespace {
/// The nodes that the indices depend on, in topological order.
std::set<int> nodesBehind(const Graph &graph, const GraphUse &use, ArrayRef<TableLookup> lookups) {
  std::set<int> nodes;
  std::vector<TensorId> open;
  for (const TableLookup &lookup : lookups)
    open.push_back(lookup.indices);
  while (!open.empty()) {
    TensorId tensor = open.back();
    open.pop_back();
    int producer = tensor == noTensor ? -1 : use.producers[tensor];
    if (producer >= 0 && nodes.insert(producer).second)
      llvm::append_range(open, graph.nodes[producer].inputs);
  }
  return nodes;
}
} // namespace

Expected<LookupIndices> lookupIndices(const Graph &graph, const GraphUse &use,
                                      ArrayRef<TensorId> inputs, ArrayRef<TableLookup> lookups) {
  Scope scope(graph, use);
  for (TensorId input : inputs)
    scope.addArgument(input);
  for (int node : nodesBehind(graph, use, lookups))
    if (Error error = emitNode(scope, graph.nodes[node]))
      return error;
  LookupIndices result;
  for (const TableLookup &lookup : lookups)
    result.expressions.push_back(scope.expression(lookup.indices));
  bool reads = !scope.parameters.empty() || !scope.frozen.empty() || !scope.buffers.empty() ||
               !scope.constants.empty();
  result.body = (reads ? "        p = self.tensor\n" : "") + scope.firstStatements() + scope.body;
  result.usesHelpers = scope.usesHelpers;
  return result;
}

} // namespace heterplan
