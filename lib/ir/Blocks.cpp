#include "ir/Blocks.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
/// By layer: the number of its signature.
std::vector<int> signatureNumbers(const LayerGraph &graph) {
  StringMap<int> numbers;
  std::vector<int> result;
  for (const Layer &layer : graph.layers)
    result.push_back(
        numbers.try_emplace(layer.signature, static_cast<int>(numbers.size())).first->second);
  return result;
}
} // namespace

std::vector<RepeatedBlock> repeatedBlocks(const LayerGraph &graph) {
  std::vector<int> number = signatureNumbers(graph);
  int size = graph.size();
  std::vector<RepeatedBlock> best(size); // by first layer
  std::vector<int> equal(size + 1);      // layers from here on that equal the one a block further
  for (int period = 1; period <= std::min(longestBlock, size / 2); ++period) {
    std::fill(equal.begin(), equal.end(), 0);
    for (int i = size - period; i-- > 0;) {
      equal[i] = number[i] == number[i + period] ? equal[i + 1] + 1 : 0;
      int count = 1 + equal[i] / period;
      if (count > 1 && count * period > best[i].count * best[i].layers)
        best[i] = {i, period, count};
    }
  }
  std::vector<RepeatedBlock> result;
  for (int i = 0; i < size;) {
    if (best[i].count)
      result.push_back(best[i]);
    i += std::max(1, best[i].count * best[i].layers);
  }
  return result;
}

} // namespace heterplan
