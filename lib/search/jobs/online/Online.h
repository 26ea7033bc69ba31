// One decision of the online scheduler on a saved state. Each function takes the state as it is and
// leaves it as it is to be saved; the caller reads, locks and writes.
#pragma once

#include "search/jobs/online/State.h"
#include "search/jobs/policy/Policy.h"

#include "llvm/Support/Error.h"

#include <memory>

namespace heterplan::jobs {

/// The effect of one call on a job.
struct Outcome {
  std::string job;
  std::string status; // "admitted", "waiting", "declined", "completed", "moved" or "dropped"
  std::string reason;
  std::vector<SavedRow> rows; // from now on
};

/// Decides `job` against the present prices. DuplicateName where it was decided already. With
/// `mayWait`, a job that does not pay yet but may still be worth something later waits.
llvm::Expected<Outcome> arrive(State &state, const Cluster &cluster, Job job,
                               const RoundingOptions &rounding, bool mayWait = false);
/// Decides the jobs that wait, against the present prices. The outcomes leave out jobs that still
/// wait.
llvm::Expected<std::vector<Outcome>> tryWaiting(State &state, const Cluster &cluster,
                                                const RoundingOptions &rounding);
/// `name` is done, or waits no more: what it still had is free. UnknownJob.
llvm::Expected<Outcome> complete(State &state, llvm::StringRef name);
/// `node` gives nothing from now on; the jobs that had rows there are planned anew for what they
/// have left, whatever it costs, or dropped where they can no longer end before the horizon.
llvm::Expected<std::vector<Outcome>> nodeDown(State &state, const Cluster &cluster,
                                              llvm::StringRef node,
                                              const RoundingOptions &rounding);
/// `node` is back for jobs that arrive or move from now on. UnknownNode where it was not down.
llvm::Error nodeUp(State &state, const Cluster &cluster, llvm::StringRef node);
/// Later calls decide from `slot` on; it does not go back (StaleState).
llvm::Error advance(State &state, int slot);
/// The jobs of a state and all their rows.
struct StatePlans {
  std::unique_ptr<Problem> problem;
  Schedule schedule;
};
/// InvalidState, UnknownNode where a row does not lie on `cluster`.
llvm::Expected<StatePlans> plansOf(const State &state, const Cluster &cluster);
/// Checks that the rows of the state lie on `cluster` within its capacities: InvalidState.
llvm::Error verify(const State &state, const Cluster &cluster);

} // namespace heterplan::jobs
