// Branches of a model side by side: which runs of branches may each be a stage on devices of its
// own, between a stage before the fork and one behind the join that have at least all of these
// devices, and what that takes (DeepPool, Park et al., arXiv 2112.10065, section 4).
#pragma once

#include "search/burst/BurstTable.h"

#include <vector>

namespace heterplan {

/// Branches that begin and end together and may be cut apart, and layers behind them. Runs of them
/// are neighbours in the order of the layers.
struct BranchBlock {
  int begin = 0, end = 0;           // indices into the positions of the search
  std::vector<LayerRange> branches; // one behind another
  bool passes = false;              // something from before the fork is read behind the join only
  MessageBytes around;              // what that carries
};

/// The parallel blocks of the model whose branches are neighbours and have layers before and behind
/// them; borders that are not among `positions` leave one out. In the order of their ends.
std::vector<BranchBlock> findBranches(const LayerGraph &graph, llvm::ArrayRef<int> positions);

/// One or several branches, one after another, as a stage beside others.
struct Lane {
  LayerRange layers;
  DeviceRun devices;
  StageMessages messages;
  double forward = 0, backward = 0, update = 0, sum = 0; // seconds; without messages
};

/// All branches of a block on disjoint devices.
struct LaneChoice {
  std::vector<Lane> lanes;
  int devices = 0; // of all lanes
  BurstSums least; // what they add at least: without messages
};

/// The time that a block adds between a stage on some devices before it and one behind it.
struct BlockCost {
  bool isAllowed = false;
  double time = 0, deviceTime = 0; // the messages of both stages included; no sums in `time`
  double returned = 0;             // part of `time`: gradients to the stage before
  std::vector<double> backward;    // by lane, with the gradients that it receives
};

/// Ways to choose lanes and their devices that are looked at, of a block.
constexpr size_t mostLaneChoices = 20000;

/// Whether `graph` has layers of which neither comes before the other in a parallel block.
bool hasBranches(const LayerGraph &graph);

class BranchTable {
public:
  /// All outlive this. `widths`: those that stages may have.
  BranchTable(BurstCosts &costs, llvm::ArrayRef<int> positions, llvm::ArrayRef<int> widths,
              double amplificationLimit);

  const std::vector<BranchBlock> &blocks() const { return found; }
  const std::vector<LaneChoice> &choices(int block) const { return options[block]; }
  /// The cost of a choice between stages on the first `before` and `after` devices, each at least
  /// as many as it has. The choice is not allowed if a layer that receives exceeds the limit.
  BlockCost cost(int block, const LaneChoice &choice, int before, int after);

private:
  /// The lanes that begin at a branch, by how many branches each has, less one.
  using LanesFrom = std::vector<std::vector<Lane>>;
  LanesFrom lanesFrom(const BranchBlock &block, size_t first);
  void extend(llvm::ArrayRef<LanesFrom> from, size_t next, int room, std::vector<Lane> &lanes,
              std::vector<LaneChoice> &choices);
  void add(std::vector<Lane> lanes, int devices, std::vector<LaneChoice> &choices);
  bool place(std::vector<Lane> &lanes) const;
  bool isAllowed(LayerRange layers, int width);
  bool keepsLimit(int layer, int width, Seconds moving);

  BurstCosts &costs;
  const Pool &pool;
  const std::vector<int> widths;
  const double limit;
  const std::vector<std::pair<int, int>> apart; // layers that are not to be in one stage
  std::vector<BranchBlock> found;
  std::vector<std::vector<LaneChoice>> options; // by block
};

/// Messages that `lane` receives from layers before `block`, and sends to layers behind it.
StageMessages messagesOf(const LayerGraph &graph, LayerRange lane, LayerRange block);

} // namespace heterplan
