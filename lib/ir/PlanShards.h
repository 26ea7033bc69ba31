// Plans whose replicas are groups of devices that share every layer (tensor parallelism). Searches
// and checks see one device for each group; plan.json names all devices, and each has a program.
#pragma once

#include "ir/Cluster.h"
#include "ir/Plan.h"
#include "ir/Program.h"

#include "llvm/Support/Error.h"

namespace heterplan {

/// `plan`, in which each device stands for `degree` devices, with those devices: device k of a node
/// stands for the devices k·degree to k·degree + degree − 1. Limits of devices count them, too.
Plan withShardDevices(Plan plan, int degree);

/// `plan`, some devices of which are of types of `cluster` that stand for several devices
/// (DeviceType::ofType), with those devices. If all stages have one degree, types of which no node
/// has such a group are left out of what it states, as if it had been made with that degree.
Plan withShardDevices(Plan plan, const Cluster &cluster);

/// `plan` with one device for each group, as the search has made it. Fails with InvalidPlan if a
/// replica is not such a group. If stages have unequal degrees, the types of groups are called
/// shardTypeName(); otherwise pins to such types name those of the devices.
llvm::Expected<Plan> withShardGroups(Plan plan);
/// The name of the type of groups of `degree` devices of `type`, where stages have unequal degrees.
std::string shardTypeName(llvm::StringRef type, int degree);
/// Whether the stages of `plan` have unequal degrees.
bool hasUnequalDegrees(const Plan &plan);
/// One of Plan::searchSpaceLimits, of every search that chooses a degree for each stage.
constexpr const char *unequalReplicas = "stages whose replicas have unequal degrees";
/// `limits` of devices as limits of groups of `degree` of them.
std::vector<DeviceLimit> limitsOfGroups(std::vector<DeviceLimit> limits, int degree);
/// The same, without limits of types of `cluster` of which no node has a group.
std::vector<DeviceLimit> limitsOfGroups(std::vector<DeviceLimit> limits, const Cluster &cluster,
                                        int degree);

/// `program`, in which each rank stands for `degree` devices, with a rank for each of them, which
/// are shards 0, 1, ... of its parts, one after another. Gradients are summed among shards with the
/// same number, and messages go from each shard to the one with the same number. Between groups of
/// a and b devices, device j of the b that receive gets its message from device ⌊j·a/b⌋: all have
/// the same tensors. The collectives within layers are part of the passes.
Program withShardRanks(Program program, int degree);
/// `program`, the devices of which stand for several ones if `cluster` says so: all of them, or
/// those of some types (DeviceType::ofType).
Program withShardRanks(Program program, const Cluster &cluster);

/// The devices for which `group` stands, one for each shard.
std::vector<DeviceRef> membersOf(const DeviceRef &group, int degree);
/// The devices that share each layer of `plan`, the most of any stage; 1: none do.
int shardDegreeOf(const Plan &plan);

} // namespace heterplan
