// Public traces of shared clusters, as workloads. docs/schedule.md
// states what each form does not tell; utilities are drawn as in the publication of PD-ORS.
#pragma once

#include "search/jobs/read/Generator.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>

namespace heterplan::jobs {

/// Speeds of GPU types, by the GPU model that a trace names ("*": any other) and by device type of
/// the cluster, as multiples of the speed with which the trace was made.
using SpeedMatrix = std::map<std::string, std::map<std::string, double>>;

struct TraceOptions {
  int slots = 100;
  Seconds slot{600};
  uint64_t seed = 0;
  std::string throughputs; // the text of Gavel's file, or of a matrix of speeds
  std::string throughputsPath;
  SpeedMatrix speeds = {}; // of the matrix; parseTrace() reads it
};

struct TraceForm {
  const char *name;
  const char *help;
};
/// One for each line of Traces.def.
llvm::ArrayRef<TraceForm> traceForms();

/// Reads `text` in the form called `form`, which is one of traceForms(). Errors are located:
/// Syntax, MissingField (also where no job is left), OutOfRange, TooLarge.
llvm::Expected<Workload> parseTrace(llvm::StringRef form, llvm::StringRef text,
                                    llvm::StringRef path, const Machines &machines,
                                    const TraceOptions &options);

/// Largest trace that is read.
constexpr uint64_t largestTrace = uint64_t(1) << 28;

/// The readers, of one form each.
llvm::Expected<Workload> parseGavel(llvm::StringRef text, llvm::StringRef path,
                                    const Machines &machines, const TraceOptions &options);
llvm::Expected<Workload> parseAlibaba(llvm::StringRef text, llvm::StringRef path,
                                      const Machines &machines, const TraceOptions &options);
llvm::Expected<Workload> parseGoogle(llvm::StringRef text, llvm::StringRef path,
                                     const Machines &machines, const TraceOptions &options);
llvm::Expected<Workload> parseHelios(llvm::StringRef text, llvm::StringRef path,
                                     const Machines &machines, const TraceOptions &options);
llvm::Expected<Workload> parsePhilly(llvm::StringRef text, llvm::StringRef path,
                                     const Machines &machines, const TraceOptions &options);

} // namespace heterplan::jobs
