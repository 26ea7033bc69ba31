// From schedule to run: for each stretch of slots in which a job has the same workers, the cluster
// that `compile` plans for, the hosts that launchers take and a script that does both.
#pragma once

#include "search/jobs/Schedule.h"

#include <string>
#include <vector>

namespace heterplan::jobs {

/// Consecutive slots in which a job has the same rows, and its part of the training: whole steps of
/// the job's batch. Steps of the whole job are its work over the batch, rounded up; a step that is
/// cut by the end of a segment belongs to the next one.
struct Segment {
  int first = 0, last = 0; // slots
  Rows rows;
  int64_t stepsBefore = 0, steps = 0;
};
std::vector<Segment> segmentsOf(const Problem &problem, int job, const JobPlan &plan);

/// One file, by its path below the directory of the schedule.
struct HandOverFile {
  std::string path, text;
  bool isProgram = false;
  int job = -1; // whose script it is
};

/// For each admitted job that names a model jobs/NAME/slot-NNNN/ with allocation.json,
/// cluster.yaml, hosts and run.sh; docs/schedule.md describes them. `arguments` are further ones of
/// `compile`.
std::vector<HandOverFile> handOver(const Problem &problem, const Schedule &schedule,
                                   const std::vector<std::string> &arguments);
/// The part of a script that plans; empty if there is nothing to plan. Scripts run it alone if they
/// are called with `planOption`.
llvm::StringRef planningPart(llvm::StringRef script);
constexpr const char *planOption = "--plan";
/// Whether handOver() gives files of this path, for some schedule.
bool isHandOverPath(llvm::StringRef path);

} // namespace heterplan::jobs
