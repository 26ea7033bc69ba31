// The placements that strategies choose from: where stages may be cut, which groups of devices a
// stage may have, and how many micro-batches. All strategies read the same space, so that "optimal"
// means the same for each.
#pragma once

#include "cost/IterationRules.h"
#include "search/problem/Cuts.h"
#include "search/problem/DeviceGroups.h"

#include <string>
#include <vector>

namespace heterplan {

/// What a bound or "no plan" is about.
struct SearchedSpace {
  /// "pipelines" or "steady-state", with "-reduced" where plans were left out; see docs/formats.md.
  std::string name;
  std::vector<std::string> leftOut; // in words; empty: nothing
};

struct SearchSpace {
  /// Positions 0 = p_0 < ... < p_n = layers where stages may be cut.
  std::vector<int> positions;
  std::vector<GroupOption> options;
  std::vector<int> microBatches; // ascending
  std::vector<int> available;    // devices of each type
  std::vector<TypeRoom> rooms;   // by type
  std::vector<Problem::SharedLimit> sharedLimits;
  const IterationRules &rules;
  int minStages = 1, maxStages = 1;
  /// What was left out of the plans that the name promises, in words; empty: nothing.
  std::vector<std::string> leftOut;
  std::string countsLeftOut; // likewise, of the numbers of micro-batches

  /// `cuts`: the positions; where none are given, `narrowCuts`.
  explicit SearchSpace(const Problem &problem, std::vector<int> cuts = {});
  /// With what a strategy left out besides. `foundNone`: for an answer that there is no plan, where
  /// the numbers of micro-batches matter only to memory and to limits on time and cost.
  SearchedSpace searched(const std::vector<std::string> &besides = {},
                         bool foundNone = false) const;
  /// Whether a stage may need all devices of `option` for full micro-batches of `batch` samples:
  /// each gets one, and with fewer of one type the largest share would be larger.
  bool isUseful(const GroupOption &option, int64_t batch) const;
  /// Whether so many devices of each type are within the limits on several node classes.
  bool keepsSharedLimits(llvm::ArrayRef<int> devices) const;
  /// The option of `group`, listed or not.
  GroupOption optionOf(const Problem &problem, const DeviceGroup &group) const;

private:
  void listRooms(const Problem &problem);
  void listOptions(const Problem &problem);
  void nameWhatIsLeftOut(const Problem &problem);
  bool countsDecide = true; // whether there is a plan
  /// Up to so many devices of a type each number differs, whatever the shares.
  int everyCountUpTo = 0;
};

} // namespace heterplan
