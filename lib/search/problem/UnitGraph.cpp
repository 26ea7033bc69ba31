#include "search/problem/UnitGraph.h"

#include "ir/LayerOrder.h"
#include "search/problem/Cuts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

UnitGraph::UnitGraph(const Problem &problem, ArrayRef<double> work) {
  const LayerGraph &graph = problem.graph;
  const std::vector<bool> allowed = allowedCuts(problem);
  for (int layer = 0; layer < graph.size(); ++layer) {
    if (layer == 0 || allowed[layer])
      units.emplace_back().begin = layer;
    units.back().end = layer + 1;
    units.back().work += work[layer];
    unitOf.push_back(size() - 1);
  }
  for (const LayerTensor &tensor : graph.tensors)
    add(tensor);
  for (auto [first, second] : fixedPairs(graph))
    order(unitOf[first], unitOf[second]);
  for (Unit &unit : units)
    for (std::vector<int> *list : {&unit.sources, &unit.before, &unit.after}) {
      sort(*list);
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
}

bool UnitGraph::isChain() const {
  for (int unit = 1; unit < size(); ++unit)
    if (!is_contained(units[unit].before, unit - 1))
      return false;
  return true;
}

double UnitGraph::widthMade(int unit) const {
  double bytes = 0;
  for (int flow : units[unit].makes)
    bytes += flows[flow].bytes;
  return bytes;
}

void UnitGraph::order(int first, int second) {
  if (first == second)
    return;
  units[first].after.push_back(second);
  units[second].before.push_back(first);
}

void UnitGraph::add(const LayerTensor &tensor) {
  const int producer = unitOf[tensor.producer];
  const double directions = tensor.differentiable ? 2 : 1;
  UnitFlow flow{producer, directions * (tensor.bytesPerSample + tensor.fixedBytes).value(), {}};
  for (int consumer : tensor.consumers) {
    const int unit = unitOf[consumer];
    if (unit != producer && (flow.consumers.empty() || flow.consumers.back() != unit))
      flow.consumers.push_back(unit);
  }
  if (flow.consumers.empty())
    return;
  const int index = static_cast<int>(flows.size());
  units[producer].makes.push_back(index);
  for (int consumer : flow.consumers) {
    units[consumer].reads.push_back(index);
    units[consumer].sources.push_back(producer);
    order(producer, consumer);
  }
  flows.push_back(std::move(flow));
}

} // namespace heterplan
