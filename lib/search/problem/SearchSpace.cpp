#include "search/problem/SearchSpace.h"

#include "cost/ShardGroups.h"
#include "cost/TrafficPrice.h"
#include "ir/PlanShards.h"
#include "search/problem/MicroBatchCounts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
/// More numbers of micro-batches are thinned.
constexpr size_t mostMicroBatchChoices = 128;
/// With sparse tables every number of devices of a type up to this many is a choice of its own.
constexpr int mostTableCounts = 16;
/// Whether replicas may divide their state, of which more devices hold less each.
bool mayShardState(const Request &request, const IterationRules &rules) {
  return rules.savesMemory() && request.mayDivideState() && !request.ignoreMemory;
}

/// Whether the time of any layer falls with more samples on a type with devices.
bool anyTimesFall(const Problem &problem, ArrayRef<int> available) {
  for (size_t type = 0; type < available.size(); ++type)
    for (const Layer &layer : problem.graph.layers)
      if (available[type] > 0 && problem.costs &&
          problem.costs->mayFall(layer, problem.cluster.types[type]))
        return true;
  return false;
}

bool hasTables(const LayerGraph &graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(),
                     [](const Layer &layer) { return !layer.tables.empty(); });
}
} // namespace

SearchSpace::SearchSpace(const Problem &problem, std::vector<int> cuts)
    : positions(cuts.empty() ? narrowCuts(problem) : std::move(cuts)),
      rules(rulesOf(problem.request.iterationModel)) {
  const Request &request = problem.request;
  const bool fitted = rules.fitsSizes();
  listRooms(problem);
  if (request.microBatches > 0)
    microBatches = {request.microBatches};
  else if (fitted)
    microBatches = {steadyMicroBatches(problem)};
  else
    microBatches = microBatchChoices(request.globalBatch, mostMicroBatchChoices);
  int pieces = static_cast<int>(positions.size()) - 1;
  minStages = request.schedule == ScheduleChoice::Pipeline ? 2 : 1;
  maxStages = request.schedule == ScheduleChoice::DataParallel ? 1 : pieces;
  listOptions(problem);
  nameWhatIsLeftOut(problem);
}

/// If sizes are fitted, the first node classes of a type have all of its limit. If so few groups
/// are possible that all are options, devices may be anywhere in their nodes.
void SearchSpace::listRooms(const Problem &problem) {
  sharedLimits = problem.sharedLimits();
  for (int type = 0; type < static_cast<int>(problem.cluster.types.size()); ++type)
    available.push_back(problem.availableDevices(type));
  if (rules.fitsSizes())
    for (const Problem::SharedLimit &limit : sharedLimits) {
      int left = limit.most;
      for (int type : limit.types)
        left -= available[type] = std::min(available[type], left);
    }
  chains = NodeChains(problem.cluster, available);
  for (size_t type = 0; type < available.size(); ++type)
    rooms.push_back(roomOf(problem.cluster, int(type), available[type], rules.fitsSizes()));
  listsMixed = mixedAreListed(problem, rooms);
  if (!listsMixed || problem.cluster.hasShardTypes()) // there is more to do
    for (TypeRoom &room : rooms)
      if (room.isFree()) {
        room.perNode = room.inNode;
        room.nodes = room.inNode = 0;
      }
}

namespace {
/// Whether the devices of a stage stand for equal numbers of devices, and there are enough.
bool isOfOneDegree(const GroupOption &option, ArrayRef<TypeRoom> rooms) {
  for (auto [type, count] : option.group.counts)
    if (rooms[type].shards != rooms[option.group.counts.front().first].shards)
      return false;
  for (size_t type = 0; type < rooms.size(); ++type)
    if (option.slots[type] > rooms[type].available)
      return false;
  return true;
}
} // namespace

bool SearchSpace::keepsSharedLimits(ArrayRef<int> devices) const {
  return all_of(sharedLimits, [&](const Problem::SharedLimit &limit) {
    int used = 0;
    for (int type : limit.types)
      used += devices[type];
    return used <= limit.most;
  });
}

