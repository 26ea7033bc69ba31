#include "ir/PlanShards.h"

#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"

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

Expected<Plan> withShardGroups(Plan plan) {
  int degree = shardDegreeOf(plan);
  if (degree == 1)
    return plan;
  for (Stage &stage : plan.stages) {
    Location place{"plan.json", 0, 0, "stages[" + std::to_string(stage.id) + "]"};
    if (stage.sharding.degree != degree)
      return Diagnostic(Diag::InvalidPlan, place)
             << "the shard degree is " << stage.sharding.degree << ", and that of another stage is "
             << degree << "; stages of unlike degrees are not supported";
    for (Replica &replica : stage.replicas) {
      DeviceRef group = replica.devices.front();
      group.index /= degree;
      if (replica.devices != membersOf(group, degree))
        return Diagnostic(Diag::InvalidPlan, place)
               << "the devices of a replica are not " << degree << " neighbours of one type in '"
               << group.node << "', the first of them a multiple of " << degree;
      replica.devices = {group};
    }
    stage.sharding.degree = 1;
  }
  plan.deviceLimits = limitsOfGroups(std::move(plan.deviceLimits), degree);
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
