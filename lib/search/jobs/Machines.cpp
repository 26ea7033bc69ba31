#include "search/jobs/Machines.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

namespace heterplan::jobs {

namespace {
int zoneOf(const Cluster &cluster, const NodeGroup &group) {
  for (size_t zone = 0; zone < cluster.zones.size(); ++zone)
    if (group.zone == cluster.zones[zone].name || group.zone.empty())
      return static_cast<int>(zone);
  return -1;
}

/// Sum over the CPU devices of a node.
template <typename Amount>
double sumOverCpus(const Cluster &cluster, const NodeGroup &group, Amount amount) {
  double sum = 0;
  for (const auto &[name, count] : group.devices)
    if (const DeviceType &type = cluster.types[cluster.typeIndex(name)];
        type.deviceClass == DeviceClass::Cpu)
      sum += amount(type) * count;
  return sum;
}
} // namespace

Machines::Machines(const Cluster &cluster) : source(&cluster) {
  for (size_t group = 0; group < cluster.nodes.size(); ++group)
    for (int index = 0; index < cluster.nodes[group].count; ++index)
      addNode(cluster.nodes[group], static_cast<int>(group), index);
}

int Machines::addAmount(int node, Resource kind, double amount) {
  amounts.push_back(std::floor(amount));
  owners.push_back(node);
  resourceKinds.push_back(kind);
  return static_cast<int>(amounts.size()) - 1;
}

void Machines::addNode(const NodeGroup &group, int groupIndex, int index) {
  int node = static_cast<int>(machines.size());
  Machine machine;
  machine.name = nodeName(group, index);
  machine.group = groupIndex;
  machine.zone = zoneOf(*source, group);
  machine.link = group.link.bandwidth;
  machine.firstSite = static_cast<int>(places.size());
  double cores = group.host.cores.value_or(
      sumOverCpus(*source, group, [](const DeviceType &type) { return type.cores; }));
  Bytes memory = group.host.memory.value_or(Bytes(
      sumOverCpus(*source, group, [](const DeviceType &type) { return type.memory.value(); })));
  int cpu = addAmount(node, Cpu, std::round(cores * partsOfCore));
  int bytes = addAmount(node, Memory, memory.value());
  for (const auto &[name, count] : group.devices) {
    int type = source->typeIndex(name);
    if (source->types[type].deviceClass == DeviceClass::Gpu)
      places.push_back({node, type, {cpu, bytes, addAmount(node, Gpu, count)}});
    else
      machine.cpuTypes.push_back(type);
  }
  if (static_cast<int>(places.size()) == machine.firstSite)
    places.push_back({node, -1, {cpu, bytes, addAmount(node, Gpu, 0)}});
  machine.sites = static_cast<int>(places.size()) - machine.firstSite;
  for (int site = 0; index == 0 && site < machine.sites; ++site)
    examples.push_back(machine.firstSite + site);
  auto known = llvm::find(cpuClasses, machine.cpuTypes);
  auto cpuClass = static_cast<int>(known - cpuClasses.begin());
  if (known == cpuClasses.end())
    cpuClasses.push_back(machine.cpuTypes);
  for (int site = 0; site < machine.sites; ++site) {
    Site &place = places[machine.firstSite + site];
    place.kind = static_cast<int>(examples.size()) - machine.sites + site;
    place.cpuClass = cpuClass;
  }
  machines.push_back(std::move(machine));
}

std::array<double, resources> Machines::totals() const {
  std::array<double, resources> sums{};
  for (size_t i = 0; i < amounts.size(); ++i)
    sums[resourceKinds[i]] += amounts[i];
  return sums;
}

BytesPerSecond Machines::network(int zone) const {
  return zone < 0 ? source->network.bandwidth : source->zones[zone].network.bandwidth;
}

int Machines::find(llvm::StringRef name) const {
  auto match =
      llvm::find_if(machines, [&](const Machine &machine) { return machine.name == name; });
  return match == machines.end() ? -1 : static_cast<int>(match - machines.begin());
}

std::string Machines::typeName(int site) const {
  const Machine &machine = machines[places[site].node];
  if (machine.sites > 1)
    return source->types[places[site].gpuType].name;
  return "";
}

void Machines::takeDown(int node) {
  for (size_t resource = 0; resource < amounts.size(); ++resource)
    if (owners[resource] == node)
      amounts[resource] = 0;
}

} // namespace heterplan::jobs
