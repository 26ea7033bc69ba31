#include "ir/PlanShards.h"

#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace heterplan {

namespace {

std::vector<DeviceRef> membersOf(const DeviceRef &group, int degree) {
  std::vector<DeviceRef> members;
  for (int i = 0; i < degree; ++i)
    members.push_back({group.type, group.node, group.index * degree + i});
  return members;
}

/// The ranks of shard `shard` of the groups for which the ranks of `groups` stand.
RankGroup membersOf(const RankGroup &groups, int degree, int shard) {
  RankGroup members;
  for (const RankRange &range : groups.ranges())
    members.add(
        {range.first * degree + shard, range.count, range.count == 1 ? 1 : range.stride * degree});
  return members;
}

RankProgram shardOf(RankProgram rank, int degree, int shard) {
  rank.rank = rank.rank * degree + shard;
  rank.device = membersOf(rank.device, degree)[shard];
  for (ProgramPart &part : rank.parts)
    part.shard = shard;
  for (Instruction &instruction : rank.instructions) {
    if (instruction.peer >= 0)
      instruction.peer = instruction.peer * degree + shard;
    instruction.group = membersOf(instruction.group, degree, shard);
  }
  return rank;
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
      const DeviceType &type = cluster.types[cluster.typeIndex(replica.devices.front())];
      if (type.ofType < 0)
        continue;
      DeviceRef group = replica.devices.front();
      group.type = cluster.types[type.ofType].stated();
      replica.devices = membersOf(group, type.shards);
      stage.sharding.degree = type.shards;
    }
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
  if (!isUnequal)
    plan.deviceLimits = limitsOfGroups(std::move(plan.deviceLimits), shardDegreeOf(plan));
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
  std::vector<RankProgram> groups = std::move(program.ranks);
  program.ranks.clear();
  for (const RankProgram &group : groups)
    for (int shard = 0; shard < degree; ++shard)
      program.ranks.push_back(shardOf(group, degree, shard));
  return program;
}

} // namespace heterplan
