// A schedule of jobs for people.
#pragma once

#include "search/jobs/Schedule.h"
#include "search/jobs/policy/Policy.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// A table of the jobs and the figures of the whole.
void printSchedule(llvm::raw_ostream &os, const jobs::Problem &problem,
                   const jobs::Schedule &schedule, const jobs::RunFacts &facts);

/// How long decisions took, which depends on the machine: on stderr only. All of them as JSON, or a
/// summary.
void printDecisions(llvm::raw_ostream &os, const jobs::PolicyResult &result, bool asJson);

} // namespace heterplan
