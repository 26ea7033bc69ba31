// A relaxation of the stage network in which stages grow block by block, so that a solve takes
// blocks · groups of devices instead of stages.
#pragma once

#include "search/network/NodePlaces.h"
#include "search/network/Resources.h"
#include "search/placement/Evaluator.h"
#include "search/placement/LeastMixedTimes.h"

#include <vector>

namespace heterplan {

/// Least time of a message: its start, and of each byte of a sample.
struct LeastMessage {
  double latency = 0, perSampleByte = 0;
};
/// An option whose stages lie in a node with certain others (NodePlaces).
struct BlockLane {
  int option = 0;
  size_t sideBefore = 0, sideBehind = 0; // of the positions at its ends
  CollectiveCost reduce = {};            // of gradients
  LeastMessage receive = {}, gradient = {};
};
/// The lanes of a space.
std::vector<BlockLane> lanesOf(const Evaluator &evaluator, const NodePlaces &places,
                               bool wholeModelGroups);

/// For one number of micro-batches: least times of each block, the layers between two neighbouring
/// cuts, by lane. A stage takes no less than its blocks together: passes are sums over layers,
/// a collective takes its latency and so much for each byte, and groups of several types take
/// least where each device is as fast as it can be.
class BlockNetwork {
public:
  /// All outlive this.
  BlockNetwork(Evaluator &evaluator, const NodePlaces &places, llvm::ArrayRef<BlockLane> all,
               int microBatches);

  const int microBatches, blocks;
  const NodePlaces &places;
  std::vector<const BlockLane *> lanes;    // that are useful
  std::vector<double> time, forward, sync; // by block and lane, seconds
  /// By block and lane: 0, or infinite where the block cannot run there.
  std::vector<double> barrier;
  std::vector<double> receive, gradient; // by position and lane, seconds
  std::vector<bool> hasParameters;       // by block
  std::vector<double> latency;           // of synchronisation, by lane
  double slowestBlock = 0;               // at its best, seconds
  /// The iterations of the placements that are bounded, seconds; the least one is 0 if it does not
  /// matter.
  double leastIteration = 0, mostIteration = 0;

  /// The stage between two positions on a lane, with the least times that it may have.
  StageArc stage(int begin, int end, size_t lane) const;
  size_t at(int block, size_t lane) const { return size_t(block) * lanes.size() + lane; }
  size_t placeBefore(int position, size_t lane) const {
    return places.at(position, lanes[lane]->sideBefore);
  }
  size_t placeBehind(int position, size_t lane) const {
    return places.at(position, lanes[lane]->sideBehind);
  }

private:
  void setBlock(Evaluator &evaluator, size_t lane, int block, const LeastMixedTimes &mixed);
  void setTransfers(Evaluator &evaluator, size_t lane);
};

/// Sums over the blocks before each position, by position and lane.
struct BlockPrefixes {
  explicit BlockPrefixes(const BlockNetwork &network);
  std::vector<double> time, forward, sync;
  std::vector<int> barred;       // blocks that cannot run there
  std::vector<int> synchronised; // blocks with parameters, by position
};

} // namespace heterplan
