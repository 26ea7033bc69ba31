// Training without barriers: asynchronous (ASP), and with a bound on how far apart workers are
// (SSP, Ho et al., NIPS 2013). How much worse stale gradients train is not said here.
#pragma once

#include "search/balance/BalanceSimulation.h"

namespace heterplan {

/// Mini-batches of even shares, whose gradients each worker exchanges by itself; as many in all as
/// synchronous training has in the iterations of the trace, each worker's by its own iterations.
class Asynchronous {
public:
  /// `how`: "bounded" for SSP.
  explicit Asynchronous(llvm::StringRef how) : bounded(how == "bounded") {}

  /// NotSupported for plans of several stages.
  llvm::Expected<BalanceResult> run(const BalanceProblem &problem) const;

private:
  bool bounded;
};

} // namespace heterplan
