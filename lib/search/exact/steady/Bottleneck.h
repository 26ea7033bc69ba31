// Search by bottleneck stage time: the cheapest devices with which no stage takes longer than some
// limit is an additive problem, solved exactly by dynamic programming or by integer programming.
// In steady state the limit is the throughput, and a search over limits is exact and
// gives a bound.
#pragma once

#include "search/placement/SearchBudget.h"
#include "search/placement/Strategy.h"

#include <memory>

namespace heterplan {

/// Least devices for every stage at one limit: fewest of type t for positions [begin, end).
class CountTable {
public:
  /// Tells up to `deepest` stages behind a stage apart. Times on their own as
  /// StageEvaluator::leastCount has them.
  CountTable(Evaluator &evaluator, int microBatches, double limit, int deepest = 0);

  /// With so many stages behind it, at most depths() − 1, which stands for more: they decide how
  /// many micro-batches are in flight. 0: no number of devices is enough, or the schedule does not
  /// allow such a stage.
  int at(int begin, int end, int type, int behind = 0) const {
    return counts[size_t(behind) * ofDepth + (size_t(end) * (end - 1) / 2 + begin) * types + type];
  }
  /// 1 where memory tells none apart.
  int depths() const { return int(counts.size() / ofDepth); }
  const int positions, types, microBatches;
  const double limit;

private:
  void addDepth(Evaluator &evaluator, int behind);

  const size_t ofDepth;
  std::vector<int> counts; // by stages behind, end, begin and type
};

/// Finds the cheapest placement at a limit.
class BottleneckSolver {
public:
  virtual ~BottleneckSolver() = default;
  struct Answer {
    /// No placement of which each stage is within the limit costs less an hour; infinite: there is
    /// none within the devices.
    double price = 0;
    /// Found on the way, the devices as at the limit; not all need be feasible.
    std::vector<Placement> placements;
  };
  /// The most stages behind a stage that it tells apart.
  virtual int deepest(int /*microBatches*/) const { return 0; }
  /// `cutoff`: prices above it are of no interest.
  virtual llvm::Expected<Answer> solve(const CountTable &counts, int microBatches,
                                       double cutoff) = 0;
};

/// By dynamic programming, the devices there are by Lagrange multipliers.
std::unique_ptr<BottleneckSolver> makeShortestPaths(const Evaluator &evaluator,
                                                    const Tuning &tuning);

/// Searches over limits. It has a bound where the slowest stage alone decides.
llvm::Expected<Solution> searchByBottleneck(Evaluator &evaluator, BottleneckSolver &solver,
                                            const SearchOptions &options, double workShare,
                                            std::optional<Placement> incumbent);

} // namespace heterplan
