// Plans whose replicas are groups of devices that share every layer (tensor parallelism). Searches
// and checks see one device for each group; plan.json names all devices.
#pragma once

#include "ir/Plan.h"

#include "llvm/Support/Error.h"

namespace heterplan {

/// `plan`, in which each device stands for `degree` devices, with those devices: device k of a node
/// stands for the devices k·degree to k·degree + degree − 1.
Plan withShardDevices(Plan plan, int degree);

/// `plan` with one device for each group, as the search has made it. Fails with InvalidPlan if the
/// stages have unlike degrees, or a replica is not such a group.
llvm::Expected<Plan> withShardGroups(Plan plan);

/// The devices that share each layer of `plan`; 1: none do.
int shardDegreeOf(const Plan &plan);

} // namespace heterplan
