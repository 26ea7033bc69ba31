// Relaxations by more devices: those that a limit leaves out, and more nodes like those there are.
#include "search/explain/Relax.h"

#include <algorithm>
#include <set>

using namespace llvm;

namespace heterplan {

/// Fewest devices of the type with which there is a plan. The option counts the devices for which
/// those of the problem stand.
Expected<std::vector<Relaxed>> relaxDeviceLimit(const RelaxInputs &in) {
  const DeviceLimit asked = in.asked.request.deviceLimits[in.constraint.index];
  auto used = [&](const Plan &plan) {
    std::set<DeviceRef> devices;
    for (const Stage &stage : plan.stages)
      for (const Replica &replica : stage.replicas)
        for (const DeviceRef &device : replica.devices)
          if (device.type == asked.type)
            devices.insert(device);
    return static_cast<int>(devices.size());
  };
  auto with = [&](int most) {
    Problem problem = in.base;
    problem.request.deviceLimits.push_back({asked.type, most});
    return problem;
  };
  // All that there are are as good as no limit.
  int low = asked.most, high = 0;
  for (int type : in.asked.cluster.typesCalled(asked.type))
    high += in.asked.cluster.deviceCount(type);
  int next = std::max(used(in.found), low + 1);
  bool proven = true;
  for (; high - low > 1; next = low + (high - low) / 2) {
    if (next >= high)
      continue;
    Expected<SearchOutcome> outcome = in.solve.any(with(next));
    if (!outcome)
      return outcome.takeError();
    (outcome->plan ? high : low) = next;
    proven &= outcome->plan || outcome->isProven();
  }
  std::string text = std::to_string(high);
  Relaxed result{{}, with(high)};
  result.relaxation = {describe(in.asked.request, in.constraint),
                       "devices of type " + asked.type,
                       asked.type,
                       std::to_string(asked.most),
                       text,
                       "--max-devices " + asked.type + "=" +
                           std::to_string(high * in.asked.cluster.shardDegree),
                       double(high),
                       true,
                       proven};
  return std::vector<Relaxed>{std::move(result)};
}

namespace {
/// `count` more nodes like those of `group`, with only the devices of `type`.
Cluster withNodes(Cluster cluster, size_t group, const std::string &type, int count) {
  NodeGroup &like = cluster.nodes[group];
  if (like.devices.size() == 1) {
    like.count += count;
    return cluster;
  }
  NodeGroup more = like;
  more.devices = {{type, like.devices.at(type)}};
  more.count = count;
  more.name += "-more";
  cluster.nodes.push_back(std::move(more));
  return cluster;
}

Expected<std::optional<Relaxed>> addNodes(const Problem &asked, size_t group, int type,
                                          CountedSolver &solve) {
  const std::string &name = asked.cluster.types[type].name;
  int perNode = asked.cluster.nodes[group].devices.at(name);
  int now = asked.cluster.deviceCount(type);
  int least = std::max(1, (3 * now + perNode - 1) / perNode), low = 0;
  std::optional<Relaxed> result;
  bool proven = true;
  for (int nodes = least; least - low > 1 || !result; nodes = (low + least) / 2) {
    Problem more = asked;
    more.cluster = withNodes(std::move(more.cluster), group, name, nodes);
    Expected<SearchOutcome> outcome = solve.any(more);
    if (!outcome)
      return outcome.takeError();
    if (!outcome->plan && !result)
      return std::nullopt;
    if (outcome->plan) {
      least = nodes;
      result = Relaxed{{}, std::move(more)};
    } else {
      low = nodes;
      proven &= outcome->isProven();
    }
  }
  int needed = now + least * perNode;
  result->relaxation = {"the devices of the cluster",
                        "devices of type " + name,
                        name,
                        std::to_string(now),
                        std::to_string(needed),
                        "",
                        double(needed),
                        true,
                        proven};
  return result;
}
} // namespace

Expected<std::vector<Relaxed>> addDevices(const Problem &asked, CountedSolver &solve) {
  std::vector<Relaxed> result;
  for (int type = 0; type < int(asked.cluster.types.size()); ++type)
    for (size_t group = 0; group < asked.cluster.nodes.size(); ++group) {
      if (!asked.cluster.nodes[group].devices.count(asked.cluster.types[type].name))
        continue;
      Expected<std::optional<Relaxed>> more = addNodes(asked, group, type, solve);
      if (!more)
        return more.takeError();
      if (*more)
        result.push_back(std::move(**more));
      break; // the first group of nodes that has the type
    }
  return result;
}

} // namespace heterplan
