#include "search/problem/DeviceGroups.h"

#include "ir/MicroBatches.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
/// Mixed groups are listed exhaustively up to this many count vectors, or count vectors times
/// ranges of consecutive layers.
constexpr int64_t mostMixedGroups = 128;
constexpr int64_t mostMixedStages = 16'384;
constexpr size_t mostTypesInSubsets = 6;
/// Ways of all numbers of devices of a type to lie in its nodes.
constexpr size_t mostSpreads = 32;
constexpr int mostFreeDevices = 64; // to look at them

/// All spreads of `count` devices in `nodes` nodes of `inNode` devices each.
SmallVector<Spread, 4> allSpreads(int count, int nodes, int inNode) {
  SmallVector<Spread, 4> spreads;
  for (int used = (count + inNode - 1) / inNode; used <= std::min(count, nodes); ++used)
    for (int most = (count + used - 1) / used; most <= std::min(inNode, count - used + 1); ++most)
      spreads.push_back({used, most});
  return spreads;
}
} // namespace

int devicesPerNode(const Cluster &cluster, int type) {
  int smallest = 0, nodes = 0;
  for (const NodeGroup &group : cluster.nodes) {
    auto entry = group.devices.find(cluster.types[type].name);
    if (entry == group.devices.end() || entry->second <= 0)
      continue;
    smallest = smallest ? std::min(smallest, entry->second) : entry->second;
    nodes += group.count;
  }
  return nodes > 1 ? smallest : 0;
}

int slotsFor(int count, int perNode) {
  if (perNode <= 1)
    return count;
  int whole = count / perNode * perNode, rest = count - whole;
  if (rest == 0)
    return whole;
  int size = perNode;
  for (int prime = 2; prime <= size;) { // shrink along a chain of divisors while the rest fits
    if (size % prime != 0) {
      ++prime;
      continue;
    }
    if (size / prime < rest)
      break;
    size /= prime;
  }
  return whole + size;
}

TypeRoom roomOf(const Cluster &cluster, int type, int available, bool fillsNothing) {
  TypeRoom room{available};
  room.pool = cluster.deviceTypeOf(type);
  room.shards = cluster.types[type].shards;
  int inNode = fillsNothing ? 0 : devicesPerNode(cluster, type);
  if (inNode < 2)
    return room;
  int devices = cluster.deviceCount(type), nodes = devices / inNode;
  size_t spreads = 0;
  for (int count = 1; count <= available && devices <= mostFreeDevices; ++count)
    spreads += allSpreads(count, nodes, inNode).size();
  if (devices > mostFreeDevices || spreads > mostSpreads)
    room.perNode = inNode;
  else {
    room.nodes = nodes;
    room.inNode = inNode;
  }
  return room;
}

SmallVector<Spread, 4> spreadsOf(const Cluster &cluster, int type, int count,
                                 const TypeRoom &room) {
  if (room.isFree())
    return allSpreads(count, room.nodes, room.inNode);
  return {spreadOf(cluster, {{{type, count}}}, 0)};
}

int slotsOfChain(ArrayRef<TypeRoom> rooms, int type, int devices) {
  // rounding up stops where a limit on devices does; the devices themselves count whatever it is
  return std::max(devices, std::min(slotsFor(devices, rooms[type].perNode), rooms[type].available));
}

GroupOption makeOption(const Cluster &cluster, DeviceGroup group, ArrayRef<TypeRoom> rooms) {
  GroupOption option;
  option.slots.assign(rooms.size(), 0);
  for (auto [type, count] : group.counts) {
    option.slots[rooms[type].pool] +=
        rooms[type].shards * (group.sharesNode() ? count : slotsOfChain(rooms, type, count));
    option.price += cluster.types[type].price * double(count);
  }
  option.side = BoundarySide::of(cluster, group);
  option.group = std::move(group);
  return option;
}

