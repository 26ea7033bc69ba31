// `heterplan schedule --explain JOB`: why one job was admitted or declined, for people.
#pragma once

#include "search/jobs/policy/Explanation.h"

#include "llvm/Support/raw_ostream.h"

namespace heterplan {

/// The decision, the prices that the job met, what it would have cost to end by each slot, and who
/// holds what it needs. At most some twenty lines of each; JSON has them all.
void printExplanation(llvm::raw_ostream &os, const jobs::Problem &problem,
                      const jobs::Explanation &explanation, const jobs::JobPlan &decision);

} // namespace heterplan