SearchedSpace SearchSpace::searched(const std::vector<std::string> &besides, bool foundNone) const {
  SearchedSpace space{rules.fitsSizes() ? "steady-state" : "pipelines", besides};
  if (!countsLeftOut.empty() && (countsDecide || !foundNone))
    space.leftOut.push_back(countsLeftOut);
  space.leftOut.insert(space.leftOut.end(), leftOut.begin(), leftOut.end());
  if (!space.leftOut.empty())
    space.name += "-reduced";
  return space;
}

void SearchSpace::nameWhatIsLeftOut(const Problem &problem) {
  auto some = [&](size_t kept, size_t all, const char *what) {
    if (kept < all)
      leftOut.push_back(std::to_string(all - kept) + " of " + std::to_string(all) + " " + what);
  };
  some(positions.size() - 2, innerCutCount(problem), "cuts");
  if (rules.fitsSizes()) {
    if (!sharedLimits.empty())
      leftOut.push_back("the nodes of limited types behind the first ones");
    return;
  }
  Samples batch = problem.request.globalBatch;
  size_t useful = usefulMicroBatches(batch).size();
  if (problem.request.microBatches == 0 && microBatches.size() < useful)
    countsLeftOut = std::to_string(useful - microBatches.size()) + " of " + std::to_string(useful) +
                    " numbers of micro-batches";
  const Request &request = problem.request;
  countsDecide = !request.ignoreMemory || std::isfinite(request.longestIteration().value()) ||
                 std::isfinite(request.highestCost().value());
  int mostOfAType = *std::max_element(available.begin(), available.end());
  bool eachCountMatters = hasTables(problem.graph) || mayShardState(problem.request, rules);
  if (eachCountMatters && mostOfAType > mostTableCounts)
    leftOut.push_back("most numbers of devices above " + std::to_string(mostTableCounts));
  auto types = std::count_if(available.begin(), available.end(), [](int n) { return n > 0; });
  if (types > 1 && !listsMixed)
    leftOut.push_back("most mixes of device types in a stage");
  if (chargesTraffic(problem.cluster) && types > 1)
    leftOut.push_back("stages in several zones, of which one charges for traffic");
  if (any_of(options, [&](const GroupOption &option) {
        return any_of(option.group.counts, [&](const auto &count) {
          const TypeRoom &room = rooms[count.first];
          return option.slots[room.pool] != count.second * room.shards;
        });
      }))
    leftOut.push_back("sharing of a node that a stage uses in part");
  if (any_of(rooms, [](const TypeRoom &room) { return room.available > 1 && room.perNode > 1; }))
    leftOut.push_back("stages in more nodes than they fill");
  nameDegreesLeftOut(problem);
  if (sharesNodes() && chains.leavesOut())
    leftOut.push_back("neighbours of unlike types in one node");
  if (batch > Samples(2) && mostOfAType > 1 && anyTimesFall(problem, available))
    leftOut.push_back("uneven shares, where more samples take less time");
}

/// Stages of one degree each are searched, on types whose nodes the degrees divide.
void SearchSpace::nameDegreesLeftOut(const Problem &problem) {
  if (problem.graph.degrees().size() == 1)
    return;
  leftOut.push_back(unequalReplicas);
  if (sharesNodes())
    leftOut.push_back("neighbours of unlike types or degrees in one node of several");
  if (!hasAllShardTypes(problem.cluster, problem.graph.degrees()))
    leftOut.push_back("degrees that do not divide the devices of a node");
  if (any_of(problem.graph.layers, [](const Layer &layer) { return layer.continuesStage; }))
    leftOut.push_back("cuts at which the devices of a degree have slices");
}

