// The placements that strategies choose from: where stages may be cut, which groups of devices a
// stage may have, and how many micro-batches. All strategies read the same space, so that "optimal"
// means the same for each.
#pragma once

#include "cost/IterationRules.h"
#include "search/problem/Cuts.h"
#include "search/problem/DeviceGroups.h"
#include "search/problem/NodeChains.h"

#include <string>
#include <vector>

namespace heterplan {

/// The space of a bound or of "no plan".
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
  bool listsMixed = false;       // whether all groups of several types are options
  NodeChains chains;             // where neighbours may share nodes
  std::vector<Problem::SharedLimit> sharedLimits;
  const IterationRules &rules;
  int minStages = 1, maxStages = 1;
  /// Parts of the promised space that the search omitted, as messages; empty for none.
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
  /// Whether neighbours may share nodes.
  bool sharesNodes() const {
    return maxStages > 1 && !rules.transfersArePartOfStages() && !rules.mergesNeighbours();
  }
  /// Stages between all pairs of so many cuts that take different times: with options that share
  /// their nodes with no other stage.
  size_t stages(size_t cuts) const;
  /// Whether a stage on `group` and the next one on `next` may lie in one node of several.
  bool mayShareNode(const DeviceGroup &group, const DeviceGroup &next) const;
  /// Whether a stage on `next` may follow one on `group`: they share a node both or neither.
  bool mayFollow(const DeviceGroup &group, const DeviceGroup &next) const;
  /// Whether option `next` may follow `option` in a pipeline; −1 stands for no stage.
  bool mayFollow(int option, int next) const;
  /// A stage as its neighbour on one side sees it.
  struct Face {
    int option = -1; // GroupOption::fromBefore, or fromBehind; −1: no stage is there
    /// The part of a shared node that this stage and the stages behind it have (NodeChains).
    int chain = 0;
    auto operator<=>(const Face &) const = default;
  };
  /// The face of a stage on `option` towards the stage before it, and towards the one behind it.
  Face faceBefore(int option, int chain) const {
    return {options[option].fromBefore, options[option].group.besideBefore ? chain : 0};
  }
  Face faceBehind(int option, int chain) const {
    return {options[option].fromBehind, options[option].group.besideNext ? chain : 0};
  }
  /// Whether these may meet.
  bool mayMeet(Face before, Face behind) const {
    return mayFollow(before.option, behind.option) &&
           (before.chain == 0 || before.chain == ownChains[before.option] + behind.chain);
  }
  /// The possible chains in the node of a stage on `option`, of it and of the stages behind it,
  /// ascending.
  llvm::ArrayRef<int> chainsOf(int option) const { return chainLists[option]; }
  /// The stage's own chain.
  int ownChain(int option) const { return ownChains[option]; }
  /// A chain within all of chainsOf(): what it leaves of the node is the most.
  int leastChain(int option) const;
  /// The option of `group`, listed or not.
  GroupOption optionOf(const Problem &problem, const DeviceGroup &group) const;

private:
  void listRooms(const Problem &problem);
  void listOptions(const Problem &problem);
  bool fitIntoNode(const DeviceGroup &group, const DeviceGroup &next) const;
  void listChains();
  std::vector<int> listChainsOf(const DeviceGroup &group) const;
  void nameWhatIsLeftOut(const Problem &problem);
  void nameDegreesLeftOut(const Problem &problem);
  bool countsDecide = true;                 // whether there is a plan
  std::vector<std::vector<int>> chainLists; // by option
  std::vector<int> ownChains;               // by option
  /// Up to so many devices of a type each number differs, whatever the shares.
  int everyCountUpTo = 0;
};

} // namespace heterplan
