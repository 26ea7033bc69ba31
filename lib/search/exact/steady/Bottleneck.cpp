#include "search/exact/steady/Bottleneck.h"

#include "search/provision/Provisioning.h"
#include "search/provision/StageOrders.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

class BottleneckSearch {
public:
  BottleneckSearch(Evaluator &evaluator, BottleneckSolver &solver, const SearchOptions &options,
                   double workShare)
      : evaluator(evaluator), solver(solver), options(options), meter(options, workShare),
        assignments(evaluator), provisioner(evaluator, assignments) {}

  void consider(const Placement &placement);
  Expected<Solution> runSteadily();
  Expected<Solution> runOverGrid();

private:
  /// Bottleneck stage times between `low` and `high` seconds a micro-batch, for which devices cost
  /// at least `price`.
  struct Interval {
    double low, high, price, bound;
    bool operator<(const Interval &other) const { return bound > other.bound; }
  };
  Expected<double> solve(double limit, int choice, double &reached);
  void considerOrders();
  void push(double low, double high, double price);
  double leastBottleneck() const;
  double slowestDevice(int choice);
  double split(const Interval &interval) const;
  double budget() const;

  Evaluator &evaluator;
  BottleneckSolver &solver;
  const SearchOptions &options;
  SearchBudget meter;
  AssignmentSpace assignments;
  Provisioner provisioner;
  std::priority_queue<Interval> open;
  std::optional<Placement> best;
  double bestObjective = infinity;
};

void BottleneckSearch::consider(const Placement &placement) {
  std::optional<Evaluation> evaluation = evaluator.evaluate(placement);
  if (evaluation && evaluation->objective < bestObjective) {
    bestObjective = evaluation->objective;
    best = placement;
  }
  auto sized = provisioner.size(assignments.of(placement));
  if (sized && sized->objective < bestObjective) {
    bestObjective = sized->objective;
    best = std::move(sized->placement);
  }
}

/// The least price at `limit`; `reached`: the bottleneck of a placement that has that price, or
/// `limit`.
Expected<double> BottleneckSearch::solve(double limit, int choice, double &reached) {
  int microBatches = evaluator.space.microBatches[choice];
  CountTable counts(evaluator, microBatches, limit, solver.deepest(microBatches));
  int64_t entries =
      int64_t(counts.positions) * counts.positions / 2 * counts.types * counts.depths();
  meter.add(entries);
  Expected<BottleneckSolver::Answer> answer = solver.solve(counts, microBatches, budget());
  if (!answer)
    return answer.takeError();
  reached = limit;
  for (const Placement &placement : answer->placements) {
    int64_t before = provisioner.work();
    consider(placement);
    meter.add(provisioner.work() - before);
    std::optional<Evaluation> evaluation = evaluator.measure(placement);
    if (evaluation && evaluation->price.value() <= answer->price * (1 + 1e-12))
      reached = std::min(reached, evaluation->iteration.value() / microBatches);
  }
  return answer->price;
}

/// Considers pipelines in which each stage has all devices of a type, in the best order with the
/// best cuts for each set of types: relaxed prices lead to plans of few devices, which memory may
/// rule out.
void BottleneckSearch::considerOrders() {
  const SearchSpace &space = evaluator.space;
  std::vector<DeviceGroup> groups;
  for (int type = 0; type < assignments.types; ++type)
    if (space.available[type] > 0 && groups.size() < StageOrders::mostGroups)
      groups.push_back(DeviceGroup{{{type, space.available[type]}}});
  StageOrders orders(evaluator);
  const size_t sets = size_t(1) << groups.size();
  const std::vector<Placement> found =
      orders.best(groups, space.microBatches.front(), sets, bestObjective);
  meter.add(orders.work());
  for (const Placement &placement : found)
    consider(placement);
}

/// Dollars per hour that the budget allows.
double BottleneckSearch::budget() const {
  DollarsPerHour budget = evaluator.problem.request.maxCostPerHour;
  return budget > DollarsPerHour(0) ? budget.value() * (1 + 1e-9) : infinity;
}

void BottleneckSearch::push(double low, double high, double price) {
  if (!(low < high) || !std::isfinite(price) || price > budget())
    return;
  Seconds iteration(low * evaluator.space.microBatches.front());
  if (DollarsPerHour(price) * iteration > evaluator.problem.request.highestCost() * (1 + 1e-9))
    return;
  open.push({low, high, price, evaluator.objectiveOf(iteration, DollarsPerHour(price))});
}

/// Each block takes at least the time of its computing on all devices of its best type.
double BottleneckSearch::leastBottleneck() const {
  const HeterPsModel &model = *evaluator.stages.costs.fit();
  const SearchSpace &space = evaluator.space;
  double least = 0;
  for (int block = 0; block < assignments.blocks; ++block) {
    double fastest = infinity;
    for (int type = 0; type < assignments.types; ++type) {
      if (!assignments.allowed(block, type))
        continue;
      double time = 0;
      for (int layer = space.positions[block]; layer < space.positions[block + 1]; ++layer)
        time += model.layer(layer, type).compute.at(space.available[type]);
      fastest = std::min(fastest, time);
    }
    least = std::max(least, fastest);
  }
  return std::max(least * (1 - 1e-9), std::numeric_limits<double>::min());
}

