#include "search/placement/NodePacking.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
/// Depth-first: pieces one after another, each by its parts, the largest first.
class Packer {
public:
  Packer(ArrayRef<NodePiece> pieces, int nodes, int inNode, int64_t steps)
      : pieces(pieces), left(nodes, inNode), taken(pieces.size(), std::vector<int>(nodes, 0)),
        steps(steps > 0 ? steps : std::numeric_limits<int64_t>::max()) {}

  bool place(size_t index) {
    if (index == pieces.size())
      return true;
    const NodePiece &piece = pieces[index];
    return placeParts(index, piece.count, piece.spread.nodes, piece.spread.inNode);
  }

  std::vector<std::vector<int>> takeResult() { return std::move(taken); }

private:
  /// `count` devices of piece `index` in `nodes` nodes that it does not have yet, at most `most` in
  /// each; its first part has exactly that many.
  bool placeParts(size_t index, int count, int nodes, int most) {
    if (nodes == 0)
      return place(index + 1);
    bool first = nodes == pieces[index].spread.nodes;
    int least = first ? most : (count + nodes - 1) / nodes;
    for (int part = std::min(most, count - nodes + 1); part >= least; --part)
      if (placePart(index, count, nodes, part))
        return true;
    return false;
  }

  /// Nodes with as much room as another one are as good; those with least room come first.
  bool placePart(size_t index, int count, int nodes, int part) {
    std::vector<int> tried;
    while (steps-- > 0) {
      int best = -1;
      for (int node = 0; node < int(left.size()); ++node)
        if (taken[index][node] == 0 && left[node] >= part &&
            std::find(tried.begin(), tried.end(), left[node]) == tried.end() &&
            (best < 0 || left[node] < left[best]))
          best = node;
      if (best < 0)
        return false;
      tried.push_back(left[best]);
      left[best] -= part;
      taken[index][best] = part;
      if (placeParts(index, count - part, nodes - 1, part))
        return true;
      left[best] += part;
      taken[index][best] = 0;
    }
    return false;
  }

  const ArrayRef<NodePiece> pieces;
  std::vector<int> left;               // by node
  std::vector<std::vector<int>> taken; // by piece and node
  int64_t steps;
};
} // namespace

std::optional<std::vector<std::vector<int>>> packNodes(ArrayRef<NodePiece> pieces, int nodes,
                                                       int inNode, int64_t steps) {
  Packer packer(pieces, nodes, inNode, steps);
  if (!packer.place(0))
    return std::nullopt;
  return packer.takeResult();
}

std::vector<NodePiece> nodePiecesOf(const Cluster &cluster, const DeviceGroup &group,
                                    ArrayRef<TypeRoom> rooms) {
  std::vector<NodePiece> pieces;
  for (size_t i = 0; i < group.counts.size(); ++i) {
    auto [type, count] = group.counts[i];
    if (rooms[type].isFree())
      pieces.push_back({type, count, spreadOf(cluster, group, i)});
  }
  return pieces;
}

bool isWithin(const NodePiece &a, const NodePiece &b) {
  return a == b || (a.type == b.type && a.spread.nodes == 1 && a.count <= b.spread.inNode);
}

Packings::Packings(const Cluster &cluster, const SearchSpace &space) {
  Left whole;
  for (const TypeRoom &room : space.rooms) {
    freeIndex.push_back(static_cast<int>(whole.size()));
    isFree.push_back(room.isFree());
    if (room.isFree())
      whole.push_back({Room(room.nodes, room.inNode)});
  }
  numbers[whole] = 0;
  all.push_back(std::move(whole));
  for (const GroupOption &option : space.options)
    ofOptions.push_back(nodePiecesOf(cluster, option.group, space.rooms));
}

/// Adds to `left` what `room` has left behind the nodes from `node` on, where `count` devices of
/// `piece` are to lie in `nodes` of them. `anyMost`: some node before has as many as any may have.
void Packings::takeFrom(Room room, const NodePiece &piece, size_t node, int count, int nodes,
                        bool anyMost, std::set<Room> &left) {
  if (count == 0 && nodes == 0 && anyMost) {
    std::sort(room.begin(), room.end(), std::greater<>());
    left.insert(std::move(room));
    return;
  }
  if (node == room.size() || count < nodes || count > nodes * piece.spread.inNode)
    return;
  takeFrom(room, piece, node + 1, count, nodes, anyMost, left);
  for (int part = std::min({count, room[node], piece.spread.inNode}); part > 0; --part) {
    Room after = room;
    after[node] -= part;
    takeFrom(std::move(after), piece, node + 1, count - part, nodes - 1,
             anyMost || part == piece.spread.inNode, left);
  }
}

int Packings::with(int packing, int option) {
  if (ofOptions[option].empty())
    return packing;
  auto [entry, isNew] = next.try_emplace({packing, option}, -1);
  if (isNew)
    entry->second = place(packing, ofOptions[option]);
  return entry->second;
}

int Packings::withChain(int packing, int type, int devices) {
  if (!isFree[type])
    return packing;
  auto [entry, isNew] = nextOfChains.try_emplace({packing, type, devices}, -1);
  if (isNew)
    entry->second = place(packing, NodePiece{type, devices, {1, devices}});
  return entry->second;
}

/// What `pieces` leave of `packing`; −1: there is no room for them.
int Packings::place(int packing, ArrayRef<NodePiece> pieces) {
  Left left = all[packing];
  for (const NodePiece &piece : pieces) {
    std::set<Room> after;
    for (const Room &room : left[freeIndex[piece.type]])
      takeFrom(room, piece, 0, piece.count, piece.spread.nodes, false, after);
    if (after.empty())
      return -1;
    left[freeIndex[piece.type]] = std::move(after);
  }
  auto [number, isFirst] = numbers.try_emplace(left, int(all.size()));
  if (isFirst)
    all.push_back(std::move(left));
  return number->second;
}

bool Packings::holds(int a, int b) {
  if (a == b || a == 0)
    return true;
  auto [entry, isNew] = known.try_emplace({a, b}, false);
  if (!isNew)
    return entry->second;
  auto isLess = [](const Room &less, const Room &more) {
    return std::equal(less.begin(), less.end(), more.begin(), std::less_equal<>());
  };
  bool holds = true;
  for (size_t type = 0; type < all[a].size() && holds; ++type)
    holds = llvm::all_of(all[b][type], [&](const Room &less) {
      return any_of(all[a][type], [&](const Room &more) { return isLess(less, more); });
    });
  return entry->second = holds;
}

} // namespace heterplan