namespace {
/// Adds `group`, and once more where all of its devices may lie in one of several nodes.
void addGroup(const Cluster &cluster, DeviceGroup group, ArrayRef<TypeRoom> rooms,
              std::vector<GroupOption> &options) {
  const bool mayLieInOne = mayLieInOneNode(cluster, group);
  options.push_back(makeOption(cluster, group, rooms));
  if (!mayLieInOne)
    return;
  group.inOneNode = true;
  options.push_back(makeOption(cluster, std::move(group), rooms));
}
} // namespace

void addGroups(const Cluster &cluster, ArrayRef<int> counts, ArrayRef<TypeRoom> rooms,
               std::vector<GroupOption> &options) {
  SmallVector<std::pair<int, int>, 2> used;
  std::vector<SmallVector<Spread, 2>> all{{}};
  for (int type = 0; type < static_cast<int>(counts.size()); ++type) {
    if (counts[type] == 0)
      continue;
    used.push_back({type, counts[type]});
    std::vector<SmallVector<Spread, 2>> longer;
    for (const SmallVector<Spread, 2> &before : all)
      for (const Spread &own : spreadsOf(cluster, type, counts[type], rooms[type])) {
        longer.push_back(before);
        longer.back().push_back(own);
      }
    all = std::move(longer);
  }
  for (const SmallVector<Spread, 2> &spread : all)
    addGroup(cluster, spreadGroup(cluster, used, spread), rooms, options);
}

namespace {
/// How many neighbours with a device each may lie in the node of a stage on `group`.
int mostBeside(const Cluster &cluster, const DeviceGroup &group, const NodeChains &chains) {
  if (!isInOneNode(cluster, group) || !chains.mayHold(group))
    return 0;
  const int own = chains.chainOf(group);
  int most = 0;
  for (int other : chains.familyOf(group.counts.front().first))
    if (all_of(group.counts, [&](const auto &each) { return chains.mayShare(each.first, other); }))
      most += chains.devicesInNode(other) - chains.devicesOf(own, other);
  return most;
}
} // namespace

void addNodeSharing(const Cluster &cluster, ArrayRef<TypeRoom> rooms, const NodeChains &chains,
                    std::vector<GroupOption> &options) {
  const int plain = static_cast<int>(options.size());
  std::vector<int> onlyBefore(plain, -1), onlyNext(plain, -1); // by plain option
  for (auto [before, next] : {std::pair(true, false), {false, true}, {true, true}})
    for (int option = 0; option < plain; ++option) {
      DeviceGroup group = options[option].group;
      if (options[option].wholeModelOnly || mostBeside(cluster, group, chains) < before + next)
        continue;
      group.besideBefore = before;
      group.besideNext = next;
      const int index = static_cast<int>(options.size());
      GroupOption &added = options.emplace_back(makeOption(cluster, std::move(group), rooms));
      if (!next)
        onlyBefore[option] = index;
      if (!before)
        onlyNext[option] = index;
      added.plain = option;
      added.fromBefore = before ? onlyBefore[option] : option;
      added.fromBehind = next ? onlyNext[option] : option;
    }
}

std::set<int> usefulCounts(Samples batch, ArrayRef<int> microBatches, int available) {
  std::set<int> counts;
  for (int m : microBatches) {
    int64_t b = MicroBatches{batch, m}.fullSize();
    for (int64_t k = 1; k <= std::min<int64_t>(b, available);) {
      int64_t share = (b + k - 1) / k;
      counts.insert(static_cast<int>((b + share - 1) / share));
      if (share == 1)
        break;
      k = (b + share - 2) / (share - 1); // the least count with a smaller share
    }
  }
  return counts;
}

std::set<int> everyCount(Samples batch, int microBatches, int available) {
  std::set<int> counts;
  for (int k = 1; k <= std::min(MicroBatches{batch, microBatches}.fullSize(), int64_t(available));
       ++k)
    counts.insert(k);
  return counts;
}

