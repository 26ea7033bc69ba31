#include "search/exact/MilpSearch.h"

#include "search/exact/BilinearApproximation.h"
#include "search/exact/Bounds.h"
#include "search/exact/CountBounds.h"
#include "search/exact/PlacementModel.h"
#include "search/placement/SearchBudget.h"

#include <CoinError.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int64_t mostNodes = 20'000; // of Cbc's tree
constexpr int64_t workOfNode = 40;    // in stages priced, besides one for each column
constexpr double localShare = 0.002;  // of the work, for a plan to start from
constexpr int mostLines = 60;         // of an envelope
/// What is within this of the best plan is as good: Cbc is not more accurate.
constexpr double close = 1 - 10 * PlacementModel::accuracy;
constexpr double proven = 1 - 1e-9; // by bounds that are free of Cbc's rounding

class MilpSearch {
public:
  MilpSearch(Evaluator &evaluator, const SearchOptions &options)
      : evaluator(evaluator), request(evaluator.problem.request), options(options), meter(options) {
  }

  Solution run();

private:
  using Point = PlacementModel::Point;
  using Units = PlacementModel::Units;

  /// What depends on the number of micro-batches; the bounds know the best plan.
  struct MicroBatchCase {
    MicroBatchCase(MilpSearch &search, int microBatches)
        : table(search.evaluator, microBatches),
          bounds(search.evaluator, table, /*wholeModelGroups=*/true, ascents) {
      if (bounds.root() < search.bestObjective)
        bounds.tighten(search.timeLimit(), search.bestObjective);
    }
    StageTable table;
    Lagrangian::Memory ascents;
    Bounds bounds;
  };

  void start();
  void consider(const std::optional<Placement> &placement);
  double timeLimit() const;
  double search(int microBatches);
  double leastTime(const PlacementModel &program, Units units);
  double leastProduct(const PlacementModel &program, Units units);
  PlacementModel::Answer solve(const PlacementModel &program, Units units,
                               BilinearApproximation::Line line);
  double objectiveOf(double time, double price) const {
    return evaluator.objectiveOf(Seconds(time), DollarsPerHour(price));
  }

  Evaluator &evaluator;
  const Request &request;
  const SearchOptions &options;
  SearchBudget meter;
  double cheapest = infinity; // option, dollars per hour
  std::optional<Placement> best;
  double bestObjective = infinity, bestTime = infinity;
};

void MilpSearch::consider(const std::optional<Placement> &placement) {
  if (!placement)
    return;
  std::optional<Evaluation> evaluation = evaluator.evaluate(*placement);
  if (!evaluation || evaluation->objective >= bestObjective)
    return;
  bestObjective = evaluation->objective;
  bestTime = evaluation->iteration.value();
  best = placement;
}

void MilpSearch::start() {
  for (const GroupOption &option : evaluator.space.options)
    cheapest = std::min(cheapest, option.price.value());
  consider(greedyPlacement(evaluator));
  consider(improveLocally(evaluator, options, localShare, best).placement);
}

/// Slowest iteration that is still of interest.
double MilpSearch::timeLimit() const {
  double floor = request.longestIteration().value() * (1 + 1e-9);
  return request.objective == Objective::Throughput ? std::min(bestTime, floor) : floor;
}

/// The most promising micro-batches first. Tables are large, so that there is one at a time.
Solution MilpSearch::run() {
  start();
  double bound = infinity;
  for (auto [least, choice] : CountBounds(evaluator, /*wholeModelGroups=*/true).inOrder()) {
    int m = evaluator.space.microBatches[choice];
    bound = std::min(bound, least < bestObjective * proven ? std::max(least, search(m)) : least);
    if (options.progress)
      options.progress(meter.progress(), bestObjective);
  }
  bool complete = bound >= bestObjective * close;
  return {best, complete ? bestObjective : std::min(bound, bestObjective),
          meter.termination(complete, best.has_value())};
}

/// A bound of the objective of all placements with these micro-batches.
double MilpSearch::search(int microBatches) {
  if (meter.exhausted())
    return 0;
  MicroBatchCase of(*this, microBatches);
  double root = of.bounds.root(), unit = of.bounds.rootTime();
  if (root >= bestObjective * proven)
    return root;
  Units units{unit > 0 ? unit : 1, cheapest > 0 ? cheapest : 1};
  PlacementModel program(evaluator, of.table, of.bounds.listStages(), units);
  if (program.isTooLarge())
    return root;
  return request.objective == Objective::Throughput ? leastTime(program, units)
                                                    : leastProduct(program, units);
}

/// Minimises line.x·iteration + line.y·price below line.value.
PlacementModel::Answer MilpSearch::solve(const PlacementModel &program, Units units,
                                         BilinearApproximation::Line line) {
  PlacementModel::Query query{line.x, line.y, timeLimit() / units.time, infinity};
  LinearModel::Limits limits;
  int64_t workOfEach = workOfNode + int64_t(program.columns());
  limits.nodes = int(std::min(mostNodes, meter.left() / workOfEach + 1));
  limits.seconds = meter.secondsLeft();
  limits.interrupted = [&] { return meter.interrupted(); };
  limits.cutoff = line.value;
  PlacementModel::Answer answer = program.minimise(query, limits);
  meter.add(answer.nodes * workOfEach);
  if (answer.point)
    consider(answer.point->placement);
  answer.bound = std::min(answer.bound, line.value);
  return answer;
}

double MilpSearch::leastTime(const PlacementModel &program, Units units) {
  double bound = solve(program, units, {1, 0, bestTime / units.time}).bound * units.time;
  return objectiveOf(bound, cheapest);
}

/// Price · iteration is quasi-concave, so that it is bounded by a corner of what the bounds of
/// weighted sums leave, and least at an extreme point of the convex hull of all placements, where
/// some weighted sum is least (Aneja and Nair, Management Science 1979).
double MilpSearch::leastProduct(const PlacementModel &program, Units units) {
  BilinearApproximation envelope(1, 1);
  double unit = objectiveOf(units.time, units.price);
  for (int lines = 0;; ++lines) {
    BilinearApproximation::Corner corner = envelope.leastCorner();
    if (corner.product() * unit >= bestObjective * close || lines == mostLines || meter.exhausted())
      return corner.product() * unit;
    BilinearApproximation::Line line = envelope.chord(corner, bestObjective / unit);
    line.value = solve(program, units, line).bound;
    if (!std::isfinite(line.value))
      return infinity; // no placement at all
    if (line.x * corner.x + line.y * corner.y >= line.value * close)
      return corner.product() * unit; // it is reached
    envelope.add(line);
  }
}
} // namespace

Expected<Solution> searchByMilp(Evaluator &evaluator, const SearchOptions &options) {
  try {
    return MilpSearch(evaluator, options).run();
  } catch (const CoinError &error) {
    return Diagnostic(Diag::TooLarge, {"", 0, 0, "strategy milp"})
           << "Cbc gave up: " << error.message();
  }
}

} // namespace heterplan
