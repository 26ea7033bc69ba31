// Simulates a Program together with a second one that runs in its idle gaps: a background job, of
// which ranks of the first each train a copy of their own (DeepPool, Park et al., arXiv 2112.10065,
// section 5).
//
// An instruction of the copy is what a device cannot interrupt. The next one begins where the gap,
// as it is planned, lasts long enough for it, or at most `overrun` longer; the instruction of the
// foreground that ends the gap then waits for it. Gaps have neither messages nor sums of gradients
// in them, so the copy pauses around synchronisation. Iterations follow each other without a pause:
// a gap at the end of one and that at the beginning of the next are one gap.
#pragma once

#include "cost/IdleGaps.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace heterplan {

struct SharedSimulation {
  Seconds iteration{}; // of the foreground alone
  /// Share by which its iterations are longer beside the copies, on average over the first ones.
  double slowdown = 0;
  /// Iterations of the copy of each host per iteration of the foreground, in the long run.
  std::vector<double> iterations;
};

/// `copy`: a program of one rank. `hosts`: ranks of `foreground` that each train one. Fails as
/// simulate() does.
llvm::Expected<SharedSimulation> simulateTogether(const Program &foreground, const Program &copy,
                                                  llvm::ArrayRef<int> hosts, Seconds overrun);

} // namespace heterplan
