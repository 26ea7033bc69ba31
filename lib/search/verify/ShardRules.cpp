#include "search/verify/ShardRules.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <map>
#include <set>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {

Finding finding(const char *name, const char *unit, double slack, const std::string &because) {
  return {{name, because.empty(), because.empty() ? 0 : slack, unit}, because};
}

std::string nameOf(const DeviceRef &device) {
  return device.type + " " + std::to_string(device.index) + " of '" + device.node + "'";
}

/// The devices of each type that each node has.
std::map<std::string, std::map<std::string, int>> devicesOf(const Cluster &cluster) {
  std::map<std::string, std::map<std::string, int>> nodes;
  for (const NodeGroup &group : cluster.nodes)
    for (int i = 0; i < group.count; ++i)
      nodes[nodeName(group, i)] = group.devices;
  return nodes;
}

class GroupRule {
public:
  explicit GroupRule(const Cluster &cluster) : nodes(devicesOf(cluster)) {}

  /// The first reason why a replica is no group; "": it is one.
  std::string check(const Stage &stage, const Replica &replica) {
    const std::vector<DeviceRef> &devices = replica.devices;
    const int degree = stage.sharding.degree;
    if (devices.size() != size_t(degree))
      return "it has " + std::to_string(devices.size()) + " devices, not " + std::to_string(degree);
    for (const DeviceRef &device : devices) {
      if (device.type != devices[0].type || device.node != devices[0].node)
        return nameOf(device) + " does not lie with " + nameOf(devices[0]);
      if (device.index < 0 || device.index >= nodes[device.node][device.type])
        return nameOf(device) + " is not in the cluster";
      if (!used.insert({device.node, device.type, device.index}).second)
        return nameOf(device) + " is named twice";
    }
    return "";
  }

private:
  std::map<std::string, std::map<std::string, int>> nodes;
  std::set<std::tuple<std::string, std::string, int>> used;
};

double elements(const GraphTensor &tensor) {
  double count = 1;
  for (const Dim &dim : tensor.shape)
    count *= double(dim.fixed);
  return count;
}

/// The axes along which `own` is shorter than `whole`; none if it is no part of it.
std::optional<std::vector<size_t>> shorterAxes(const Shape &own, const Shape &whole, int degree) {
  if (own.size() != whole.size())
    return std::nullopt;
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    if (own[axis] == whole[axis])
      continue;
    if (own[axis].perSample != whole[axis].perSample ||
        own[axis].fixed * degree != whole[axis].fixed)
      return std::nullopt;
    axes.push_back(axis);
  }
  return axes;
}

/// Why tensor `id` of a shard is neither whole nor a slice; "": it is.
std::string sliceFault(const Graph &whole, const LocalGraph &local, size_t id) {
  const GraphTensor &stated = whole.tensors[id], &own = local.graph.tensors[id];
  auto axes = shorterAxes(own.shape, stated.shape, local.degree);
  const ShardState &state = local.states[id];
  std::vector<size_t> expected;
  if (state.isSharded())
    expected.push_back(size_t(state.axis));
  if (axes && *axes == expected && own.type == stated.type)
    return "";
  return "'" + stated.name + "' of a shard is neither the tensor nor a slice of it";
}

} // namespace

Finding checkShardGroups(const Plan &plan, const Cluster &cluster) {
  GroupRule rule(cluster);
  std::string because;
  int wrong = 0;
  for (const Stage &stage : plan.stages)
    for (size_t i = 0; i < stage.replicas.size(); ++i) {
      std::string fault = rule.check(stage, stage.replicas[i]);
      wrong += !fault.empty();
      if (!fault.empty() && because.empty())
        because = "replica " + std::to_string(i) + " of stage " + std::to_string(stage.id) +
                  " is no group of devices that share layers: " + fault;
    }
  return finding("shard-groups", "replicas", -wrong, because);
}

Finding checkShardSlices(const Graph &whole, const LocalGraph &local, const LayerGraph &layers) {
  StringMap<double> bytes; // of what a shard has of each parameter
  for (size_t id = 0; id < whole.tensors.size(); ++id) {
    const GraphTensor &tensor = whole.tensors[id];
    if (!isStored(tensor.role))
      continue;
    if (std::string fault = sliceFault(whole, local, id); !fault.empty())
      return finding("shard-slices", "bytes", -1, fault);
    const int parts = local.states[id].isSharded() ? local.degree : 1;
    bytes[tensor.name] = elements(tensor) * double(sizeOf(tensor.type)) / parts;
  }
  std::set<std::string> names;
  double stated = 0, found = 0;
  for (const Layer &layer : layers.layers) {
    stated += layer.parameterBytes.value();
    names.insert(layer.parameters.begin(), layer.parameters.end());
  }
  for (const std::string &name : names)
    found += bytes.lookup(name);
  constexpr double agreement = 1e-6;
  if (std::abs(stated - found) <= agreement * found)
    return finding("shard-slices", "bytes", 0, "");
  return finding("shard-slices", "bytes", -std::abs(stated - found),
                 "the layers of a shard have " + std::to_string(int64_t(stated)) +
                     " bytes of parameters, and its slices " + std::to_string(int64_t(found)));
}

} // namespace heterplan
