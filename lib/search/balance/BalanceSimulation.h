// A plan on workers that change their speed: what an iteration takes with even, fixed and re-sized
// shares (LB-BSP, Chen et al., SoCC 2020), and without barriers.
#pragma once

#include "ir/Program.h"
#include "search/balance/SpeedTrace.h"

namespace heterplan {

struct BalanceOptions {
  int every = 5;            // iterations between two barriers at which shares may move
  double hysteresis = 0.03; // part of the slowest time that moving them has to save
  int staleness = 3;        // of ssp
};

/// The shares of a stage from `iteration` on; times as in the runtime's log.
struct ShareDecision {
  int iteration = 0, stage = 0;
  std::vector<int64_t> shares; // of a full micro-batch, by replica
  Seconds before{}, after{};   // of the slowest replica, as expected
};

struct BalanceResult {
  std::vector<Seconds> iterations; // one each; without barriers all the same mean
  std::vector<ShareDecision> decisions;

  Seconds total() const;
};

struct BalancePolicy {
  const char *name;
  const char *help;
};
/// The lines of BalancePolicies.def, in order.
llvm::ArrayRef<BalancePolicy> balancePolicies();

/// A replica of a stage: what it takes for a sample at speed 1, in an iteration.
struct BalancedReplica {
  std::vector<int> ranks; // one for each of the devices that share its layers
  int64_t share = 0;      // of a full micro-batch, in the plan
  Seconds sample{};       // passes of all micro-batches, for one sample of each
  Seconds update{};
  int64_t mostSamples = 0; // of a full micro-batch
};

/// The plan as its replicas: ranks are the workers of `trace`, in order. Times are proportional to
/// samples, as LB-BSP takes those of CPUs to be.
class BalanceProblem {
public:
  /// `plan` is that of `program`. Fails with OutOfRange where the trace has fewer workers than
  /// there are ranks, and with NotSupported where stages have unequal degrees, whose shares the
  /// runtime does not move. All outlive it.
  static llvm::Expected<BalanceProblem> create(const Plan &plan, const Program &program,
                                               const SpeedTrace &trace,
                                               const BalanceOptions &options);

  const Program &program;
  const SpeedTrace &trace;
  const BalanceOptions options;
  std::vector<std::vector<BalancedReplica>> stages;

  /// The state of the slowest rank of `replica`: the others wait for it within each layer.
  const WorkerState &state(size_t iteration, const BalancedReplica &replica) const;
  double speed(size_t iteration, const BalancedReplica &replica) const {
    return state(iteration, replica).speed;
  }

private:
  BalanceProblem(const Program &program, const SpeedTrace &trace, const BalanceOptions &options)
      : program(program), trace(trace), options(options) {}
};

/// All iterations of the trace under the policy called `policy`, which there has to be. Fails with
/// NotSupported where a policy without barriers meets a plan of several stages, and as simulate().
llvm::Expected<BalanceResult> simulateBalance(const BalanceProblem &problem,
                                              llvm::StringRef policy);

} // namespace heterplan
