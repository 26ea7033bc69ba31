#include "ir/PlanShards.h"

#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace heterplan {

std::vector<DeviceRef> membersOf(const DeviceRef &group, int degree) {
  std::vector<DeviceRef> members;
  for (int i = 0; i < degree; ++i)
    members.push_back({group.type, group.node, group.index * degree + i});
  return members;
}

namespace {

/// The devices for which `group` stands: itself, or those of a type of `cluster` of several.
std::vector<DeviceRef> devicesOf(DeviceRef group, const Cluster &cluster) {
  const DeviceType &type = cluster.types[cluster.typeIndex(group)];
  if (type.ofType < 0)
    return {group};
  group.type = cluster.types[type.ofType].stated();
  return membersOf(group, type.shards);
}

/// Whether a node has `degree` devices of a type.
bool hasGroup(const Cluster &cluster, StringRef type, int degree) {
  return any_of(cluster.types, [&](const DeviceType &each) {
    return each.ofType < 0 && each.stated() == type &&
           any_of(cluster.nodes, [&](const NodeGroup &node) {
             auto found = node.devices.find(each.name);
             return found != node.devices.end() && found->second >= degree;
           });
  });
}

/// The ranks for which the ranks of a program of groups stand.
class ShardRanks {
public:
  ShardRanks(const Program &groups, function_ref<int(const DeviceRef &)> degreeOf) {
    for (const RankProgram &group : groups.ranks) {
      firsts.push_back(count);
      degrees.push_back(degreeOf(group.device));
      count += degrees.back();
    }
  }

  /// Rank `group` of the program as shard `shard`, on `device`.
  RankProgram shardOf(const RankProgram &group, int shard, DeviceRef device) const {
    RankProgram rank = group;
    rank.rank = firsts[group.rank] + shard;
    rank.device = std::move(device);
    for (ProgramPart &part : rank.parts)
      part.shard = shard;
    rank.instructions.clear();
    for (Instruction instruction : group.instructions) {
      instruction.group = membersOf(instruction.group, shard);
      if (instruction.peer < 0)
        rank.instructions.push_back(std::move(instruction));
      else
        addTransfers(instruction, degrees[group.rank], shard, rank.instructions);
    }
    return rank;
  }

private:
  /// The ranks of shard `shard` of the groups.
  RankGroup membersOf(const RankGroup &groups, int shard) const {
    RankGroup members;
    if (!is_splat(degrees)) {
      for (int group : groups)
        members.add(firsts[group] + shard);
      return members;
    }
    for (const RankRange &range : groups.ranges())
      members.add({firsts[range.first] + shard, range.count,
                   range.count == 1 ? 1 : range.stride * degrees[range.first]});
    return members;
  }

  /// The messages of shard `own` of `degree` for one between groups.
  void addTransfers(const Instruction &between, int degree, int own,
                    std::vector<Instruction> &transfers) const {
    const int others = degrees[between.peer], first = firsts[between.peer];
    auto add = [&](int shard) {
      transfers.push_back(between);
      transfers.back().peer = first + shard;
    };
    if (isReceive(between.op))
      return add(own * others / degree);
    for (int shard = 0; shard < others; ++shard)
      if (shard * degree / others == own)
        add(shard);
  }

  std::vector<int> firsts, degrees; // by rank of the program of groups
  int count = 0;
};

/// Each rank of `program` as the ranks of its devices, which `devicesOf` names.
Program withShardRanks(Program program,
                       function_ref<std::vector<DeviceRef>(const DeviceRef &)> devicesOf) {
  const ShardRanks ranks(
      program, [&](const DeviceRef &group) { return static_cast<int>(devicesOf(group).size()); });
  std::vector<RankProgram> groups = std::move(program.ranks);
  program.ranks.clear();
  for (const RankProgram &group : groups) {
    const std::vector<DeviceRef> devices = devicesOf(group.device);
    for (size_t shard = 0; shard < devices.size(); ++shard)
      program.ranks.push_back(ranks.shardOf(group, static_cast<int>(shard), devices[shard]));
  }
  return program;
}

} // namespace

