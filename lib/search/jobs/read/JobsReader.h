// Jobs files: YAML to a Workload. docs/schedule.md describes the format.
#pragma once

#include "search/jobs/Problem.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace heterplan::jobs {

/// Largest jobs file that is read.
constexpr uint64_t largestJobsFile = uint64_t(16) << 20;

/// Errors carry line and column. Jobs that name a model have no times yet; see ModelTimes.h.
llvm::Expected<Workload> parseWorkload(llvm::StringRef text, llvm::StringRef path);
llvm::Expected<Workload> readWorkload(llvm::StringRef path);

/// One job, as in the list of a jobs file: for `--arrive`.
llvm::Expected<Job> parseJob(llvm::StringRef text, llvm::StringRef path);
/// Jobs that arrive online, and the queues that hold from then on; none: those of before.
struct Arrivals {
  std::vector<Job> jobs;
  std::vector<Queue> queues;
};
/// The job of such a file, or the jobs and queues of a jobs file.
llvm::Expected<Arrivals> readArrivals(llvm::StringRef path);

} // namespace heterplan::jobs
