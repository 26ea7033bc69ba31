// The facts that the online form of `heterplan schedule` keeps between calls: the cluster, the jobs
// that were decided and where they are, which nodes are down, and the ends of the prices.
#pragma once

#include "search/jobs/Schedule.h"
#include "search/jobs/policy/Prices.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <string>
#include <vector>

namespace heterplan::jobs {

/// Rows of a decided job, by names: indices change with the cluster file.
struct SavedRow {
  int slot = 0;
  std::string node, type; // type "" where the node leaves no choice
  int64_t workers = 0, servers = 0;
  bool operator==(const SavedRow &) const = default;
};

struct SavedJob {
  Job job;
  std::string status; // "admitted", "waiting", "declined", "completed" or "dropped"
  std::string reason;
  std::vector<SavedRow> rows; // by slot
};

/// The record of a job that was declined or has no rows any more.
struct EndedJob {
  std::string name, status, reason; // as of SavedJob
  int end = -1;                     // its last slot; -1: it had none
  bool operator==(const EndedJob &) const = default;
};

/// So many ended jobs are kept, the latest; names of older ones are free again.
constexpr size_t mostEnded = 1000;

struct State {
  std::string clusterText; // the YAML
  Seconds slot{1};
  int slots = 1;
  int now = 0; // slots before it are past
  uint64_t seed = 0;
  PriceLimits prices; // of the jobs that have come so far
  bool hasPrices = false;
  std::vector<std::string> down; // nodes
  std::vector<Queue> queues;
  std::vector<SavedJob> jobs;
  std::vector<EndedJob> ended; // in the order in which they ended or were declined

  /// Index of the job called `name` in `jobs`, or -1.
  int find(llvm::StringRef name) const;
  /// The ended job called `name`, or null.
  const EndedJob *findEnded(llvm::StringRef name) const;
  EndedJob *findEnded(llvm::StringRef name);
  /// Moves the jobs that were declined or have no rows from `now` on, and do not wait, to `ended`,
  /// so that the state does not grow with the jobs that have come. No other job waits for them any
  /// more.
  void forgetEnded();
};

/// Largest state that is read.
constexpr uint64_t largestState = uint64_t(256) << 20;

/// Ends with a checksum of what is before it.
std::string toJson(const State &state);
/// InvalidState (tampered with, or cut off), NewerVersion, and the errors of its parts, located.
llvm::Expected<State> parseState(llvm::StringRef text, llvm::StringRef path);

} // namespace heterplan::jobs
