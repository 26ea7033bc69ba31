#include "cost/IdleGaps.h"

#include <algorithm>

namespace heterplan {

std::vector<RankGap> gapsOf(const Program &program, const Timeline &timeline) {
  const Seconds shortest = timeline.iteration * 1e-9;
  std::vector<RankGap> result;
  auto event = timeline.events.begin();
  for (const RankProgram &rank : program.ranks) {
    Seconds busy{};
    auto waitUntil = [&](Seconds end, int next) {
      if (end - busy > shortest)
        result.push_back({rank.rank, busy, end, next});
    };
    for (; event != timeline.events.end() && event->rank == rank.rank; ++event) {
      if (event->end == event->begin)
        continue;
      waitUntil(event->begin, event->index);
      busy = std::max(busy, event->end);
    }
    waitUntil(timeline.iteration, -1);
  }
  return result;
}

} // namespace heterplan
