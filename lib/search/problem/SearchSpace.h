// The placements that strategies choose from: where stages may be cut, which groups of devices a
// stage may have, and how many micro-batches. All strategies read the same space, so that "optimal"
// means the same for each.
#pragma once

#include "cost/IterationRules.h"
#include "search/problem/Problem.h"

#include <string>
#include <vector>

namespace heterplan {

/// A group of devices that a stage may run on.
struct GroupOption {
  DeviceGroup group;
  /// Devices of each type that are taken from the pool: more than the group has where a partly used
  /// node cannot be shared without straddling nodes.
  std::vector<int> slots;
  DollarsPerHour price{};
  bool wholeModelOnly = false; // considered for one-stage plans only
};

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
  std::vector<int> perNode;      // devicesPerNode of each type; 0 where groups may straddle nodes
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
  /// The option of `group`, listed or not.
  GroupOption optionOf(const Problem &problem, const DeviceGroup &group) const;

private:
  void listOptions(const Problem &problem);
  void nameWhatIsLeftOut(const Problem &problem);
  bool countsDecide = true; // whether there is a plan
  /// Up to so many devices of a type each number differs, whatever the shares.
  int everyCountUpTo = 0;
};

/// Layers that constraints keep apart, the earlier first: neighbours among the layers of a
/// separation, and among those that are pinned to unequal types.
std::vector<std::pair<int, int>> separatedPairs(const Problem &problem);

/// As many cuts as every strategy can do with; all where few blocks remain once stages are fitted.
std::vector<int> narrowCuts(const Problem &problem);

/// Every position where a stage may end; what `narrowCuts` are where stages are fitted.
std::vector<int> everyCut(const Problem &problem);

/// Cut positions of the model: all series positions (where one tensor crosses, or none), then the
/// narrowest positions inside branched blocks, until `limit` are chosen. Layers that are to be
/// together have no cut between them; those that are to be apart have one, if need be beyond the
/// limit.
std::vector<int> cutPositions(const Problem &problem, int limit);

/// Devices of `type` in the smallest node that has any; 0 where they all lie in one node, so that
/// no group can straddle nodes.
int devicesPerNode(const Cluster &cluster, int type);

/// Slots that `count` devices take where nodes hold `perNode` of them: whole nodes, and for the
/// rest the next size in a chain of divisors of `perNode`. Groups of such sizes always pack into
/// nodes without straddling.
int slotsFor(int count, int perNode);

/// Micro-batches where costs are fitted to sizes and none are asked for: HeterPS measures layers at
/// a small batch, so one that leaves a sample or two for each device of a type. Of those the ones
/// that fill up the batch best.
int steadyMicroBatches(const Problem &problem);

/// The numbers of micro-batches that may be best, ascending: the fewest of each size, ⌈batch/b⌉ for
/// all b. About 2·√batch.
std::vector<int> usefulMicroBatches(Samples batch);
/// All of them where there are at most `most`. Else one of those from n up to, not including, 2·n
/// for n = 1 and on from there, the one whose micro-batches fill up best; 1 and `batch` are
/// included.
std::vector<int> microBatchChoices(Samples batch, size_t most);

} // namespace heterplan
