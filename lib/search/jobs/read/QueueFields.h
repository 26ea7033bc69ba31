// The fields of a queue in YAML, which jobs files and saved states share.
#pragma once

#include "search/jobs/Queue.h"
#include "support/Yaml.h"

namespace heterplan::jobs {

/// Reads the list of queues; errors are located. Problem::create checks names of device types.
llvm::Error readQueues(const YamlNode &node, std::vector<Queue> &queues);

} // namespace heterplan::jobs