bool mixedAreListed(const Problem &problem, ArrayRef<TypeRoom> rooms) {
  const int64_t layers = problem.graph.size(), ranges = layers * (layers + 1) / 2;
  const int64_t most = std::max(mostMixedGroups, mostMixedStages / ranges);
  int64_t vectors = 1;
  for (const TypeRoom &room : rooms)
    if ((vectors *= room.available + 1) > most)
      return false;
  return true;
}

/// Every vector of counts with at least two types, and no more devices than samples.
void addAllMixed(const Problem &problem, ArrayRef<TypeRoom> rooms,
                 std::vector<GroupOption> &options) {
  int64_t vectors = 1;
  for (const TypeRoom &room : rooms)
    vectors *= room.available + 1;
  std::vector<int> counts(rooms.size(), 0);
  for (int64_t code = 1; code < vectors; ++code) {
    int64_t rest = code;
    for (size_t type = 0; type < counts.size(); ++type) {
      counts[type] = static_cast<int>(rest % (rooms[type].available + 1));
      rest /= rooms[type].available + 1;
    }
    if (std::count_if(counts.begin(), counts.end(), [](int c) { return c > 0; }) > 1 &&
        Samples(std::accumulate(counts.begin(), counts.end(), 0)) <= problem.request.globalBatch)
      addGroups(problem.cluster, counts, rooms, options);
  }
}

DeviceGroup groupOfCounts(ArrayRef<int> counts) {
  DeviceGroup group;
  for (int type = 0; type < static_cast<int>(counts.size()); ++type)
    if (counts[type] > 0)
      group.counts.push_back({type, counts[type]});
  return group;
}

namespace {
/// Each subset of at least two types, whole, halved, quartered, ...: for one-stage plans.
void addScaledSubsets(const Cluster &cluster, ArrayRef<TypeRoom> rooms,
                      std::vector<GroupOption> &options) {
  size_t types = std::min(rooms.size(), mostTypesInSubsets);
  std::set<std::vector<int>> seen;
  for (unsigned subset = 1; subset < (1u << types); ++subset)
    for (int shift = 0; shift < 4; ++shift) {
      std::vector<int> counts(rooms.size(), 0);
      int members = 0;
      for (size_t type = 0; type < types; ++type)
        if (subset >> type & 1) {
          counts[type] = rooms[type].available >> shift;
          members += counts[type] > 0;
        }
      if (members < 2 || !seen.insert(counts).second)
        continue;
      const size_t first = options.size();
      addGroup(cluster, groupOfCounts(counts), rooms, options);
      for (GroupOption &option : MutableArrayRef<GroupOption>(options).drop_front(first))
        option.wholeModelOnly = true;
    }
}

/// Adds, for each type that lies in unlike nodes, every useful count above those of one class: the
/// largest classes first, all devices of each but the last.
void addAcrossClasses(const Problem &problem, ArrayRef<int> microBatches, ArrayRef<TypeRoom> rooms,
                      std::vector<GroupOption> &options) {
  std::map<std::string, std::vector<int>> classes;
  for (int type = 0; type < static_cast<int>(rooms.size()); ++type)
    classes[problem.cluster.types[type].stated()].push_back(type);
  for (auto &[name, types] : classes) {
    std::stable_sort(types.begin(), types.end(),
                     [&](int a, int b) { return rooms[a].available > rooms[b].available; });
    int total = 0;
    for (int type : types)
      total += rooms[type].available;
    for (int count : usefulCounts(problem.request.globalBatch, microBatches, total)) {
      std::vector<int> counts(rooms.size(), 0);
      for (int type : types)
        count -= counts[type] = std::min(count, rooms[type].available);
      if (types.size() > 1 && counts[types[1]] > 0)
        options.push_back(makeOption(problem.cluster, groupOfCounts(counts), rooms));
    }
  }
}
} // namespace

void addSomeMixed(const Problem &problem, ArrayRef<int> microBatches, ArrayRef<TypeRoom> rooms,
                  std::vector<GroupOption> &options) {
  addScaledSubsets(problem.cluster, rooms, options);
  addAcrossClasses(problem, microBatches, rooms, options);
}

} // namespace heterplan
