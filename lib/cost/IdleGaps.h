// When the ranks of a Program do nothing of it, as the simulator finds it.
#pragma once

#include "ir/Program.h"
#include "ir/Timeline.h"

#include <vector>

namespace heterplan {

/// A rank waits, from the beginning of an iteration; what ends it is `next`, of its instructions,
/// or the end of the iteration (none: -1).
struct RankGap {
  int rank = 0;
  Seconds begin{}, end{};
  int next = -1;
  Seconds duration() const { return end - begin; }
};

/// The gaps of all ranks, by rank and begin: neither a pass or message nor a sum of gradients is
/// under way. Shorter ones than 1e-9 of the iteration are rounding and left out.
std::vector<RankGap> gapsOf(const Program &program, const Timeline &timeline);

} // namespace heterplan
