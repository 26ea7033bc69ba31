// Groups of devices that a stage may run on: numbers of devices of each type that are worth
// considering.
#pragma once

#include "cost/Collectives.h"
#include "cost/TrafficPrice.h"
#include "search/problem/NodeChains.h"
#include "search/problem/Problem.h"

#include "llvm/ADT/ArrayRef.h"

#include <set>
#include <vector>

namespace heterplan {

/// A group of devices that a stage may run on.
struct GroupOption {
  DeviceGroup group;
  /// Devices of each type that are taken from the pool: more than the group has where a partly used
  /// node cannot be shared without straddling nodes. Groups of several devices take devices of
  /// theirs (TypeRoom::pool).
  std::vector<int> slots;
  DollarsPerHour price{};
  BoundarySide side{};         // of a boundary, as traffic is priced
  bool wholeModelOnly = false; // considered for one-stage plans only
  /// The option of the same devices that shares its node with no other stage; maybe itself.
  int plain = -1;
  /// The first option that looks the same to the stage before it, and to the stage behind it.
  int fromBefore = -1, fromBehind = -1;
};

/// Devices of a type that are available to stages.
struct TypeRoom {
  int available = 0;
  /// Devices of each of its nodes where a stage that uses one in part takes a piece of it, so that
  /// stages fill nodes (slotsFor); 0 elsewhere.
  int perNode = 0;
  /// Nodes of the type and devices in each, if stages may have any devices of any node; else 0 and
  /// 0.
  int nodes = 0, inNode = 0;
  /// The type whose devices those of this type are taken from, and how many of them each is.
  int pool = 0, shards = 1;

  bool isFree() const { return nodes > 0; }
};
/// The available devices of `type`, at most `available`. If `fillsNothing`, the nodes of the
/// devices do not matter.
TypeRoom roomOf(const Cluster &cluster, int type, int available, bool fillsNothing);

/// All ways in which `count` devices may lie in the nodes of a type: one where it is not free.
llvm::SmallVector<Spread, 4> spreadsOf(const Cluster &cluster, int type, int count,
                                       const TypeRoom &room);

/// The option of `group`, with as many devices in `rooms`, by type: at least, where it shares a
/// node with its neighbours (slotsOfChain).
GroupOption makeOption(const Cluster &cluster, DeviceGroup group, llvm::ArrayRef<TypeRoom> rooms);

/// Counts of one type worth considering: with k devices the largest share of a micro-batch of b is
/// ⌈b/k⌉, and the least k for a share is never worse (fewer devices, a smaller ring). So only the k
/// = ⌈b/share⌉ of each micro-batch size remain. (Where there are no sparse tables, of which more
/// devices hold less each.)
std::set<int> usefulCounts(Samples batch, llvm::ArrayRef<int> microBatches, int available);

/// The group of `counts` devices of each type, which fill nodes.
DeviceGroup groupOfCounts(llvm::ArrayRef<int> counts);

/// Slots of `type` that stages in one node take which have `devices` of it together.
int slotsOfChain(llvm::ArrayRef<TypeRoom> rooms, int type, int devices);

/// Adds to `options` each of theirs once more for each side on which its stage may share its node
/// with its neighbour, and for both.
void addNodeSharing(const Cluster &cluster, llvm::ArrayRef<TypeRoom> rooms,
                    const NodeChains &chains, std::vector<GroupOption> &options);

/// All of them, where each device more helps: 1 up to the samples of a full micro-batch.
std::set<int> everyCount(Samples batch, int microBatches, int available);

/// Adds the groups of `counts` devices of each type, one for each way in which they may lie.
void addGroups(const Cluster &cluster, llvm::ArrayRef<int> counts, llvm::ArrayRef<TypeRoom> rooms,
               std::vector<GroupOption> &options);

/// Groups of several types: all of them.
void addAllMixed(const Problem &problem, llvm::ArrayRef<TypeRoom> rooms,
                 std::vector<GroupOption> &options);
/// Some of them: scaled parts of what there is, and of each type that lies in unlike nodes the
/// useful counts above those of one class.
void addSomeMixed(const Problem &problem, llvm::ArrayRef<int> microBatches,
                  llvm::ArrayRef<TypeRoom> rooms, std::vector<GroupOption> &options);
/// Whether there are so few groups of several types, or so few stages on them, that all of them are
/// options. Neither cuts nor numbers of micro-batches matter, so that a limit on them does not.
bool mixedAreListed(const Problem &problem, llvm::ArrayRef<TypeRoom> rooms);

/// Devices of `type` in the smallest node that has any; 0 where they all lie in one node, so that
/// no group can straddle nodes.
int devicesPerNode(const Cluster &cluster, int type);

/// Slots that `count` devices take where nodes hold `perNode` of them: whole nodes, and for the
/// rest the next size in a chain of divisors of `perNode`. Groups of such sizes always pack into
/// nodes without straddling.
int slotsFor(int count, int perNode);

} // namespace heterplan
