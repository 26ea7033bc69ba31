// heterplan schedule --state: one decision of the online scheduler.
#pragma once

#include "Commands.h"
#include "Inputs.h"

#include "search/jobs/policy/Policy.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

struct OnlineOptions {
  std::string state, arrive, complete, nodeDown, nodeUp, at, slot, slots;
  std::string format, queue, image, directory; // what starts the jobs of the slot
  bool force = false, wait = false;
  std::vector<std::string> arguments; // of `compile` in the scripts of jobs
  std::string planner;                // as in ScheduleWriting
};

/// The options of the online form.
void addOnlineOptions(CLI::App &command, OnlineOptions &options);

/// Locks the state, does what is asked, prints what became of which job, and saves the state. A
/// state that is not there is made from --cluster.
llvm::Expected<ExitStatus> scheduleOnline(const OnlineOptions &options, const CostOptions &costs,
                                          const ModelOptions &reading,
                                          const jobs::PolicyOptions &policy, bool json);

} // namespace heterplan
