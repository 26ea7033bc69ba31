#include "search/exact/DeviceLevels.h"

#include <algorithm>
#include <cmath>

namespace heterplan {

namespace {
using Amounts = std::set<int>;

/// `sums`, with any number of groups of `slots` more.
Amounts withGroups(Amounts sums, int slots, int available) {
  for (int amount : sums) // those that are added, too
    if (amount + slots <= available)
      sums.insert(amount + slots);
  return sums;
}
} // namespace

DeviceLevels::DeviceLevels(const SearchSpace &space, const std::map<int, size_t> &options,
                           size_t mostStates)
    : available(space.available) {
  std::map<int, std::map<int, size_t>> sizes; // by type and slots: devices of all stages
  for (auto [option, stages] : options)
    for (int type = 0; type < int(available.size()); ++type)
      if (const int slots = space.options[option].slots[type]; slots > 0)
        sizes[type][slots] += stages * size_t(slots);
  mostLevels = size_t(std::pow(double(mostStates), 1 / double(std::max<size_t>(sizes.size(), 1))));
  for (const auto &[type, devices] : sizes)
    taken[type] = amountsOf(type, devices);
}

/// Sums of the sizes on which most devices are, as long as there are few, and one device more.
Amounts DeviceLevels::amountsOf(int type, const std::map<int, size_t> &devices) {
  std::vector<std::pair<size_t, int>> ordered;
  Amounts sums{0}, every{0};
  size_t count = 0;
  for (auto [slots, of] : devices) {
    ordered.push_back({of, slots});
    every = withGroups(every, slots, available[type]);
    count += of;
  }
  all += count;
  if (every.size() <= mostLevels) {
    exact += count;
    return every;
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto &a, const auto &b) { return a.first > b.first; });
  for (auto [of, slots] : ordered)
    if (Amounts more = withGroups(sums, slots, available[type]);
        2 * more.size() <= mostLevels + 1) {
      sums = std::move(more);
      exact += of;
    }
  Amounts rounded = sums;
  for (int amount : sums)
    if (amount < available[type])
      rounded.insert(amount + 1);
  return rounded;
}

std::vector<int> DeviceLevels::of(int type) const {
  std::vector<int> left;
  for (int amount : taken.at(type))
    left.push_back(available[type] - amount);
  std::reverse(left.begin(), left.end());
  return left;
}

} // namespace heterplan
