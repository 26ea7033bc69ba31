// How files state what a rank takes of a device beyond its tensors: cluster files and the hardware
// catalogue alike.
#pragma once

#include "ir/Cluster.h"
#include "support/Yaml.h"

namespace heterplan {

/// `memory_overhead` of `owner`: a size, or {constant, factor, under_way, convolutions, source}.
/// Without a source of its own it is from `origin`. OutOfRange for a factor below 1.
YamlField memoryOverheadField(const std::string &owner, const std::string &origin,
                              MemoryOverhead &overhead);

} // namespace heterplan
