#include "search/placement/DeviceAssignment.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

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

/// A unit of placement: whole nodes, or a piece of one.
struct Piece {
  Chain stages;
  int devices, slots;
  int type = 0;
};

std::vector<Piece> piecesOf(const Placement &placement, int type, int perNode) {
  std::vector<Piece> pieces;
  for (Chain chain : chainsOf(placement)) {
    int count = devicesOfType(placement, chain, type);
    int whole = perNode > 1 ? count / perNode * perNode : count;
    if (whole > 0)
      pieces.push_back({chain, whole, whole, type});
    if (count > whole)
      pieces.push_back({chain, count - whole, slotsFor(count - whole, perNode), type});
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

struct ChainItem {
  NodeItem item;
  Chain stages;
};

/// How what `chain` has lies with its other types.
NodeItem::Kind kindOf(const Cluster &cluster, const Placement &placement, Chain chain) {
  const DeviceGroup &group = placement.stages[chain.begin].group;
  if (chain.end > chain.begin + 1 || group.inOneNode)
    return NodeItem::Kind::Together;
  return staysApart(cluster, group) ? NodeItem::Kind::Apart : NodeItem::Kind::Single;
}

/// Items of `types` in `chain`.
std::vector<NodeItem> itemsOf(const Cluster &cluster, const Placement &placement, Chain chain,
                              ArrayRef<int> types) {
  std::vector<NodeItem> items;
  const DeviceGroup &group = placement.stages[chain.begin].group;
  const NodeItem::Kind kind = kindOf(cluster, placement, chain);
  std::vector<NodePiece> pieces;
  if (kind == NodeItem::Kind::Together) {
    for (int type : types)
      if (int devices = devicesOfType(placement, chain, type))
        pieces.push_back({type, devices, {1, devices}});
  } else
    for (size_t i = 0; i < group.counts.size(); ++i)
      if (auto [type, count] = group.counts[i]; is_contained(types, type))
        pieces.push_back({type, count, spreadOf(cluster, group, i)});
  if (pieces.size() > 1 && kind != NodeItem::Kind::Single)
    return {{std::move(pieces), kind}};
  for (const NodePiece &piece : pieces)
    items.push_back({{piece}});
  return items;
}

/// Chain items of `types`: items of several types first, then the largest.
std::vector<ChainItem> chainItemsOf(const Cluster &cluster, const Placement &placement,
                                    ArrayRef<int> types) {
  std::vector<ChainItem> items;
  for (Chain chain : chainsOf(placement))
    for (NodeItem &item : itemsOf(cluster, placement, chain, types))
      items.push_back({std::move(item), chain});
  std::stable_sort(items.begin(), items.end(), [](const ChainItem &a, const ChainItem &b) {
    const bool isOne = a.item.pieces.size() == 1, isOther = b.item.pieces.size() == 1;
    return isOne == isOther ? b.item.pieces < a.item.pieces : isOther;
  });
  return items;
}

/// The types of which stages lie in one node with those of other types, or may not, ascending.
std::vector<int> typesTogether(const Cluster &cluster, const Placement &placement) {
  std::set<int> together;
  for (Chain chain : chainsOf(placement)) {
    std::set<int> types;
    for (size_t stage = chain.begin; stage < chain.end; ++stage)
      for (auto [type, count] : placement.stages[stage].group.counts)
        types.insert(type);
    if (types.size() > 1 && kindOf(cluster, placement, chain) != NodeItem::Kind::Single)
      together.merge(types);
  }
  return {together.begin(), together.end()};
}

/// Devices of `types`, by node, in the order of both.
using TypedDevices = std::vector<std::vector<std::vector<DeviceRef>>>;

TypedDevices devicesByNode(const Cluster &cluster, ArrayRef<int> types) {
  TypedDevices devices;
  std::map<std::string, size_t> nodes;
  for (size_t i = 0; i < types.size(); ++i)
    for (const DeviceRef &device : devicesOf(cluster, types[i])) {
      auto [node, isNew] = nodes.try_emplace(device.node, devices.size());
      if (isNew)
        devices.emplace_back(types.size());
      devices[node->second][i].push_back(device);
    }
  return devices;
}

/// Packs stages of several types into nodes; none if there is no room.
std::optional<PackedItems> packTogether(ArrayRef<NodeItem> items, ArrayRef<int> types,
                                        const TypedDevices &devices) {
  std::vector<std::vector<int>> nodes;
  int all = 0;
  for (const auto &node : devices) {
    std::vector<int> &own = nodes.emplace_back();
    for (const auto &ofType : node)
      all += own.emplace_back(int(ofType.size()));
  }
  return packNodes(items, types, std::move(nodes), all > 16 ? mostSteps : 0);
}

/// Gives `assigned`, by type and stage, the devices of `types`, some stages of which lie in one
/// node with those of others.
void assignTogether(const Cluster &cluster, const Placement &placement, ArrayRef<int> types,
                    std::map<int, std::vector<std::vector<DeviceRef>>> &assigned) {
  const std::vector<ChainItem> chains = chainItemsOf(cluster, placement, types);
  const TypedDevices devices = devicesByNode(cluster, types);
  std::vector<NodeItem> items;
  items.reserve(chains.size());
  for (const ChainItem &each : chains)
    items.push_back(each.item);
  auto packed = packTogether(items, types, devices);
  assert(packed && "placement does not fit the cluster");
  std::vector<std::vector<size_t>> next(devices.size(), std::vector<size_t>(types.size(), 0));
  for (size_t i = 0; i < chains.size(); ++i)
    for (size_t node = 0; node < devices.size(); ++node)
      for (size_t p = 0; p < chains[i].item.pieces.size(); ++p) {
        const NodePiece &piece = chains[i].item.pieces[p];
        const size_t type = find(types, piece.type) - types.begin();
        const size_t count = (*packed)[i][p][node];
        if (count == 0)
          continue;
        ArrayRef<DeviceRef> own = devices[node][type];
        auto &stages = assigned[piece.type];
        stages.resize(placement.stages.size());
        divide(placement, chains[i].stages, piece.type, own.slice(next[node][type], count), stages);
        next[node][type] += count;
      }
}

/// Packs the items of one type, the largest first.
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
  std::vector<ChainItem> chains = chainItemsOf(cluster, placement, {type});
  std::vector<NodePiece> pieces;
  pieces.reserve(chains.size());
  for (const ChainItem &each : chains)
    pieces.push_back(each.item.pieces.front());
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

/// Assigns devices to stages that fill nodes.
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

/// `count` groups of `type`, of consecutive devices of which `devices` are the first.
std::vector<DeviceRef> groupsOf(const Cluster &cluster, int type, int count,
                                ArrayRef<DeviceRef> devices) {
  const DeviceType &group = cluster.types[type];
  std::vector<DeviceRef> groups;
  for (int i = 0; i < count; ++i) {
    const DeviceRef &first = devices[size_t(i) * group.shards];
    assert(first.index % group.shards == 0 &&
           devices[size_t(i + 1) * group.shards - 1].node == first.node && "groups lie in a node");
    groups.push_back({group.stated(), first.node, first.index / group.shards});
  }
  return groups;
}

/// Assigns the devices of `pool` to stages on it and on groups of it. The largest pieces of nodes
/// come first, or in a single node the largest groups: each begins where a group of its type may.
void assignPool(const Cluster &cluster, const Placement &placement, int pool,
                ArrayRef<TypeRoom> rooms, std::vector<std::vector<DeviceRef>> &assigned) {
  std::vector<Piece> pieces;
  for (int type = 0; type < int(rooms.size()); ++type)
    if (rooms[type].pool == pool)
      append_range(pieces, piecesOf(placement, type, rooms[type].perNode));
  auto rank = [&](const Piece &piece) {
    const TypeRoom &room = rooms[piece.type];
    const int slots = piece.slots * room.shards;
    return rooms[pool].perNode > 1 ? std::pair(slots, room.shards) : std::pair(room.shards, slots);
  };
  stable_sort(pieces, [&](const Piece &a, const Piece &b) { return rank(a) > rank(b); });
  const std::vector<DeviceRef> devices = devicesOf(cluster, pool);
  size_t next = 0;
  for (const Piece &piece : pieces) {
    const int shards = rooms[piece.type].shards;
    assert(next + size_t(piece.devices) * shards <= devices.size() && "placement does not fit");
    const std::vector<DeviceRef> groups =
        groupsOf(cluster, piece.type, piece.devices, ArrayRef<DeviceRef>(devices).drop_front(next));
    divide(placement, piece.stages, piece.type, groups, assigned);
    next = std::min(next + size_t(piece.slots) * shards, devices.size());
  }
}
} // namespace

std::vector<NodeItem> nodeItemsOf(const Cluster &cluster, const Placement &placement,
                                  ArrayRef<TypeRoom> rooms) {
  std::vector<NodeItem> items;
  const std::vector<int> together = typesTogether(cluster, placement);
  auto add = [&](ArrayRef<int> types) {
    for (ChainItem &each : chainItemsOf(cluster, placement, types))
      items.push_back(std::move(each.item));
  };
  if (!together.empty())
    add(together);
  for (int type = 0; type < int(rooms.size()); ++type)
    if (!is_contained(together, type) && isPacked(placement, type, rooms[type]))
      add({type});
  return items;
}

/// Types of which some item lies in one node with others come first.
bool findRoom(const Cluster &cluster, ArrayRef<NodeItem> items) {
  std::set<int> types;
  for (const NodeItem &item : items)
    for (const NodePiece &piece : item.pieces)
      if (item.pieces.size() > 1)
        types.insert(piece.type);
  const std::vector<int> together(types.begin(), types.end());
  auto rest = find_if(items, [&](const NodeItem &item) {
    return !is_contained(together, item.pieces.front().type);
  });
  ArrayRef<NodeItem> first(items.begin(), rest);
  if (!first.empty() && !packTogether(first, together, devicesByNode(cluster, together)))
    return false;
  for (auto begin = rest, end = rest; begin != items.end(); begin = end) {
    std::vector<NodePiece> ofType;
    for (; end != items.end() && end->pieces.front().type == begin->pieces.front().type; ++end)
      ofType.push_back(end->pieces.front());
    if (!pack(cluster, ofType))
      return false;
  }
  return true;
}

void stateNodeSharing(const Cluster &cluster, ArrayRef<std::vector<DeviceRef>> devices,
                      Placement &placement) {
  auto areThere = [&](size_t stage, const std::string &node) {
    return all_of(devices[stage], [&](const DeviceRef &device) { return device.node == node; });
  };
  for (size_t stage = 0; stage < placement.stages.size(); ++stage) {
    DeviceGroup &group = placement.stages[stage].group;
    group.inOneNode =
        areThere(stage, devices[stage].front().node) && mayLieInOneNode(cluster, group);
  }
  for (size_t stage = 0; stage + 1 < placement.stages.size(); ++stage) {
    const std::string &node = devices[stage].front().node;
    setBeside(placement, stage,
              areThere(stage, node) && areThere(stage + 1, node) &&
                  mayShareNode(cluster, placement.stages[stage].group,
                               placement.stages[stage + 1].group));
  }
}

std::vector<std::vector<DeviceRef>>
assignDevices(const Cluster &cluster, const Placement &placement, ArrayRef<TypeRoom> rooms) {
  std::vector<std::vector<DeviceRef>> assigned(placement.stages.size());
  if (cluster.hasShardTypes()) {
    for (int type = 0; type < int(rooms.size()); ++type)
      if (rooms[type].pool == type)
        assignPool(cluster, placement, type, rooms, assigned);
    return assigned;
  }
  std::map<int, std::vector<std::vector<DeviceRef>>> together; // by type and stage
  if (const std::vector<int> types = typesTogether(cluster, placement); !types.empty())
    assignTogether(cluster, placement, types, together);
  for (int type = 0; type < static_cast<int>(cluster.types.size()); ++type)
    if (auto own = together.find(type); own != together.end())
      for (size_t stage = 0; stage < assigned.size(); ++stage)
        assigned[stage].insert(assigned[stage].end(), own->second[stage].begin(),
                               own->second[stage].end());
    else if (isPacked(placement, type, rooms[type]))
      assignPacked(cluster, placement, type, assigned);
    else
      assignFilling(cluster, placement, type, rooms[type].perNode, assigned);
  return assigned;
}

} // namespace heterplan