void SearchSpace::listOptions(const Problem &problem) {
  const Request &request = problem.request;
  int types = static_cast<int>(available.size());
  const bool fitted = rules.fitsSizes();
  if (fitted)
    everyCountUpTo = std::numeric_limits<int>::max();
  else if (hasTables(problem.graph) || mayShardState(request, rules))
    everyCountUpTo = mostTableCounts;
  auto countsOf = [&](int most) {
    if (fitted)
      return everyCount(request.globalBatch, microBatches.front(), most);
    std::set<int> counts = usefulCounts(request.globalBatch, microBatches, most);
    counts.merge(
        everyCount(request.globalBatch, microBatches.front(), std::min(most, everyCountUpTo)));
    return counts;
  };
  for (int type = 0; type < types; ++type)
    for (int count : countsOf(available[type])) {
      std::vector<int> counts(types, 0);
      counts[type] = count;
      addGroups(problem.cluster, counts, rooms, options);
    }
  if (!fitted && listsMixed)
    addAllMixed(problem, rooms, options);
  else if (!fitted)
    addSomeMixed(problem, microBatches, rooms, options);
  const DollarsPerHour budget = request.maxCostPerHour * (1 + 1e-9); // 0: none
  erase_if(options, [&](const GroupOption &option) {
    return !keepsSharedLimits(option.slots) || (budget.value() > 0 && option.price > budget);
  });
  if (problem.cluster.hasShardTypes())
    erase_if(options, [&](const GroupOption &option) { return !isOfOneDegree(option, rooms); });
  if (chargesTraffic(problem.cluster))
    erase_if(options,
             [&](const GroupOption &option) { return !zoneOf(problem.cluster, option.group); });
  for (int option = 0; option < int(options.size()); ++option)
    options[option].plain = options[option].fromBefore = options[option].fromBehind = option;
  if (sharesNodes())
    addNodeSharing(problem.cluster, rooms, chains, options);
  listChains();
}

void SearchSpace::listChains() {
  for (const GroupOption &option : options) {
    const bool mayBeInChain = chains.mayHold(option.group);
    ownChains.push_back(mayBeInChain ? chains.chainOf(option.group) : option.group.deviceCount());
    chainLists.push_back(listChainsOf(option.group));
  }
}

std::vector<int> SearchSpace::listChainsOf(const DeviceGroup &group) const {
  const int type = group.counts.front().first, own = ownChains.back();
  std::vector<int> list;
  if (!group.besideNext)
    return {own};
  for (int chain = own + 1; chain + group.besideBefore <= chains.wholeNode(type); ++chain)
    if (chains.isWithin(own, chain, type))
      list.push_back(chain);
  return list;
}

int SearchSpace::leastChain(int option) const {
  const bool isLeast = !chains.hasSeveralTypes(options[option].group.counts.front().first);
  return isLeast ? chainLists[option].front() : ownChains[option];
}

bool SearchSpace::mayShareNode(const DeviceGroup &group, const DeviceGroup &next) const {
  auto isInOne = [&](const DeviceGroup &of) {
    if (of.counts.size() > 1)
      return of.inOneNode;
    auto [type, count] = of.counts.front();
    return of.spread.empty() ? count <= chains.devicesInNode(type) : of.spread.front().nodes == 1;
  };
  return isInOne(group) && isInOne(next) && fitIntoNode(group, next);
}

/// Two neighbours that lie in one node each, in the same one.
bool SearchSpace::fitIntoNode(const DeviceGroup &group, const DeviceGroup &next) const {
  for (auto [type, count] : group.counts)
    for (auto [other, more] : next.counts)
      if (!chains.areLinked(type, other) ||
          (type == other && count + more > chains.devicesInNode(type)))
        return false;
  return true;
}

size_t SearchSpace::stages(size_t cuts) const {
  auto plain = count_if(options, [](const GroupOption &each) { return !each.group.sharesNode(); });
  return cuts * (cuts - 1) / 2 * size_t(plain);
}

bool SearchSpace::mayFollow(const DeviceGroup &group, const DeviceGroup &next) const {
  return rules.mayFollow(group, next) && group.besideNext == next.besideBefore &&
         (!group.besideNext || fitIntoNode(group, next));
}

bool SearchSpace::mayFollow(int option, int next) const {
  if (option < 0 || next < 0)
    return option < 0 ? next < 0 || !options[next].group.besideBefore
                      : !options[option].group.besideNext;
  const DeviceGroup &group = options[option].group, &behind = options[next].group;
  return mayFollow(group, behind) &&
         (!group.besideNext ||
          chains.mayShare(group.counts.front().first, behind.counts.front().first));
}

bool SearchSpace::isUseful(const GroupOption &option, int64_t batch) const {
  int64_t devices = option.group.replicas();
  if (devices > batch || option.group.counts.size() > 1 || devices <= everyCountUpTo)
    return devices <= batch;
  int64_t share = (batch + devices - 1) / devices;
  return devices == (batch + share - 1) / share;
}

GroupOption SearchSpace::optionOf(const Problem &problem, const DeviceGroup &group) const {
  return makeOption(problem.cluster, group, rooms);
}

} // namespace heterplan
