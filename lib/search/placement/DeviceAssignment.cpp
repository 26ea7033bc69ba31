#include "search/placement/DeviceAssignment.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>

using namespace llvm;

namespace heterplan {

namespace {
/// Stages that lie in one node with each other, mostly one.
struct Chain {
  size_t begin, end;
};

std::vector<Chain> chainsOf(const Placement &placement) {
  std::vector<Chain> chains;
  for (size_t begin = 0; begin < placement.stages.size(); begin = chains.back().end)
    chains.push_back({begin, endOfChain(placement, begin)});
  return chains;
}

int devicesOfType(const Placement &placement, Chain chain, int type) {
  int devices = 0;
  for (size_t stage = chain.begin; stage < chain.end; ++stage)
    for (auto [groupType, count] : placement.stages[stage].group.counts)
      devices += groupType == type ? count : 0;
  return devices;
}

/// Gives the stages of `chain` theirs of `devices`, some of those of `type` that it gets, in order.
void divide(const Placement &placement, Chain chain, int type, ArrayRef<DeviceRef> devices,
            std::vector<std::vector<DeviceRef>> &assigned) {
  if (chain.end == chain.begin + 1) {
    assigned[chain.begin].insert(assigned[chain.begin].end(), devices.begin(), devices.end());
    return;
  }
  for (size_t stage = chain.begin; stage < chain.end; ++stage) { // each has all of its own here
    size_t own = devicesOfType(placement, {stage, stage + 1}, type);
    ArrayRef<DeviceRef> taken = devices.take_front(own);
    assigned[stage].insert(assigned[stage].end(), taken.begin(), taken.end());
    devices = devices.drop_front(own);
  }
}

/// What is placed in one go: whole nodes, or a piece of one.
struct Piece {
  Chain stages;
  int devices, slots;
};

std::vector<Piece> piecesOf(const Placement &placement, int type, int perNode) {
  std::vector<Piece> pieces;
  for (Chain chain : chainsOf(placement)) {
    int count = devicesOfType(placement, chain, type);
    int whole = perNode > 1 ? count / perNode * perNode : count;
    if (whole > 0)
      pieces.push_back({chain, whole, whole});
    if (count > whole)
      pieces.push_back({chain, count - whole, slotsFor(count - whole, perNode)});
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece &a, const Piece &b) { return a.slots > b.slots; });
  return pieces;
}

constexpr int64_t mostSteps =
    100'000; // to find room where stages of many devices do not fill nodes

/// Whether it matters in which nodes the stages have devices of `type`.
bool isPacked(const Placement &placement, int type, const TypeRoom &room) {
  return room.isFree() || any_of(placement.stages, [&](const PlacedStage &stage) {
           return !stage.group.spread.empty() &&
                  any_of(stage.group.counts, [&](auto each) { return each.first == type; });
         });
}

struct ChainPiece {
  NodePiece piece;
  Chain stages;
};

/// Of `type`, the largest first.
std::vector<ChainPiece> chainPiecesOf(const Cluster &cluster, const Placement &placement,
                                      int type) {
  std::vector<ChainPiece> pieces;
  for (Chain chain : chainsOf(placement)) {
    const DeviceGroup &group = placement.stages[chain.begin].group;
    for (size_t i = 0; i < group.counts.size(); ++i) {
      if (group.counts[i].first != type)
        continue;
      int devices = devicesOfType(placement, chain, type);
      bool isOne = chain.end == chain.begin + 1;
      pieces.push_back(
          {{type, devices, isOne ? spreadOf(cluster, group, i) : Spread{1, devices}}, chain});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const ChainPiece &a, const ChainPiece &b) { return b.piece < a.piece; });
  return pieces;
}

/// Of one type, the largest first.
std::optional<std::vector<std::vector<int>>> pack(const Cluster &cluster,
                                                  ArrayRef<NodePiece> pieces) {
  int type = pieces.front().type, inNode = devicesPerNode(cluster, type);
  inNode = inNode ? inNode : cluster.deviceCount(type);
  int nodes = cluster.deviceCount(type) / inNode;
  return packNodes(pieces, nodes, inNode, nodes * inNode > 16 ? mostSteps : 0);
}

/// Gives `assigned`, by stage, the devices of `type` as the stages find room.
void assignPacked(const Cluster &cluster, const Placement &placement, int type,
                  std::vector<std::vector<DeviceRef>> &assigned) {
  std::vector<ChainPiece> chains = chainPiecesOf(cluster, placement, type);
  std::vector<NodePiece> pieces;
  pieces.reserve(chains.size());
  for (const ChainPiece &each : chains)
    pieces.push_back(each.piece);
  if (pieces.empty())
    return;
  auto packed = pack(cluster, pieces);
  assert(packed && "placement does not fit the cluster");
  std::vector<DeviceRef> devices = devicesOf(cluster, type);
  const size_t nodes = packed->front().size(), inNode = devices.size() / nodes;
  std::vector<size_t> next(nodes, 0);
  for (size_t i = 0; i < chains.size(); ++i)
    for (size_t node = 0; node < nodes; ++node) {
      size_t count = (*packed)[i][node];
      if (count == 0)
        continue;
      divide(placement, chains[i].stages, type,
             ArrayRef<DeviceRef>(devices).slice(node * inNode + next[node], count), assigned);
      next[node] += count;
    }
}

/// Likewise as they fill nodes.
void assignFilling(const Cluster &cluster, const Placement &placement, int type, int perNode,
                   std::vector<std::vector<DeviceRef>> &assigned) {
  std::vector<DeviceRef> devices = devicesOf(cluster, type);
  size_t next = 0;
  for (const Piece &piece : piecesOf(placement, type, perNode)) {
    assert(next + piece.devices <= devices.size() && "placement does not fit the cluster");
    divide(placement, piece.stages, type, ArrayRef<DeviceRef>(devices).slice(next, piece.devices),
           assigned);
    next = std::min(next + piece.slots, devices.size());
  }
}
} // namespace

