#include "search/problem/SearchSpace.h"

#include "ir/MicroBatches.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int mostPositions = 40;
constexpr int mostFittedPositions = 256; // where a stage is merged with its neighbours
constexpr int mostSteadyMicroBatches = 256;
/// More numbers of micro-batches are thinned.
constexpr size_t mostMicroBatchChoices = 128;
/// Mixed groups are listed exhaustively up to this many count vectors.
constexpr int64_t mostMixedGroups = 128;
constexpr size_t mostTypesInSubsets = 6;
/// With sparse tables every number of devices of a type up to this many is a choice of its own.
constexpr int mostTableCounts = 16;
/// Likewise where replicas may divide their state, of which more devices hold less each.
bool mayShardState(const Request &request, const IterationRules &rules) {
  return rules.savesMemory() && request.shardState != StateSharding::None && !request.ignoreMemory;
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

namespace {
GroupOption makeOption(const Cluster &cluster, ArrayRef<int> counts, ArrayRef<int> available,
                       ArrayRef<int> perNode) {
  GroupOption option;
  option.slots.assign(counts.size(), 0);
  for (int type = 0; type < static_cast<int>(counts.size()); ++type)
    if (counts[type] > 0) {
      option.group.counts.push_back({type, counts[type]});
      option.slots[type] = std::min(slotsFor(counts[type], perNode[type]), available[type]);
      option.price += cluster.types[type].price * double(counts[type]);
    }
  return option;
}

/// Counts of one type worth considering: with k devices the largest share of a micro-batch of b is
/// ⌈b/k⌉, and the least k for a share is never worse (fewer devices, a smaller ring). So only the k
/// = ⌈b/share⌉ of each micro-batch size remain. (Where there are no sparse tables, of which more
/// devices hold less each.)
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

/// Amdahl's law gains with every unit.
std::set<int> everyCount(Samples batch, int microBatches, int available) {
  std::set<int> counts;
  for (int k = 1; k <= std::min(MicroBatches{batch, microBatches}.fullSize(), int64_t(available));
       ++k)
    counts.insert(k);
  return counts;
}

bool hasTables(const LayerGraph &graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(),
                     [](const Layer &layer) { return !layer.tables.empty(); });
}

/// Whether there are few vectors of counts.
bool mixedAreListed(ArrayRef<int> available) {
  int64_t vectors = 1;
  for (int count : available)
    if ((vectors *= count + 1) > mostMixedGroups)
      return false;
  return true;
}

/// Every vector of counts with at least two types, if there are few.
bool addAllMixed(const Cluster &cluster, ArrayRef<int> available, ArrayRef<int> perNode,
                 std::vector<GroupOption> &options) {
  if (!mixedAreListed(available))
    return false;
  int64_t vectors = 1;
  for (int count : available)
    vectors *= count + 1;
  std::vector<int> counts(available.size(), 0);
  for (int64_t code = 1; code < vectors; ++code) {
    int64_t rest = code;
    for (size_t type = 0; type < counts.size(); ++type) {
      counts[type] = static_cast<int>(rest % (available[type] + 1));
      rest /= available[type] + 1;
    }
    if (std::count_if(counts.begin(), counts.end(), [](int c) { return c > 0; }) > 1)
      options.push_back(makeOption(cluster, counts, available, perNode));
  }
  return true;
}

/// Each subset of at least two types, whole, halved, quartered, ...: for one-stage plans.
void addScaledSubsets(const Cluster &cluster, ArrayRef<int> available, ArrayRef<int> perNode,
                      std::vector<GroupOption> &options) {
  size_t types = std::min(available.size(), mostTypesInSubsets);
  std::set<std::vector<int>> seen;
  for (unsigned subset = 1; subset < (1u << types); ++subset)
    for (int shift = 0; shift < 4; ++shift) {
      std::vector<int> counts(available.size(), 0);
      int members = 0;
      for (size_t type = 0; type < types; ++type)
        if (subset >> type & 1) {
          counts[type] = available[type] >> shift;
          members += counts[type] > 0;
        }
      if (members < 2 || !seen.insert(counts).second)
        continue;
      options.push_back(makeOption(cluster, counts, available, perNode));
      options.back().wholeModelOnly = true;
    }
}
/// Of each type that lies in unlike nodes every useful count above those of one class: the largest
/// classes first, all of each but the last.
void addAcrossClasses(const Problem &problem, ArrayRef<int> microBatches, ArrayRef<int> available,
                      ArrayRef<int> perNode, std::vector<GroupOption> &options) {
  std::map<std::string, std::vector<int>> classes;
  for (int type = 0; type < static_cast<int>(available.size()); ++type)
    classes[problem.cluster.types[type].stated()].push_back(type);
  for (auto &[name, types] : classes) {
    std::stable_sort(types.begin(), types.end(),
                     [&](int a, int b) { return available[a] > available[b]; });
    int total = 0;
    for (int type : types)
      total += available[type];
    for (int count : usefulCounts(problem.request.globalBatch, microBatches, total)) {
      std::vector<int> counts(available.size(), 0);
      for (int type : types)
        count -= counts[type] = std::min(count, available[type]);
      if (types.size() > 1 && counts[types[1]] > 0)
        options.push_back(makeOption(problem.cluster, counts, available, perNode));
    }
  }
}
} // namespace

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

