#include "ir/RankGroup.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace llvm;

namespace heterplan {

RankGroup::RankGroup(ArrayRef<int> ranks) {
  for (int rank : ranks)
    add(rank);
}

void RankGroup::add(int rank) {
  if (!found.empty()) {
    RankRange &last = found.back();
    if (last.count == 1 && rank > last.first)
      last.stride = rank - last.first;
    if (rank == last.last() + last.stride) {
      ++last.count;
      return;
    }
  }
  found.push_back({rank, 1, 1});
}

void RankGroup::add(RankRange range) {
  auto continues = [&](const RankRange &last) {
    return last.count > 1 && last.stride == range.stride &&
           range.first == last.last() + last.stride;
  };
  // A range that does not go on with the last one does so once two of its ranks stand alone.
  while (range.count > 0 && (found.empty() || !continues(found.back()))) {
    add(range.first);
    range.first += range.count > 1 ? range.stride : 0;
    --range.count;
  }
  if (range.count > 0)
    found.back().count += range.count;
}

int64_t RankGroup::size() const {
  return std::accumulate(found.begin(), found.end(), int64_t(0),
                         [](int64_t sum, const RankRange &range) { return sum + range.count; });
}

bool RankGroup::contains(int rank) const {
  return any_of(found, [&](const RankRange &range) {
    return rank >= range.first && rank <= range.last() && (rank - range.first) % range.stride == 0;
  });
}

bool RankGroup::ascends() const {
  for (size_t i = 1; i < found.size(); ++i)
    if (found[i].first <= found[i - 1].last())
      return false;
  return true;
}

} // namespace heterplan