int shardDegreeOf(const Plan &plan) {
  int degree = 1;
  for (const Stage &stage : plan.stages)
    degree = std::max(degree, stage.sharding.degree);
  return degree;
}

std::vector<DeviceLimit> limitsOfGroups(std::vector<DeviceLimit> limits, int degree) {
  for (DeviceLimit &limit : limits)
    limit.most /= degree;
  return limits;
}

std::vector<DeviceLimit> limitsOfGroups(std::vector<DeviceLimit> limits, const Cluster &cluster,
                                        int degree) {
  erase_if(limits, [&](const DeviceLimit &limit) {
    return hasGroup(cluster, limit.type, 1) && !hasGroup(cluster, limit.type, degree);
  });
  return limitsOfGroups(std::move(limits), degree);
}

Plan withShardDevices(Plan plan, int degree) {
  for (DeviceLimit &limit : plan.deviceLimits)
    limit.most *= degree;
  for (Stage &stage : plan.stages) {
    stage.sharding.degree = degree;
    for (Replica &replica : stage.replicas)
      if (degree > 1)
        replica.devices = membersOf(replica.devices.front(), degree);
  }
  return plan;
}

Plan withShardDevices(Plan plan, const Cluster &cluster) {
  if (!cluster.hasShardTypes())
    return withShardDevices(std::move(plan), cluster.shardDegree);
  for (Stage &stage : plan.stages)
    for (Replica &replica : stage.replicas) {
      replica.devices = devicesOf(replica.devices.front(), cluster);
      stage.sharding.degree = static_cast<int>(replica.devices.size());
    }
  if (const int degree = shardDegreeOf(plan); degree > 1 && !hasUnequalDegrees(plan))
    erase_if(plan.deviceMemory,
             [&](const DeviceMemory &each) { return !hasGroup(cluster, each.type, degree); });
  return plan;
}

std::string shardTypeName(StringRef type, int degree) { return (type + "×" + Twine(degree)).str(); }

bool hasUnequalDegrees(const Plan &plan) {
  return any_of(plan.stages, [&](const Stage &stage) {
    return stage.sharding.degree != plan.stages.front().sharding.degree;
  });
}

Expected<Plan> withShardGroups(Plan plan) {
  const bool isUnequal = hasUnequalDegrees(plan);
  if (!isUnequal && shardDegreeOf(plan) == 1)
    return plan;
  if (!isUnequal) {
    const std::string groups = shardTypeName("", shardDegreeOf(plan));
    plan.deviceLimits = limitsOfGroups(std::move(plan.deviceLimits), shardDegreeOf(plan));
    for (Pin &pin : plan.pins) // all groups are of this degree
      if (StringRef(pin.type).endswith(groups))
        pin.type.resize(pin.type.size() - groups.size());
  }
  for (Stage &stage : plan.stages) {
    Location place{"plan.json", 0, 0, "stages[" + std::to_string(stage.id) + "]"};
    const int degree = stage.sharding.degree;
    if (degree == 1)
      continue;
    for (Replica &replica : stage.replicas) {
      DeviceRef group = replica.devices.front();
      group.index /= degree;
      if (replica.devices != membersOf(group, degree))
        return Diagnostic(Diag::InvalidPlan, place)
               << "the devices of a replica are not " << degree << " neighbours of one type in '"
               << group.node << "', the first of them a multiple of " << degree;
      if (isUnequal)
        group.type = shardTypeName(group.type, degree);
      replica.devices = {group};
    }
    stage.sharding.degree = 1;
  }
  return plan;
}

Program withShardRanks(Program program, int degree) {
  if (degree == 1)
    return program;
  return withShardRanks(std::move(program),
                        [&](const DeviceRef &group) { return membersOf(group, degree); });
}

Program withShardRanks(Program program, const Cluster &cluster) {
  if (!cluster.hasShardTypes())
    return withShardRanks(std::move(program), cluster.shardDegree);
  return withShardRanks(std::move(program),
                        [&](const DeviceRef &group) { return devicesOf(group, cluster); });
}

} // namespace heterplan
