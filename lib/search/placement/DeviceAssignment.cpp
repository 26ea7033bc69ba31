#include "search/placement/DeviceAssignment.h"

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
} // namespace

std::vector<std::vector<DeviceRef>>
assignDevices(const Cluster &cluster, const Placement &placement, ArrayRef<int> perNode) {
  std::vector<std::vector<DeviceRef>> assigned(placement.stages.size());
  for (int type = 0; type < static_cast<int>(cluster.types.size()); ++type) {
    std::vector<DeviceRef> devices = devicesOf(cluster, type);
    size_t next = 0;
    for (const Piece &piece : piecesOf(placement, type, perNode[type])) {
      assert(next + piece.devices <= devices.size() && "placement does not fit the cluster");
      for (int i = 0; i < piece.devices; ++i)
        assigned[piece.stage].push_back(devices[next + i]);
      next = std::min(next + piece.slots, devices.size());
    }
  }
  return assigned;
}

} // namespace heterplan
