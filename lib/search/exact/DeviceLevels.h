// Which amounts of a type of devices states tell apart, where all of them would be too many.
#pragma once

#include "search/problem/SearchSpace.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <vector>

namespace heterplan {

/// Devices of a type that stages leave, rounded up to the next level. Stages on few sizes of
/// groups, most of them, leave few amounts: their sums are levels, and one device less than those,
/// so that a small group beside them is not for nothing. There are as many as make `mostStates` of
/// all types.
class DeviceLevels {
public:
  /// `options`: by index into those of `space` the number of stages that have one.
  DeviceLevels(const SearchSpace &space, const std::map<int, size_t> &options, size_t mostStates);

  /// Ascending, the last one is all there is of the type.
  std::vector<int> of(int type) const;
  /// The share of devices, over all stages, that belong to groups whose sums are levels.
  double exactShare() const { return double(exact) / double(std::max<size_t>(all, 1)); }

private:
  std::set<int> amountsOf(int type, const std::map<int, size_t> &devices);

  const std::vector<int> available;   // by type
  size_t mostLevels = 1;              // of each type
  std::map<int, std::set<int>> taken; // by type
  size_t exact = 0, all = 0;          // devices of stages
};

} // namespace heterplan
