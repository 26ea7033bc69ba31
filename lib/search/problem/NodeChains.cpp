#include "search/problem/NodeChains.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
/// The most chains of a family of several types: bounds examine each chain at each cut.
constexpr int64_t mostChains = 128;

int smallestNode(const Cluster &cluster, int type) {
  int smallest = 0;
  for (const NodeGroup &group : cluster.nodes)
    if (auto entry = group.devices.find(cluster.types[type].name);
        entry != group.devices.end() && entry->second > 0)
      smallest = smallest ? std::min(smallest, entry->second) : entry->second;
  return smallest;
}
} // namespace

NodeChains::NodeChains(const Cluster &cluster, ArrayRef<int> available) {
  const int count = int(available.size());
  for (int type = 0; type < count; ++type)
    types.push_back({smallestNode(cluster, type)});
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < count; ++b)
      linked.push_back(available[a] > 0 && available[b] > 0 && mayMeetInNodes(cluster, a, b));
  for (int type = 0; type < count; ++type) {
    types[type].family = type;
    families.push_back({type});
  }
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b)
      if (areLinked(a, b))
        join(types[a].family, types[b].family);
  divideLargeFamilies();
  setStrides();
}

/// Makes one family of both.
void NodeChains::join(int family, int other) {
  if (family == other)
    return;
  for (int type : families[other])
    types[type].family = family;
  families[family].insert(families[family].end(), families[other].begin(), families[other].end());
  sort(families[family]);
  families[other].clear();
}

/// So that each type is one of its own.
void NodeChains::divideLargeFamilies() {
  for (size_t family = 0; family < families.size(); ++family) {
    int64_t chains = 1;
    for (int type : families[family])
      chains = std::min(chains * (types[type].inNode + 1), mostChains + 1);
    if (chains <= mostChains || families[family].size() < 2)
      continue;
    dividesFamilies = true;
    for (int type : std::vector<int>(families[family])) {
      types[type].family = type;
      families[type] = {type};
    }
  }
}

void NodeChains::setStrides() {
  for (const std::vector<int> &family : families) {
    int chains = 1;
    for (int type : family) {
      types[type].stride = chains;
      chains *= types[type].inNode + 1;
    }
    wholes.push_back(chains - 1);
  }
}

int NodeChains::chainOf(const DeviceGroup &group) const {
  int chain = 0;
  for (auto [type, count] : group.counts)
    chain += chainOf(type, count);
  return chain;
}

bool NodeChains::mayHold(const DeviceGroup &group) const {
  return all_of(group.counts, [&](const auto &each) {
    return areOfOneFamily(each.first, group.counts.front().first);
  });
}

bool NodeChains::fitTogether(int a, int b, int type) const {
  return all_of(familyOf(type), [&](int each) {
    return devicesOf(a, each) + devicesOf(b, each) <= types[each].inNode;
  });
}

bool NodeChains::isWithin(int a, int b, int type) const {
  return all_of(familyOf(type), [&](int each) { return devicesOf(a, each) <= devicesOf(b, each); });
}

} // namespace heterplan
