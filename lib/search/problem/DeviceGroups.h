// Groups of devices that a stage may run on: numbers of devices of each type that are worth
// considering.
#pragma once

#include "cost/Collectives.h"
#include "search/problem/Problem.h"

#include "llvm/ADT/ArrayRef.h"

#include <set>
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

/// The option of `counts` devices of each type, of which there are `available`, and `perNode`
/// (devicesPerNode; 0 where groups may straddle nodes).
GroupOption makeOption(const Cluster &cluster, llvm::ArrayRef<int> counts,
                       llvm::ArrayRef<int> available, llvm::ArrayRef<int> perNode);

/// Counts of one type worth considering: with k devices the largest share of a micro-batch of b is
/// ⌈b/k⌉, and the least k for a share is never worse (fewer devices, a smaller ring). So only the k
/// = ⌈b/share⌉ of each micro-batch size remain. (Where there are no sparse tables, of which more
/// devices hold less each.)
std::set<int> usefulCounts(Samples batch, llvm::ArrayRef<int> microBatches, int available);

/// All of them, where each device more helps: 1 up to the samples of a full micro-batch.
std::set<int> everyCount(Samples batch, int microBatches, int available);

/// Groups of several types: all of them where mixedAreListed(), else scaled parts of what there is,
/// and of each type that lies in unlike nodes the useful counts above those of one class.
void addMixedGroups(const Problem &problem, llvm::ArrayRef<int> microBatches,
                    llvm::ArrayRef<int> available, llvm::ArrayRef<int> perNode,
                    std::vector<GroupOption> &options);
/// Whether there are so few groups of several types that all of them are options.
bool mixedAreListed(llvm::ArrayRef<int> available);

/// Devices of `type` in the smallest node that has any; 0 where they all lie in one node, so that
/// no group can straddle nodes.
int devicesPerNode(const Cluster &cluster, int type);

/// Slots that `count` devices take where nodes hold `perNode` of them: whole nodes, and for the
/// rest the next size in a chain of divisors of `perNode`. Groups of such sizes always pack into
/// nodes without straddling.
int slotsFor(int count, int perNode);

} // namespace heterplan
