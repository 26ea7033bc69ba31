// How fast workers are, iteration by iteration: what a simulation of shares runs on. Read from CSV
// (docs/formats.md), or drawn at random.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heterplan {

/// A worker in an iteration.
struct WorkerState {
  double speed = 1;           // as a multiple of what a plan says of it; positive
  double cpu = 0, memory = 0; // shares in use; 0 where not known
  bool operator==(const WorkerState &) const = default;
};

struct SpeedTrace {
  std::vector<std::string> workers;
  std::vector<std::vector<WorkerState>> iterations; // by worker each; at least one

  /// The state of `worker` in its iteration `index`; the trace repeats from its end.
  const WorkerState &at(size_t index, size_t worker) const {
    return iterations[index % iterations.size()][worker];
  }
  bool operator==(const SpeedTrace &) const = default;
};

/// Reads a file of relative speeds, or of seconds of mini-batches, whose median over the file is
/// speed 1. Errors carry line and column: MissingField, WrongType, OutOfRange, DuplicateName.
llvm::Expected<SpeedTrace> readSpeedTrace(llvm::StringRef path);
/// Parses a speed trace from text; `path` is for messages.
llvm::Expected<SpeedTrace> parseSpeedTrace(llvm::StringRef text, llvm::StringRef path);
/// As a file of relative speeds.
std::string toCsv(const SpeedTrace &trace);

struct GeneratedTrace {
  const char *name;
  const char *help;
};
/// The lines of SpeedTraces.def, in order.
llvm::ArrayRef<GeneratedTrace> generatedTraces();
/// Draws a trace of the kind called `name`, which there has to be; the same for the same seed.
SpeedTrace generateTrace(llvm::StringRef name, int workers, int iterations, uint64_t seed);

} // namespace heterplan