int steadyMicroBatches(const Problem &problem) {
  int64_t batch = problem.request.globalBatch.value(), least = 1;
  for (int type = 0; type < static_cast<int>(problem.cluster.types.size()); ++type)
    least = std::max<int64_t>(least, problem.cluster.deviceCount(type));
  int64_t smallest = (batch + mostSteadyMicroBatches - 1) / mostSteadyMicroBatches;
  least = std::min(batch, std::max(least, smallest));
  auto countFor = [&](int64_t size) { return (batch + size - 1) / size; };
  int64_t best = least;
  for (int64_t size = least; size < 2 * least && size <= batch; ++size)
    if (size * countFor(size) < best * countFor(best))
      best = size;
  return static_cast<int>(countFor(best));
}

std::vector<int> usefulMicroBatches(Samples batch) {
  std::vector<int> counts;
  int64_t all = batch.value();
  for (int64_t size = all; size >= 1;) {
    int64_t count = (all + size - 1) / size;
    counts.push_back(static_cast<int>(count));
    size = (all + count - 1) / count - 1; // the largest that needs more
  }
  return counts;
}

std::vector<int> microBatchChoices(Samples batch, size_t most) {
  std::vector<int> counts = usefulMicroBatches(batch);
  if (counts.size() <= most)
    return counts;
  auto filled = [&](int count) { return MicroBatches{batch, count}.fullSize() * count; };
  std::vector<int> chosen;
  for (size_t i = 0; i < counts.size();) {
    int64_t first = counts[i];
    int best = counts[i];
    for (; i < counts.size() && counts[i] < 2 * first; ++i)
      if (filled(counts[i]) < filled(best))
        best = counts[i];
    chosen.push_back(best);
  }
  if (chosen.back() != counts.back())
    chosen.push_back(counts.back());
  return chosen;
}

std::vector<std::pair<int, int>> separatedPairs(const Problem &problem) {
  const LayerGraph &graph = problem.graph;
  std::vector<std::pair<int, int>> pairs;
  for (const LayerSet &set : problem.request.separations) {
    std::set<int> layers;
    for (const std::string &layer : set)
      layers.insert(graph.find(layer));
    for (auto layer = layers.begin(); std::next(layer) != layers.end(); ++layer)
      pairs.push_back({*layer, *std::next(layer)});
  }
  std::map<int, std::string> pinned;
  for (const Pin &pin : problem.request.pins)
    pinned.emplace(graph.find(pin.layer), pin.type);
  for (auto pin = pinned.begin(); pin != pinned.end(); ++pin)
    if (auto next = std::next(pin); next != pinned.end() && next->second != pin->second)
      pairs.push_back({pin->first, next->first});
  return pairs;
}

namespace {
/// Where a cut parts neither a tied parameter nor layers that are to be together.
std::vector<bool> allowedCuts(const Problem &problem) {
  std::vector<bool> allowed = problem.graph.allowedCuts();
  for (const LayerSet &set : problem.request.colocations) {
    int first = problem.graph.size(), last = 0;
    for (const std::string &layer : set) {
      first = std::min(first, problem.graph.find(layer));
      last = std::max(last, problem.graph.find(layer));
    }
    std::fill(allowed.begin() + first + 1, allowed.begin() + last + 1, false);
  }
  return allowed;
}

/// The cuts that may be, the best first: series positions, then narrow ones; how many are series.
std::pair<std::vector<Cut>, size_t> rankedCuts(const Problem &problem) {
  const LayerGraph &graph = problem.graph;
  std::vector<Cut> cuts = graph.cuts();
  std::vector<bool> allowed = allowedCuts(problem);
  auto crossing = [&](const Cut &cut) {
    return std::count_if(cut.tensors.begin(), cut.tensors.end(),
                         [&](int tensor) { return graph.tensors[tensor].differentiable; });
  };
  std::vector<Cut> inner(cuts.begin() + 1, cuts.end() - 1);
  inner.erase(std::remove_if(inner.begin(), inner.end(),
                             [&](const Cut &cut) { return !allowed[cut.position]; }),
              inner.end());
  std::stable_sort(inner.begin(), inner.end(), [&](const Cut &a, const Cut &b) {
    bool aBranched = crossing(a) > 1, bBranched = crossing(b) > 1;
    return aBranched != bBranched ? bBranched : a.forwardBytes < b.forwardBytes;
  });
  size_t series =
      std::count_if(inner.begin(), inner.end(), [&](const Cut &cut) { return crossing(cut) <= 1; });
  return {std::move(inner), series};
}
} // namespace

