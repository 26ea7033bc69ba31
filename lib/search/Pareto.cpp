#include "search/Pareto.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9; // of limits, as Evaluation has it

double speedOf(const Plan &plan) { return plan.throughput.value(); }

class Sweep {
public:
  Sweep(const Problem &problem, SearchFor search, const ParetoOptions &options)
      : problem(problem), search(search), options(options),
        spent(problem.request.objective == Objective::DeviceSeconds ? Objective::DeviceSeconds
                                                                    : Objective::Cost) {
    assert(options.points >= 2 && "a Pareto front has two ends");
  }

  Expected<ParetoFront> run();

private:
  Expected<SearchOutcome> solve(Objective objective, SamplesPerSecond floor);
  Error sweepFloors(double slowest, double fastest);

  const Problem &problem;
  SearchFor search;
  const ParetoOptions &options;
  const Objective spent;
  int notReached = 0; // floors
  int done = 0;       // searches, those that are not needed included
  std::vector<Plan> found;
};

Expected<SearchOutcome> Sweep::solve(Objective objective, SamplesPerSecond floor) {
  Problem current = problem;
  current.request.objective = objective;
  current.request.minThroughput = floor;
  int all = options.points + 1;
  if (options.progress)
    options.progress(done, all);
  return search(current, all - done++);
}

/// The cheapest plans for the floors after the first.
Error Sweep::sweepFloors(double slowest, double fastest) {
  for (int i = 1; i < options.points; ++i) {
    double floor = i + 1 == options.points
                       ? fastest
                       : slowest * std::pow(fastest / slowest, double(i) / (options.points - 1));
    if (options.stop && options.stop()) {
      notReached = options.points - i;
      return Error::success();
    }
    if (speedOf(found.back()) >= floor) {
      ++done;
      continue;
    }
    Expected<SearchOutcome> outcome = solve(spent, SamplesPerSecond(floor));
    if (!outcome)
      return outcome.takeError();
    if (outcome->plan)
      found.push_back(std::move(*outcome->plan));
  }
  return Error::success();
}

/// Plans that no other plan dominates, up to rounding.
std::vector<Plan> withoutDominated(std::vector<Plan> plans, Objective spent) {
  std::stable_sort(plans.begin(), plans.end(), [&](const Plan &a, const Plan &b) {
    return speedOf(a) != speedOf(b) ? speedOf(a) > speedOf(b)
                                    : spentBy(a, spent) < spentBy(b, spent);
  });
  std::vector<Plan> front;
  for (Plan &plan : plans) {
    if (!front.empty() && spentBy(plan, spent) >= spentBy(front.back(), spent) * (1 - rounding))
      continue;
    if (!front.empty() && speedOf(plan) >= speedOf(front.back()) * (1 - rounding))
      front.pop_back(); // as fast, and cheaper
    front.push_back(std::move(plan));
  }
  std::reverse(front.begin(), front.end());
  return front;
}

size_t kneeOf(ArrayRef<Plan> front, Objective spent) {
  double speeds = speedOf(front.back()) - speedOf(front.front());
  double least = spentBy(front.front(), spent), costs = spentBy(front.back(), spent) - least;
  size_t knee = 0;
  double farthest = 0;
  for (size_t i = 0; i < front.size() && speeds > 0 && costs > 0; ++i) {
    double below = (speedOf(front[i]) - speedOf(front.front())) / speeds -
                   (spentBy(front[i], spent) - least) / costs;
    if (below > farthest) {
      farthest = below;
      knee = i;
    }
  }
  return knee;
}

Expected<ParetoFront> Sweep::run() {
  SamplesPerSecond floor = problem.request.minThroughput;
  Expected<SearchOutcome> fastest = solve(Objective::Throughput, floor);
  if (!fastest)
    return fastest.takeError();
  ParetoFront front;
  front.spent = spent;
  front.proven = fastest->isProven();
  if (!fastest->plan)
    return front;
  Expected<SearchOutcome> cheapest = solve(spent, floor);
  if (!cheapest)
    return cheapest.takeError();
  found.push_back(cheapest->plan ? std::move(*cheapest->plan) : *fastest->plan);
  double most = std::max(speedOf(*fastest->plan), speedOf(found.back()));
  if (Error error = sweepFloors(speedOf(found.back()), most))
    return error;
  found.push_back(std::move(*fastest->plan)); // the fastest, where no cheaper one is as fast
  front.plans = withoutDominated(std::move(found), spent);
  front.notReached = notReached;
  front.knee = kneeOf(front.plans, spent);
  return front;
}
} // namespace

Expected<ParetoFront> paretoFront(const Problem &problem, SearchFor search,
                                  const ParetoOptions &options) {
  return Sweep(problem, search, options).run();
}

} // namespace heterplan
