#include "ir/sharding/TensorUses.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

int TensorUses::origin(const ShardState &state) {
  auto found = find(origins, state);
  if (found == origins.end())
    found = origins.insert(origins.end(), state);
  return static_cast<int>(found - origins.begin());
}

int TensorUses::need(const ShardNeed &need, int step) {
  auto found = find(needs, need);
  if (found == needs.end()) {
    found = needs.insert(needs.end(), need);
    lastSteps.push_back(step);
  }
  lastSteps[found - needs.begin()] = step;
  return static_cast<int>(found - needs.begin());
}

uint16_t TensorUses::numberOf(const Use &use) {
  auto found = find_if(known, [&](const Known &each) { return each.use == use; });
  if (found == known.end())
    found = known.insert(known.end(), {use, std::vector<Met>(needs.size())});
  return static_cast<uint16_t>(found - known.begin());
}

double TensorUses::timeOf(const Use &use, int need) const {
  if (use.needs >> need & 1)
    return 0;
  double time = fromOrigin[use.origin][need];
  for (size_t other = 0; other < needs.size(); ++other)
    if (use.needs >> other & 1)
      time = std::min(time, fromNeed[other][need]);
  return time;
}

double TensorUses::meetFirst(uint16_t &use, int need) {
  Use next = known[use].use;
  const double time = timeOf(next, need);
  next.needs |= uint32_t(1) << need;
  const uint16_t number = numberOf(next);
  known[use].met[need] = {number, true, time};
  use = number;
  return time;
}

void TensorUses::compareAfter(int step) {
  compared = known.size();
  excesses.assign(compared * compared, unknown);
  behind.clear();
  for (size_t need = 0; need < needs.size(); ++need)
    if (lastSteps[need] > step)
      behind.push_back(static_cast<int>(need));
}

double TensorUses::sumOfExcess(uint16_t use, uint16_t other) const {
  double sum = 0;
  for (int need : behind)
    if (use != other)
      sum += std::max(0.0, timeOf(known[use].use, need) - timeOf(known[other].use, need));
  return sum;
}

} // namespace heterplan
