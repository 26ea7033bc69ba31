#include "search/placement/NodePacking.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
/// Depth-first: items one after another, each piece by piece and by its parts, the largest first.
class Packer {
public:
  Packer(ArrayRef<NodeItem> items, ArrayRef<int> types, std::vector<std::vector<int>> nodes,
         int64_t steps)
      : items(items), types(types), left(std::move(nodes)),
        steps(steps > 0 ? steps : std::numeric_limits<int64_t>::max()) {
    taken.reserve(items.size());
    for (const NodeItem &item : items)
      taken.emplace_back(item.pieces.size(), std::vector<int>(left.size(), 0));
  }

  bool place(size_t index) {
    if (index == items.size())
      return true;
    return items[index].kind == NodeItem::Kind::Together ? placeTogether(index)
                                                         : placePiece(index, 0);
  }

  PackedItems takeResult() { return std::move(taken); }

private:
  int &leftIn(size_t node, const NodePiece &piece) {
    return left[node][find(types, piece.type) - types.begin()];
  }

  void take(size_t index, size_t piece, size_t node, int count) {
    leftIn(node, items[index].pieces[piece]) -= count;
    taken[index][piece][node] += count;
  }

  /// All pieces of an item in one node.
  bool placeTogether(size_t index) {
    ArrayRef<NodePiece> pieces = items[index].pieces;
    auto fits = [&](size_t node) {
      return all_of(pieces,
                    [&](const NodePiece &piece) { return piece.count <= leftIn(node, piece); });
    };
    auto takeAll = [&](size_t node, int sign) {
      for (size_t piece = 0; piece < pieces.size(); ++piece)
        take(index, piece, node, sign * pieces[piece].count);
    };
    return inSomeNode(index, fits, takeAll, [&] { return place(index + 1); });
  }

  /// Piece `piece` of an item, and those behind it.
  bool placePiece(size_t index, size_t piece) {
    const NodeItem &item = items[index];
    if (piece == item.pieces.size())
      return (item.kind != NodeItem::Kind::Apart || areApart(index)) && place(index + 1);
    const NodePiece &own = item.pieces[piece];
    return placeParts(index, piece, own.count, own.spread.nodes, own.spread.inNode);
  }

  bool areApart(size_t index) const {
    size_t used = 0;
    for (size_t node = 0; node < left.size(); ++node)
      used += has(index, node);
    return used > 1;
  }

  bool has(size_t index, size_t node) const {
    return any_of(taken[index], [&](const std::vector<int> &piece) { return piece[node] > 0; });
  }

  /// `count` devices of a piece in `nodes` nodes that it does not have yet, at most `most` in each;
  /// its first part has exactly that many.
  bool placeParts(size_t index, size_t piece, int count, int nodes, int most) {
    const NodePiece &own = items[index].pieces[piece];
    if (nodes == 0)
      return placePiece(index, piece + 1);
    bool first = nodes == own.spread.nodes;
    int least = first ? most : (count + nodes - 1) / nodes;
    for (int part = std::min(most, count - nodes + 1); part >= least; --part) {
      auto fits = [&](size_t node) {
        return taken[index][piece][node] == 0 && part <= leftIn(node, own);
      };
      auto takePart = [&](size_t node, int sign) { take(index, piece, node, sign * part); };
      if (inSomeNode(index, fits, takePart,
                     [&] { return placeParts(index, piece, count - part, nodes - 1, part); }))
        return true;
    }
    return false;
  }

  /// Nodes with as much room as another one are as good, if the item has a piece in both or
  /// neither; those with least room come first.
  bool inSomeNode(size_t index, function_ref<bool(size_t)> fits,
                  function_ref<void(size_t, int)> takeThere, function_ref<bool()> placeRest) {
    std::vector<std::pair<std::vector<int>, bool>> tried;
    while (steps-- > 0) {
      int best = -1;
      for (int node = 0; node < int(left.size()); ++node)
        if (fits(node) && !is_contained(tried, std::pair(left[node], has(index, node))) &&
            (best < 0 || left[node] < left[best]))
          best = node;
      if (best < 0)
        return false;
      tried.emplace_back(left[best], has(index, best));
      takeThere(best, 1);
      if (placeRest())
        return true;
      takeThere(best, -1);
    }
    return false;
  }

  const ArrayRef<NodeItem> items;
  const ArrayRef<int> types;
  std::vector<std::vector<int>> left; // by node and index into the types
  PackedItems taken;
  int64_t steps;
};
} // namespace

std::optional<PackedItems> packNodes(ArrayRef<NodeItem> items, ArrayRef<int> types,
                                     std::vector<std::vector<int>> nodes, int64_t steps) {
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
    items.push_back({{piece}});
  const int type = pieces.empty() ? 0 : pieces.front().type;
  auto packed = packNodes(items, {type}, std::vector<std::vector<int>>(nodes, {inNode}), steps);
  if (!packed)
    return std::nullopt;
  std::vector<std::vector<int>> result;
  result.reserve(packed->size());
  for (std::vector<std::vector<int>> &item : *packed)
    result.push_back(std::move(item.front()));
  return result;
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
    areApart.push_back(isKept(space.chains.familyOf(option.group.counts.front().first)) &&
                       staysApart(cluster, option.group));
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

/// For several types: whether their packings are kept together.
bool Packings::isKept(ArrayRef<int> family) const {
  return family.size() > 1 && space.listsMixed &&
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
  const DeviceGroup &group = space.options[option].group;
  if (group.inOneNode && space.chains.mayHold(group))
    return withChain(packing, group.counts.front().first, space.ownChain(option));
  auto [entry, isNew] = next.try_emplace({packing, option}, -1);
  if (isNew)
    entry->second = areApart[option] ? placeApart(packing, ofOptions[option])
                                     : place(packing, ofOptions[option]);
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

/// The packing after `pieces` are placed in `packing`; −1 if there is no room for them.
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

/// The packing after pieces of one family are placed, each in one node, but not all in the same.
int Packings::placeApart(int packing, ArrayRef<NodePiece> pieces) {
  Left left = all[packing];
  std::set<Room> &own = left[familyIndex[pieces.front().type]];
  std::set<Room> after;
  for (const Room &room : own)
    takeApart(room, pieces, std::nullopt, false, after);
  if (after.empty())
    return -1;
  own = std::move(after);
  return numberOf(std::move(left));
}

/// Adds to `left` what `room` has left behind `pieces`; of those before them `node` has one.
/// `areApart`: not all of them lie there.
void Packings::takeApart(const Room &room, ArrayRef<NodePiece> pieces, std::optional<size_t> node,
                         bool areApart, std::set<Room> &left) const {
  if (pieces.empty()) {
    if (areApart) {
      Room sorted = room;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      left.insert(std::move(sorted));
    }
    return;
  }
  const NodePiece &piece = pieces.front();
  for (size_t there = 0; there < room.size(); ++there) {
    if (space.chains.devicesOf(room[there], piece.type) < piece.count)
      continue;
    Room after = room;
    after[there] -= space.chains.chainOf(piece.type, piece.count);
    takeApart(after, pieces.drop_front(), there, areApart || (node && *node != there), left);
  }
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
