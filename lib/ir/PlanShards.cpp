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

} // namespace

int shardDegreeOf(const Plan &plan) {
  int degree = 1;
  for (const Stage &stage : plan.stages)
    degree = std::max(degree, stage.shardDegree);
  return degree;
}

Plan withShardDevices(Plan plan, int degree) {
  for (Stage &stage : plan.stages) {
    stage.shardDegree = degree;
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
    if (stage.shardDegree != degree)
      return Diagnostic(Diag::InvalidPlan, place)
             << "the shard degree is " << stage.shardDegree << ", and that of another stage is "
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
    stage.shardDegree = 1;
  }
  return plan;
}

} // namespace heterplan
