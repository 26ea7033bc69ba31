#include "search/placement/NodePacking.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
/// Depth-first: items one after another, each by its parts, the largest first.
class Packer {
public:
  Packer(ArrayRef<NodeItem> items, ArrayRef<int> types, std::vector<std::vector<int>> nodes,
         int64_t steps)
      : items(items), types(types), left(std::move(nodes)),
        taken(items.size(), std::vector<int>(left.size(), 0)),
        steps(steps > 0 ? steps : std::numeric_limits<int64_t>::max()) {}

  bool place(size_t index) {
    if (index == items.size())
      return true;
    if (items[index].size() > 1)
      return placeChain(index);
    const NodePiece &piece = items[index].front();
    return placeParts(index, piece.count, piece.spread.nodes, piece.spread.inNode);
  }

  std::vector<std::vector<int>> takeResult() { return std::move(taken); }

private:
  size_t columnOf(int type) const { return find(types, type) - types.begin(); }

  /// All of an item of several types, in one node.
  bool placeChain(size_t index) {
    std::vector<int> parts(types.size(), 0);
    for (const NodePiece &piece : items[index])
      parts[columnOf(piece.type)] += piece.count;
    return placePart(index, parts, [&] { return place(index + 1); });
  }

  /// `count` devices of item `index` in `nodes` nodes that it does not have yet, at most `most` in
  /// each; its first part has exactly that many.
  bool placeParts(size_t index, int count, int nodes, int most) {
    const NodePiece &piece = items[index].front();
    if (nodes == 0)
      return place(index + 1);
    bool first = nodes == piece.spread.nodes;
    int least = first ? most : (count + nodes - 1) / nodes;
    std::vector<int> parts(types.size(), 0);
    for (int part = std::min(most, count - nodes + 1); part >= least; --part) {
      parts[columnOf(piece.type)] = part;
      if (placePart(index, parts, [&] { return placeParts(index, count - part, nodes - 1, part); }))
        return true;
    }
    return false;
  }

  bool fits(size_t node, ArrayRef<int> parts) const {
    return std::equal(parts.begin(), parts.end(), left[node].begin(), std::less_equal<>());
  }

  void take(size_t index, size_t node, ArrayRef<int> parts, int sign) {
    for (size_t i = 0; i < parts.size(); ++i) {
      left[node][i] -= sign * parts[i];
      taken[index][node] += sign * parts[i];
    }
  }

  /// Nodes with as much room as another one are as good; those with least room come first.
  bool placePart(size_t index, ArrayRef<int> parts, function_ref<bool()> placeRest) {
    std::vector<std::vector<int>> tried;
    while (steps-- > 0) {
      int best = -1;
      for (int node = 0; node < int(left.size()); ++node)
        if (taken[index][node] == 0 && fits(node, parts) && !is_contained(tried, left[node]) &&
            (best < 0 || left[node] < left[best]))
          best = node;
      if (best < 0)
        return false;
      tried.push_back(left[best]);
      take(index, best, parts, 1);
      if (placeRest())
        return true;
      take(index, best, parts, -1);
    }
    return false;
  }

  const ArrayRef<NodeItem> items;
  const ArrayRef<int> types;
  std::vector<std::vector<int>> left;  // by node and index into the types
  std::vector<std::vector<int>> taken; // by item and node
  int64_t steps;
};
} // namespace

std::optional<std::vector<std::vector<int>>> packNodes(ArrayRef<NodeItem> items,
                                                       ArrayRef<int> types,
                                                       std::vector<std::vector<int>> nodes,
                                                       int64_t steps) {
  Packer packer(items, types, std::move(nodes), steps);
  if (!packer.place(0))
    return std::nullopt;
  return packer.takeResult();
}

std::optional<std::vector<std::vector<int>>> packNodes(ArrayRef<NodePiece> pieces, int nodes,
                                                       int inNode, int64_t steps) {
  std::vector<NodeItem> items;
  items.reserve(pieces.size());
  for (const NodePiece &piece : pieces)
    items.push_back({piece});
  const int type = pieces.empty() ? 0 : pieces.front().type;
  return packNodes(items, {type}, std::vector<std::vector<int>>(nodes, {inNode}), steps);
}

bool isWithin(const NodePiece &a, const NodePiece &b) {
  return a == b || (a.type == b.type && a.spread.nodes == 1 && a.count <= b.spread.inNode);
}

Packings::Packings(const Cluster &cluster, const SearchSpace &space) : space(space) {
  listFamilies(cluster);
  for (const GroupOption &option : space.options) {
    std::vector<NodePiece> &pieces = ofOptions.emplace_back();
    for (size_t i = 0; i < option.group.counts.size(); ++i) {
      auto [type, count] = option.group.counts[i];
      if (familyIndex[type] >= 0)
        pieces.push_back({type, count, spreadOf(cluster, option.group, i)});
    }
  }
}

void Packings::listFamilies(const Cluster &cluster) {
  Left whole;
  familyIndex.assign(space.rooms.size(), -1);
  for (int type = 0; type < int(space.rooms.size()); ++type) {
    ArrayRef<int> family = space.chains.familyOf(type);
    if (isKept(family)) {
      if (family.front() == type) {
        firstTypes.push_back(type);
        whole.push_back({wholeOf(cluster, family)});
      }
      familyIndex[type] = int(find(firstTypes, family.front()) - firstTypes.begin());
    } else if (space.rooms[type].isFree()) { // by itself
      firstTypes.push_back(type);
      familyIndex[type] = int(whole.size());
      whole.push_back(
          {Room(space.rooms[type].nodes, space.chains.chainOf(type, space.rooms[type].inNode))});
    }
  }
  numberOf(std::move(whole));
}

