#include "search/balance/Asynchronous.h"

#include "ir/MicroBatches.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <queue>

using namespace llvm;

namespace heterplan {

namespace {
/// The time of a worker's exchange at the end of a mini-batch.
Seconds exchange(const RankProgram &rank) {
  Seconds sum{};
  for (const Instruction &instruction : rank.instructions)
    if (isCollective(instruction.op))
      sum += instruction.seconds;
  return sum;
}

class Race {
public:
  Race(const BalanceProblem &problem, int64_t ahead)
      : problem(problem), replicas(problem.stages.front()), ahead(ahead), done(replicas.size()),
        runs(replicas.size()) {
    int64_t full =
        MicroBatches{problem.program.globalBatch, problem.program.microBatches}.fullSize();
    share = double(full) / double(replicas.size());
  }

  /// When `batches` mini-batches are done.
  Seconds until(int64_t batches) {
    Seconds now{};
    while (batches-- > 0) {
      start(now);
      auto [time, worker] = ends.top();
      ends.pop();
      now = Seconds(time);
      runs[worker] = false;
      ++done[worker];
    }
    return now;
  }

private:
  /// All that may go on.
  void start(Seconds now) {
    int64_t slowest = *std::min_element(done.begin(), done.end());
    for (size_t worker = 0; worker < done.size(); ++worker)
      if (!runs[worker] && done[worker] - slowest <= ahead) {
        runs[worker] = true;
        ends.push({(now + taken(worker)).value(), worker});
      }
  }

  Seconds taken(size_t worker) const {
    const BalancedReplica &replica = replicas[worker];
    double speed = problem.speed(size_t(done[worker]), replica);
    return (replica.sample * share + replica.update) / speed +
           exchange(problem.program.ranks[size_t(replica.ranks.front())]);
  }

  const BalanceProblem &problem;
  const std::vector<BalancedReplica> &replicas;
  int64_t ahead;
  double share = 0;
  std::vector<int64_t> done;
  std::vector<bool> runs;
  using End = std::pair<double, size_t>; // of a mini-batch, and its worker
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
};
} // namespace

Expected<BalanceResult> Asynchronous::run(const BalanceProblem &problem) const {
  if (problem.program.stages > 1)
    return Diagnostic(Diag::NotSupported, {})
               .note({}, "asp and ssp are simulated for plans of one stage")
           << "the plan has " << problem.program.stages << " stages";
  size_t iterations = problem.trace.iterations.size();
  Race race(problem, bounded ? problem.options.staleness : std::numeric_limits<int64_t>::max());
  Seconds end = race.until(int64_t(iterations * problem.stages.front().size()));
  BalanceResult result;
  result.iterations.assign(iterations, end / double(iterations));
  return result;
}

} // namespace heterplan
