// The fields of one job in YAML, which jobs files and saved states share.
#pragma once

#include "search/jobs/Job.h"
#include "support/Yaml.h"

namespace heterplan::jobs {

/// Reads one job; errors are located.
llvm::Error readJob(const YamlNode &node, Job &job);
/// The demand of a worker or server.
llvm::Error readDemand(const YamlNode &node, const std::string &owner, Demand &demand);
/// A whole number from `least` to `most`.
llvm::Error readCount(const YamlNode &node, llvm::StringRef what, int64_t least, int64_t most,
                      int64_t &result);

} // namespace heterplan::jobs