/// Of several types: whether it is known what they leave together.
bool Packings::isKept(ArrayRef<int> family) const {
  return family.size() > 1 && mixedAreListed(space.rooms) &&
         none_of(family, [&](int type) { return space.rooms[type].perNode > 0; });
}

Packings::Room Packings::wholeOf(const Cluster &cluster, ArrayRef<int> family) const {
  Room room;
  for (const NodeGroup &group : cluster.nodes) {
    int chain = 0;
    for (int type : family)
      if (auto own = group.devices.find(cluster.types[type].name); own != group.devices.end())
        chain +=
            space.chains.chainOf(type, std::min(own->second, space.chains.devicesInNode(type)));
    if (chain > 0)
      room.insert(room.end(), group.count, chain);
  }
  std::sort(room.begin(), room.end(), std::greater<>());
  return room;
}

/// Adds to `left` what `room` has left behind the nodes from `node` on, where `count` devices of
/// `piece` are to lie in `nodes` of them. `anyMost`: some node before has as many as any may have.
void Packings::takeFrom(Room room, const NodePiece &piece, size_t node, int count, int nodes,
                        bool anyMost, std::set<Room> &left) const {
  if (count == 0 && nodes == 0 && anyMost) {
    std::sort(room.begin(), room.end(), std::greater<>());
    left.insert(std::move(room));
    return;
  }
  if (node == room.size() || count < nodes || count > nodes * piece.spread.inNode)
    return;
  takeFrom(room, piece, node + 1, count, nodes, anyMost, left);
  const int there = space.chains.devicesOf(room[node], piece.type);
  for (int part = std::min({count, there, piece.spread.inNode}); part > 0; --part) {
    Room after = room;
    after[node] -= space.chains.chainOf(piece.type, part);
    takeFrom(std::move(after), piece, node + 1, count - part, nodes - 1,
             anyMost || part == piece.spread.inNode, left);
  }
}

std::set<Packings::Room> Packings::takeChain(const std::set<Room> &rooms, int type,
                                             int chain) const {
  std::set<Room> left;
  for (const Room &room : rooms)
    for (size_t node = 0; node < room.size(); ++node) {
      if (!space.chains.isWithin(chain, room[node], type))
        continue;
      Room after = room;
      after[node] -= chain;
      std::sort(after.begin(), after.end(), std::greater<>());
      left.insert(std::move(after));
    }
  return left;
}

int Packings::with(int packing, int option) {
  if (ofOptions[option].empty())
    return packing;
  auto [entry, isNew] = next.try_emplace({packing, option}, -1);
  if (isNew)
    entry->second = place(packing, ofOptions[option]);
  return entry->second;
}

int Packings::withChain(int packing, int type, int chain) {
  ArrayRef<int> family = space.chains.familyOf(type);
  if (family.size() == 1 && familyIndex[type] < 0)
    return packing;
  auto [entry, isNew] = nextOfChains.try_emplace({packing, type, chain}, -1);
  if (!isNew)
    return entry->second;
  const bool isTogether = isKept(family);
  Left left = all[packing];
  for (int each : isTogether ? ArrayRef<int>(type) : family) {
    const int own =
        isTogether ? chain : space.chains.chainOf(each, space.chains.devicesOf(chain, each));
    if (familyIndex[each] < 0 || own == 0)
      continue;
    std::set<Room> &rooms = left[familyIndex[each]];
    rooms = takeChain(rooms, each, own);
    if (rooms.empty())
      return -1;
  }
  return entry->second = numberOf(std::move(left));
}

/// What `pieces` leave of `packing`; −1: there is no room for them.
int Packings::place(int packing, ArrayRef<NodePiece> pieces) {
  Left left = all[packing];
  for (const NodePiece &piece : pieces) {
    std::set<Room> &own = left[familyIndex[piece.type]];
    std::set<Room> after;
    for (const Room &room : own)
      takeFrom(room, piece, 0, piece.count, piece.spread.nodes, false, after);
    if (after.empty())
      return -1;
    own = std::move(after);
  }
  return numberOf(std::move(left));
}

int Packings::numberOf(Left left) {
  auto [number, isFirst] = numbers.try_emplace(left, int(all.size()));
  if (isFirst)
    all.push_back(std::move(left));
  return number->second;
}

/// Whether each node of `more` has as much as that of `less`.
bool Packings::isLess(const Room &less, const Room &more, size_t family) const {
  return std::equal(less.begin(), less.end(), more.begin(), [&](int a, int b) {
    return a <= b && space.chains.isWithin(a, b, firstTypes[family]);
  });
}

bool Packings::holds(int a, int b) {
  if (a == b || a == 0)
    return true;
  auto [entry, isNew] = known.try_emplace({a, b}, false);
  if (!isNew)
    return entry->second;
  bool holds = true;
  for (size_t family = 0; family < all[a].size() && holds; ++family)
    holds = llvm::all_of(all[b][family], [&](const Room &less) {
      return any_of(all[a][family], [&](const Room &more) { return isLess(less, more, family); });
    });
  return entry->second = holds;
}

} // namespace heterplan