std::vector<NodePiece> nodePiecesOf(const Cluster &cluster, const Placement &placement,
                                    ArrayRef<TypeRoom> rooms) {
  std::vector<NodePiece> pieces;
  for (int type = static_cast<int>(rooms.size()); type-- > 0;)
    if (isPacked(placement, type, rooms[type]))
      for (const ChainPiece &each : chainPiecesOf(cluster, placement, type))
        pieces.push_back(each.piece);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

bool findRoom(const Cluster &cluster, ArrayRef<NodePiece> pieces) {
  for (size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
    while (end < pieces.size() && pieces[end].type == pieces[begin].type)
      ++end;
    std::vector<NodePiece> ofType(pieces.begin() + begin, pieces.begin() + end);
    std::reverse(ofType.begin(), ofType.end());
    if (!pack(cluster, ofType))
      return false;
  }
  return true;
}

void stateNodeSharing(const Cluster &cluster, ArrayRef<std::vector<DeviceRef>> devices,
                      Placement &placement) {
  for (size_t stage = 0; stage + 1 < placement.stages.size(); ++stage) {
    auto isThere = [&](const DeviceRef &device) {
      return device.node == devices[stage].front().node;
    };
    setBeside(placement, stage,
              all_of(devices[stage], isThere) && all_of(devices[stage + 1], isThere) &&
                  mayShareNode(cluster, placement.stages[stage].group,
                               placement.stages[stage + 1].group));
  }
}

std::vector<std::vector<DeviceRef>>
assignDevices(const Cluster &cluster, const Placement &placement, ArrayRef<TypeRoom> rooms) {
  std::vector<std::vector<DeviceRef>> assigned(placement.stages.size());
  for (int type = 0; type < static_cast<int>(cluster.types.size()); ++type)
    if (isPacked(placement, type, rooms[type]))
      assignPacked(cluster, placement, type, assigned);
    else
      assignFilling(cluster, placement, type, rooms[type].perNode, assigned);
  return assigned;
}

} // namespace heterplan
