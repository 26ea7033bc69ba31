// The files that `schedule -o DIR` writes: schedule.json, report.html and, for jobs that name a
// model, the script that runs them.
#pragma once

#include "search/jobs/HandOver.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// Whether `directory` may be written to: absent, empty, with the schedule.json of an earlier run,
/// or `force`. OutputNotEmpty, CannotWrite.
llvm::Error checkScheduleDirectory(const std::string &directory, bool force);

/// The files of a schedule beside the scripts of its jobs, and what is done for the scripts.
struct ScheduleWriting {
  std::vector<std::string> arguments; // further ones of `compile`
  std::string planner; // path of heterplan, which plans what the scripts run now; "": they do
  bool report = true;  // report.html
};

/// All or nothing; what an earlier schedule left there goes, plans and checkpoints of its jobs and
/// files of others stay. Fails (NoPlan) if a job cannot be planned on the workers that it has.
llvm::Error writeSchedule(const std::string &directory, const jobs::Problem &problem,
                          const jobs::Schedule &schedule, const jobs::RunFacts &facts,
                          const ScheduleWriting &writing);

/// Whether what starts the jobs of a slot may be written to `directory`: absent, empty, with such
/// files of an earlier slot only, or `force`. OutputNotEmpty, CannotWrite.
llvm::Error checkSlotDirectory(const std::string &directory, bool force);

/// Writes `files`, all or nothing; those of an earlier slot go, other files stay.
llvm::Error writeSlotFiles(const std::string &directory,
                           const std::vector<jobs::HandOverFile> &files);

} // namespace heterplan
