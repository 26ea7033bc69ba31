// When each instruction ran, predicted or measured, in one schema: Chrome trace JSON (opens in
// chrome://tracing and Perfetto). One process a stage, one thread a rank.
#pragma once

#include "ir/Program.h"

#include <string>
#include <vector>

namespace heterplan {

struct TimelineEvent {
  int rank = 0;
  int stage = 0; // of the part that the instruction is of
  int index = 0; // of the instruction in its RankProgram
  Op op{};
  int microBatch = -1;
  Seconds begin{}, end{};
  bool operator==(const TimelineEvent &) const = default;
};

struct Timeline {
  std::string model;
  bool measured = false;
  Seconds iteration{};
  std::vector<TimelineEvent> events; // by rank, then by begin
  bool operator==(const Timeline &) const = default;

  /// Events of one rank do not overlap, but for sums of gradients with passes, and none ends before
  /// it begins.
  llvm::Error verify() const;
};

} // namespace heterplan
