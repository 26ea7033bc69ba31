// A background job in the idle gaps of a burst plan: what a copy of it does on one device, which
// devices have room for one, and what that takes of the plan and gives (DeepPool, Park et al.,
// arXiv 2112.10065, section 5).
#pragma once

#include "ir/Program.h"
#include "search/problem/Problem.h"

namespace heterplan {

/// The plan of a copy: all of the model on one device of `type`, in many stages, so that its passes
/// are short. `problem`: of the background job, whose schedule is ScheduleChoice::Burst. Fails as
/// makeBurstPlan() does, and where the model has sparse tables (NotSupported).
llvm::Expected<Plan> planCopy(const Problem &problem, int type);

/// The inputs of a background job; all outlive the call.
struct BackgroundInputs {
  const Plan &copy; // of planCopy()
  const Program &copyProgram;
  const Program &program; // of the burst plan
  const Cluster &cluster;
  double maxSlowdown = 0; // share of the plan's iteration
};

/// The job beside `plan`, a burst plan: a copy on each device that has memory free for it and does
/// some of it in its gaps. Its passes may outlast their gaps as far as pays off in samples of both
/// and the plan's iteration is at most `maxSlowdown` longer, as the simulator finds it. Fails as
/// simulateTogether() does.
llvm::Expected<BackgroundJob> packBackground(const Plan &plan, const BackgroundInputs &inputs);

} // namespace heterplan
