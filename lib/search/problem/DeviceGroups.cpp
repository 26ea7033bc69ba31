#include "search/problem/DeviceGroups.h"

#include "ir/MicroBatches.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
/// Mixed groups are listed exhaustively up to this many count vectors.
constexpr int64_t mostMixedGroups = 128;
constexpr size_t mostTypesInSubsets = 6;
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

bool mixedAreListed(ArrayRef<int> available) {
  int64_t vectors = 1;
  for (int count : available)
    if ((vectors *= count + 1) > mostMixedGroups)
      return false;
  return true;
}

namespace {
/// Every vector of counts with at least two types.
void addAllMixed(const Cluster &cluster, ArrayRef<int> available, ArrayRef<int> perNode,
                 std::vector<GroupOption> &options) {
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

void addMixedGroups(const Problem &problem, ArrayRef<int> microBatches, ArrayRef<int> available,
                    ArrayRef<int> perNode, std::vector<GroupOption> &options) {
  if (mixedAreListed(available))
    return addAllMixed(problem.cluster, available, perNode, options);
  addScaledSubsets(problem.cluster, available, perNode, options);
  addAcrossClasses(problem, microBatches, available, perNode, options);
}

} // namespace heterplan