/// The next limit to try: the middle of the interval, or the one that would just improve on the
/// incumbent at the least price, where that is shorter.
double BottleneckSearch::split(const Interval &interval) const {
  const double high = std::isfinite(interval.high) ? interval.high : interval.low * 1e6;
  const double middle = std::sqrt(interval.low) * std::sqrt(high);
  if (!std::isfinite(bestObjective))
    return middle;
  return std::min(middle, interval.low * bestObjective / interval.bound);
}

Expected<Solution> BottleneckSearch::runSteadily() {
  considerOrders();
  double floor = evaluator.problem.request.longestIteration().value() * (1 + 1e-9);
  double low = leastBottleneck(),
         high = std::min(floor / evaluator.space.microBatches.front(), 1e30), reached = 0;
  Expected<double> price = solve(high, 0, reached);
  if (!price)
    return price.takeError();
  push(low, reached, *price);
  double settled = infinity; // least bound of the intervals that are too narrow to split
  while (!open.empty() && !meter.exhausted()) {
    Interval interval = open.top();
    if (std::isfinite(bestObjective) &&
        interval.bound >= bestObjective * (1 - std::max(1e-12, options.gap / 2)))
      break;
    open.pop();
    double middle = split(interval);
    if (!(middle > interval.low * (1 + 1e-12) && middle < interval.high)) {
      settled = std::min(settled, interval.bound);
      continue;
    }
    price = solve(middle, 0, reached);
    if (!price)
      return price.takeError();
    push(middle, interval.high, interval.price);
    push(interval.low, reached, std::max(*price, interval.price));
    if (options.progress)
      options.progress(meter.progress(), bestObjective);
  }
  double bound = std::min({bestObjective, settled, open.empty() ? infinity : open.top().bound});
  // What is proven to a few parts in 10^10 is proven.
  bool complete = bound >= bestObjective * (1 - 1e-9);
  return Solution{best, complete ? bestObjective : bound,
                  meter.termination(complete, best.has_value())};
}

/// A micro-batch with all layers on one device of the slowest type.
double BottleneckSearch::slowestDevice(int choice) {
  int64_t batch = evaluator.stages.fullSize(evaluator.space.microBatches[choice]);
  double slowest = 0;
  for (int type = 0; type < assignments.types; ++type) {
    LayerRange all{0, evaluator.problem.graph.size()};
    slowest = std::max(slowest, evaluator.stages.costs.computing(all, {}, type, batch, 1).value());
  }
  return slowest;
}

/// From stages as slow as one device with all layers, down to where no placement is fast enough.
Expected<Solution> BottleneckSearch::runOverGrid() {
  for (int choice = 0; choice < assignments.choices; ++choice) {
    double price = 0, reached = 0;
    for (double bottleneck = slowestDevice(choice); std::isfinite(price) && !meter.exhausted();
         bottleneck /= 2) {
      Expected<double> least = solve(bottleneck, choice, reached);
      if (!least)
        return least.takeError();
      price = *least;
    }
  }
  return Solution{best, std::nullopt, meter.termination(/*proven=*/false, best.has_value())};
}
} // namespace

CountTable::CountTable(Evaluator &evaluator, int microBatches, double limit, int deepest)
    : positions(static_cast<int>(evaluator.space.positions.size())),
      types(static_cast<int>(evaluator.space.available.size())), microBatches(microBatches),
      limit(limit), ofDepth(size_t(positions) * (positions - 1) / 2 * types) {
  addDepth(evaluator, 0);
  if (deepest == 0)
    return;
  addDepth(evaluator, deepest);
  const std::vector<int> last(counts.begin() + ofDepth, counts.end());
  counts.resize(ofDepth);
  if (last == counts)
    return;
  for (int behind = 1; behind < deepest; ++behind)
    addDepth(evaluator, behind);
  counts.insert(counts.end(), last.begin(), last.end());
}

/// The counts of stages with so many stages behind them.
void CountTable::addDepth(Evaluator &evaluator, int behind) {
  const SearchSpace &space = evaluator.space;
  const std::vector<int> &at = space.positions;
  const int inFlight = evaluator.problem.request.inFlight(behind + 1, microBatches);
  for (int end = 1; end < positions; ++end)
    for (int begin = 0; begin < end; ++begin) {
      bool whole = begin == 0 && end == positions - 1;
      bool allowed = whole ? space.minStages <= 1 : space.maxStages > 1;
      for (int type = 0; type < types; ++type)
        counts.push_back(allowed && space.available[type] > 0
                             ? evaluator.stages.leastCount({at[begin], at[end]}, type, limit,
                                                           microBatches, inFlight)
                             : 0);
    }
}

Expected<Solution> searchByBottleneck(Evaluator &evaluator, BottleneckSolver &solver,
                                      const SearchOptions &options, double workShare,
                                      std::optional<Placement> incumbent) {
  BottleneckSearch search(evaluator, solver, options, workShare);
  if (incumbent)
    search.consider(*incumbent);
  return evaluator.rules.slowestDecides() ? search.runSteadily() : search.runOverGrid();
}

Expected<Solution> Parametric::run(Evaluator &evaluator, const SearchOptions &options) {
  auto solver = makeShortestPaths(evaluator, options.tuning);
  return searchByBottleneck(evaluator, *solver, options, 1, std::nullopt);
}

} // namespace heterplan
