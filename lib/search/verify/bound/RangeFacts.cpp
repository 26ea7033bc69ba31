#include "search/verify/bound/RangeFacts.h"

#include <algorithm>

namespace heterplan {

RangeTable::RangeTable(const LayerGraph &graph, std::vector<int> positions, bool countsSums)
    : graph(graph), countsSums(countsSums), cuts(std::move(positions)),
      tied(graph.tiedParameters()) {
  const std::vector<Cut> all = graph.cuts();
  const std::vector<bool> mayPart = graph.allowedCuts(); // a stage, or a segment of one
  for (int position : cuts)
    crossings.push_back(all[size_t(position)]);
  for (int begin = 0; begin + 1 < count(); ++begin) {
    std::vector<RangeFacts> &row = rows.emplace_back();
    RangeFacts facts;
    Bytes through{}, most{}; // activations, and with the workspace of the last layer
    Bytes unit{};
    for (int end = begin + 1; end < count(); ++end) {
      for (int layer = layerAt(end - 1); layer < layerAt(end); ++layer) {
        if (mayPart[size_t(layer)])
          unit = Bytes();
        addLayer(layer, facts, unit);
        through += graph.layers[size_t(layer)].activationBytes;
        most = std::max(most, through + graph.layers[size_t(layer)].workspaceBytes);
      }
      facts.workspaceLast = std::max(through, most) - through;
      row.push_back(facts);
      addTied(layerAt(begin), layerAt(end), row.back());
    }
  }
}

void RangeTable::addLayer(int index, RangeFacts &facts, Bytes &unit) const {
  const Layer &layer = graph.layers[size_t(index)];
  Bytes dense = layer.parameterBytes;
  for (const SparseTable &table : layer.tables) {
    dense -= table.bytes();
    facts.lookups += {double(table.lookups), table.lookupBytes()};
  }
  facts.dense += dense;
  facts.gathered += dense;
  facts.gathers += dense > Bytes(0);
  facts.largestDense = std::max(facts.largestDense, dense);
  if (countsSums) {
    facts.sums += layer.inPassAllReduces;
    facts.summed += layer.inPassAllReduceBytes;
  }
  facts.buffers += layer.bufferBytes;
  facts.activations += layer.activationBytes;
  unit += layer.activationBytes;
  facts.largestUnit = std::max(facts.largestUnit, unit);
  facts.workspace = std::max(facts.workspace, layer.workspaceBytes);
  facts.convolution = std::max(facts.convolution, layer.convolutionBytes);
}

/// A stage holds a copy of a tied parameter that counts in a layer before it. The first layer of a
/// parameter that other stages use is not gathered.
void RangeTable::addTied(int begin, int end, RangeFacts &facts) const {
  facts.largestGathered = facts.largestDense;
  for (const TiedParameter &each : tied) {
    const int first = each.layers.front();
    bool isInside = false, isOutside = false;
    for (int layer : each.layers)
      (layer >= begin && layer < end ? isInside : isOutside) = true;
    if (!isInside || !isOutside)
      continue;
    facts.tiedOutside += each.bytes;
    facts.largestGathered = Bytes(0); // at least
    if (first < begin)
      facts.dense += each.bytes;
    else {
      const Bytes own = graph.layers[size_t(first)].denseBytes();
      facts.gathered = std::max(Bytes(0), facts.gathered - own);
      facts.gathers = std::max<int64_t>(0, facts.gathers - 1);
    }
  }
}

} // namespace heterplan