std::vector<int> cutPositions(const Problem &problem, int limit) {
  auto [ranked, series] = rankedCuts(problem);
  std::set<int> positions{0, problem.graph.size()};
  if (series > static_cast<size_t>(limit)) { // a long chain: spread evenly
    std::vector<int> chain;
    for (size_t i = 0; i < series; ++i)
      chain.push_back(ranked[i].position);
    std::sort(chain.begin(), chain.end());
    for (int i = 0; i < limit; ++i)
      positions.insert(chain[i * series / limit]);
  } else {
    for (size_t i = 0; i < std::min<size_t>(ranked.size(), limit); ++i)
      positions.insert(ranked[i].position);
  }
  for (auto [first, second] : separatedPairs(problem)) {
    auto between = [first = first, second = second](int position) {
      return position > first && position <= second;
    };
    auto best = find_if(ranked, [&](const Cut &cut) { return between(cut.position); });
    if (best != ranked.end() && none_of(positions, between))
      positions.insert(best->position);
  }
  return {positions.begin(), positions.end()};
}

std::vector<int> narrowCuts(const Problem &problem) {
  const bool fitted = rulesOf(problem.request.iterationModel).fitsSizes();
  return cutPositions(problem, fitted ? mostFittedPositions : mostPositions);
}

std::vector<int> everyCut(const Problem &problem) {
  if (rulesOf(problem.request.iterationModel).fitsSizes())
    return narrowCuts(problem);
  return cutPositions(problem, problem.graph.size());
}

SearchSpace::SearchSpace(const Problem &problem, std::vector<int> cuts)
    : positions(cuts.empty() ? narrowCuts(problem) : std::move(cuts)),
      rules(rulesOf(problem.request.iterationModel)) {
  const Request &request = problem.request;
  const bool fitted = rules.fitsSizes();
  for (int type = 0; type < static_cast<int>(problem.cluster.types.size()); ++type) {
    available.push_back(problem.availableDevices(type));
    perNode.push_back(fitted ? 0 : devicesPerNode(problem.cluster, type));
  }
  if (request.microBatches > 0)
    microBatches = {request.microBatches};
  else if (fitted)
    microBatches = {steadyMicroBatches(problem)};
  else
    microBatches = microBatchChoices(request.globalBatch, mostMicroBatchChoices);
  listOptions(problem);
  int pieces = static_cast<int>(positions.size()) - 1;
  minStages = request.schedule == ScheduleChoice::Pipeline ? 2 : 1;
  maxStages = request.schedule == ScheduleChoice::DataParallel ? 1 : pieces;
  nameWhatIsLeftOut(problem);
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
  some(positions.size() - 2, rankedCuts(problem).first.size(), "cuts");
  if (any_of(problem.request.deviceLimits, [&](const DeviceLimit &limit) {
        return problem.cluster.typesCalled(limit.type).size() > 1;
      }))
    leftOut.push_back("the nodes of limited types behind the first ones");
  if (rules.fitsSizes())
    return;
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
  if (types > 1 && !mixedAreListed(available))
    leftOut.push_back("most mixes of device types in a stage");
  if (any_of(options, [](const GroupOption &option) {
        return any_of(option.group.counts,
                      [&](const auto &count) { return option.slots[count.first] != count.second; });
      }))
    leftOut.push_back("sharing of a node that a stage uses in part");
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
      options.push_back(makeOption(problem.cluster, counts, available, perNode));
    }
  if (!fitted && !addAllMixed(problem.cluster, available, perNode, options)) {
    addScaledSubsets(problem.cluster, available, perNode, options);
    addAcrossClasses(problem, microBatches, available, perNode, options);
  }
}

bool SearchSpace::isUseful(const GroupOption &option, int64_t batch) const {
  int64_t devices = option.group.size();
  if (devices > batch || option.group.counts.size() > 1 || devices <= everyCountUpTo)
    return devices <= batch;
  int64_t share = (batch + devices - 1) / devices;
  return devices == (batch + share - 1) / share;
}

GroupOption SearchSpace::optionOf(const Problem &problem, const DeviceGroup &group) const {
  std::vector<int> counts(available.size(), 0);
  for (auto [type, count] : group.counts)
    counts[type] = count;
  return makeOption(problem.cluster, counts, available, perNode);
}

} // namespace heterplan
