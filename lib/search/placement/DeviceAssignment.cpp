#include "search/placement/DeviceAssignment.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>

using namespace llvm;

namespace heterplan {

namespace {
/// Part of a group that is placed in one go: whole nodes, or a piece of one.
struct Piece {
  size_t stage;
  int devices, slots;
};

std::vector<Piece> piecesOf(const Placement &placement, int type, int perNode) {
  std::vector<Piece> pieces;
  for (size_t stage = 0; stage < placement.stages.size(); ++stage)
    for (auto [groupType, count] : placement.stages[stage].group.counts) {
      if (groupType != type)
        continue;
      int whole = perNode > 1 ? count / perNode * perNode : count;
      if (whole > 0)
        pieces.push_back({stage, whole, whole});
      if (count > whole)
        pieces.push_back({stage, count - whole, slotsFor(count - whole, perNode)});
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

struct StagePiece {
  NodePiece piece;
  size_t stage;
};

/// Of `type`, the largest first.
std::vector<StagePiece> stagePiecesOf(const Cluster &cluster, const Placement &placement,
                                      int type) {
  std::vector<StagePiece> pieces;
  for (size_t stage = 0; stage < placement.stages.size(); ++stage) {
    const DeviceGroup &group = placement.stages[stage].group;
    for (size_t i = 0; i < group.counts.size(); ++i)
      if (group.counts[i].first == type)
        pieces.push_back({{type, group.counts[i].second, spreadOf(cluster, group, i)}, stage});
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const StagePiece &a, const StagePiece &b) { return b.piece < a.piece; });
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
  std::vector<StagePiece> stages = stagePiecesOf(cluster, placement, type);
  std::vector<NodePiece> pieces;
  pieces.reserve(stages.size());
  for (const StagePiece &each : stages)
    pieces.push_back(each.piece);
  if (pieces.empty())
    return;
  auto packed = pack(cluster, pieces);
  assert(packed && "placement does not fit the cluster");
  std::vector<DeviceRef> devices = devicesOf(cluster, type);
  const size_t nodes = packed->front().size(), inNode = devices.size() / nodes;
  std::vector<size_t> next(nodes, 0);
  for (size_t i = 0; i < stages.size(); ++i)
    for (size_t node = 0; node < nodes; ++node)
      for (int each = 0; each < (*packed)[i][node]; ++each)
        assigned[stages[i].stage].push_back(devices[node * inNode + next[node]++]);
}

/// Likewise as they fill nodes.
void assignFilling(const Cluster &cluster, const Placement &placement, int type, int perNode,
                   std::vector<std::vector<DeviceRef>> &assigned) {
  std::vector<DeviceRef> devices = devicesOf(cluster, type);
  size_t next = 0;
  for (const Piece &piece : piecesOf(placement, type, perNode)) {
    assert(next + piece.devices <= devices.size() && "placement does not fit the cluster");
    for (int i = 0; i < piece.devices; ++i)
      assigned[piece.stage].push_back(devices[next + i]);
    next = std::min(next + piece.slots, devices.size());
  }
}
} // namespace

std::vector<NodePiece> nodePiecesOf(const Cluster &cluster, const Placement &placement,
                                    ArrayRef<TypeRoom> rooms) {
  std::vector<NodePiece> pieces;
  for (int type = static_cast<int>(rooms.size()); type-- > 0;)
    if (isPacked(placement, type, rooms[type]))
      for (const StagePiece &each : stagePiecesOf(cluster, placement, type))
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
