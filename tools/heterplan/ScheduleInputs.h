// The models that jobs name, which `schedule` reads beside the jobs file.
#pragma once

#include "Inputs.h"

#include "search/jobs/Problem.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace heterplan {

/// `path` from the root of the file system: files that name it may lie anywhere.
std::string absolutePath(llvm::StringRef path);

/// Sets time and gradient of each job that names a model, by the model's cost on the cluster of
/// `costs`; each model is read once. Models lie beside `jobsFile` or in the working directory;
/// their names become absolute.
llvm::Error readModels(jobs::Workload &workload, llvm::StringRef jobsFile, const CostOptions &costs,
                       const ModelOptions &reading);

/// Warns on stderr that the jobs file `path` has no jobs.
void warnOfNoJobs(llvm::StringRef path);

/// The source of the jobs, as given on the command line.
struct WorkloadOptions {
  std::string jobs;                  // a jobs file or a trace
  std::string trace, throughputs;    // --trace, --throughputs
  std::string generate, slot, slots; // --generate, --slot, --slots
};

/// --trace, --throughputs, --generate, --slot and --slots.
void addWorkloadOptions(CLI::App &command, WorkloadOptions &options);

/// The jobs file, trace or generated workload, with the times of its models.
llvm::Expected<jobs::Workload> readWorkload(const WorkloadOptions &options, uint64_t seed,
                                            const jobs::Machines &machines,
                                            const CostOptions &costs, const ModelOptions &reading);

/// --slot, `fallback` where it is not given.
llvm::Error readSlot(const std::string &text, const char *fallback, Seconds &slot);

} // namespace heterplan
