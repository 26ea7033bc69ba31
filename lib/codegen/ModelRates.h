// Rates by which people compare trainings of one model: tokens a second and model FLOPs
// utilisation.
#pragma once

#include "ir/Cluster.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace heterplan {

/// The devices of all stages of `plan`.
std::set<DeviceRef> devicesOf(const Plan &plan);

/// The device type of `cluster` that a plan calls `name`, a node class or the type itself; or null.
const DeviceType *typeOf(const Cluster &cluster, const std::string &name);

/// Tokens of a sample: the length of the sequence that the embeddings of `model` return and that
/// most of its matrix products have as rows. Empty if the model reads no sequence of tokens.
std::optional<int64_t> tokensPerSample(const LayerGraph &model);

/// The model FLOPs utilisation (Chowdhery et al., PaLM, 2022): the FLOPs of an iteration without
/// recomputation over those that the devices of `plan` could do at their peak rate. Empty if a
/// device states no peak rate.
std::optional<double> modelUtilisation(const Plan &plan, const Cluster &cluster,
                                       const LayerGraph &model);

} // namespace heterplan
