#include "search/exact/Lagrangian.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-12;
constexpr double intervalRatio = 1.2;
constexpr size_t mostIntervals = 32;
constexpr int ascentSteps = 40;
constexpr int stepsOfHalves = 12; // of an interval that was ascended whole, or nearly so
/// An interval is not split further when that could not raise its bound by more than this share.
constexpr double worthSplitting = 0.002;

/// They grow without end where these stages have no placement at all.
bool diverged(const std::vector<double> &multipliers) {
  constexpr double most = 1e30;
  return std::any_of(multipliers.begin(), multipliers.end(),
                     [](double multiplier) { return multiplier > most; });
}
} // namespace

Lagrangian::Lagrangian(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups)
    : evaluator(evaluator), microBatches(table.microBatches),
      positions(static_cast<int>(evaluator.space.positions.size())),
      types(static_cast<int>(evaluator.space.available.size())),
      costMatters(evaluator.problem.request.objective == Objective::Cost), timeLimit(infinity),
      costLimit(infinity), solvedTime(infinity), solvedCost(infinity) {
  listResources();
  listChoices(table, wholeModelGroups);
}

void Lagrangian::listResources() {
  const SearchSpace &space = evaluator.space;
  double budget = evaluator.problem.request.maxCostPerHour.value() * (1 + 1e-9);
  limits.assign(space.available.begin(), space.available.end());
  if (budget > 0)
    limits.push_back(budget);
  use.assign(space.options.size() * limits.size(), 0);
  for (const GroupOption &option : space.options)
    prices.push_back(option.price.value());
  for (size_t option = 0; option < space.options.size(); ++option) {
    double *share = &use[option * limits.size()];
    for (int type = 0; type < types; ++type)
      if (space.options[option].slots[type] > 0)
        share[type] = space.options[option].slots[type] / limits[type];
    if (budget > 0)
      share[types] = space.options[option].price.value() / budget;
  }
}

void Lagrangian::listChoices(const StageTable &table, bool wholeModelGroups) {
  for (int end = 1; end < positions; ++end)
    for (int begin = 0; begin < end; ++begin)
      listChoicesOf(table, wholeModelGroups, begin, end);
  firstChoice.push_back(choices.size());
}

/// Options of one type come in ascending counts: one more device that neither lowers the largest
/// share nor anything else, nor holds more micro-batches because its part of a table is smaller, is
/// of no use to this number of micro-batches.
void Lagrangian::listChoicesOf(const StageTable &table, bool wholeModelGroups, int begin, int end) {
  firstChoice.push_back(choices.size());
  bool last = end + 1 == positions, whole = begin == 0 && last;
  const StageEntry *entryBefore = nullptr; // of the last choice
  const std::vector<GroupOption> &options = evaluator.space.options;
  for (int option = 0; option < static_cast<int>(options.size()); ++option) {
    const StageEntry &entry = table.at(begin, end, option);
    if ((options[option].wholeModelOnly && !(whole && wholeModelGroups)) ||
        entry.mostInFlight < std::min(microBatches, last ? 1 : 2))
      continue;
    double receive = begin > 0 ? table.leastReceive(begin, option, entry.share) : 0;
    double gradient = last ? 0 : table.leastReceiveGradient(end, option, entry.share);
    Choice choice{(entry.forward + entry.backward + receive + gradient) * safety,
                  (entry.leastForward + receive) * safety, entry.sync * safety, option};
    auto inFlight = [&](const StageEntry &of) { return std::min(of.mostInFlight, microBatches); };
    bool alike =
        !table.depthMatters() || (entryBefore && !entryBefore->estimate && !entry.estimate);
    if (entryBefore && alike && entry.share == entryBefore->share &&
        inFlight(entry) <= inFlight(*entryBefore)) {
      const Choice &before = choices.back();
      const GroupOption &fewer = options[before.option], &more = options[option];
      if (fewer.group.counts.size() == 1 && more.group.counts.size() == 1 &&
          fewer.group.counts[0].first == more.group.counts[0].first && before.time <= choice.time &&
          before.forward <= choice.forward && before.sync <= choice.sync)
        continue;
    }
    choices.push_back(choice);
    entryBefore = &entry;
  }
}

double Lagrangian::leastSlowest() const {
  std::vector<double> least(positions, infinity);
  least[0] = 0;
  for (int end = 1; end < positions; ++end)
    for (int begin = 0; begin < end; ++begin) {
      size_t pair = pairIndex(begin, end);
      for (size_t i = firstChoice[pair]; i < firstChoice[pair + 1]; ++i)
        least[end] = std::min(least[end], std::max(least[begin], choices[i].time));
    }
  return least[positions - 1];
}

/// A geometric grid over the slowest stage, up to where (m−1)·low alone passes the limit.
void Lagrangian::startIntervals() {
  started = true;
  double low = leastSlowest();
  if (!std::isfinite(low))
    return; // no placement at all: no interval
  auto add = [&](double from, double to) {
    std::vector<double> none(limits.size(), 0);
    intervals.push_back({from, to, none, {}, 0, none, {}, 0, {}, {}});
  };
  while (microBatches > 1 && low > 0 && intervals.size() + 1 < mostIntervals / 2 &&
         (microBatches - 1) * low * intervalRatio < timeLimit) {
    add(low, low * intervalRatio);
    low *= intervalRatio;
  }
  add(low, infinity);
}

void Lagrangian::tighten(double newTimeLimit, double newCostLimit) {
  timeLimit = newTimeLimit;
  costLimit = newCostLimit;
  if (!started)
    startIntervals();
  for (size_t i = intervals.size(); i-- > 0;) {
    if (isWarm) { // from elsewhere
      startNear(intervals[i]);
    } else if (i + 1 < intervals.size()) { // a good start
      intervals[i].multipliers = intervals[i + 1].multipliers;
      intervals[i].costMultipliers = intervals[i + 1].costMultipliers;
    }
    improve(intervals[i], isWarm ? stepsOfHalves : ascentSteps);
  }
  isWarm = false;
  for (const Interval &interval : intervals)
    if (!diverged(interval.multipliers) && !diverged(interval.costMultipliers))
      known[interval.high] = {interval.multipliers, interval.costMultipliers};
  dropSolved();
  splitDeciding();
  for (Interval &interval : intervals)
    rankChoices(interval);
}

/// From the known multipliers whose slowest stage is nearest.
void Lagrangian::startNear(Interval &interval) const {
  auto near = known.lower_bound(interval.high);
  if (near == known.end())
    --near;
  interval.multipliers = near->second.time;
  interval.costMultipliers = near->second.cost;
}

double Lagrangian::objectiveOf(const Interval &interval) const {
  return costMatters ? interval.cost : interval.time;
}

bool Lagrangian::isSolved(const Interval &interval) const {
  return interval.time >= timeLimit || (costMatters && interval.cost >= costLimit);
}

/// Intervals that cannot hold anything of interest need no bounds of their own.
void Lagrangian::dropSolved() {
  auto done = std::remove_if(intervals.begin(), intervals.end(), [&](const Interval &interval) {
    if (!isSolved(interval))
      return false;
    solvedTime = std::min(solvedTime, interval.time);
    if (interval.time < timeLimit)
      solvedCost = std::min(solvedCost, interval.cost);
    return true;
  });
  intervals.erase(done, intervals.end());
}

/// Halves the interval that decides the bound until that gains little.
void Lagrangian::splitDeciding() {
  while (microBatches > 1 && !intervals.empty() && intervals.size() < mostIntervals) {
    auto least = std::min_element(
        intervals.begin(), intervals.end(),
        [&](const Interval &a, const Interval &b) { return objectiveOf(a) < objectiveOf(b); });
    double high = least->high;
    if (!std::isfinite(high))
      high = std::min(least->low * 4, timeLimit / (microBatches - 1));
    if ((microBatches - 1) * (high - least->low) < worthSplitting * least->time)
      return;
    Interval upper = *least;
    upper.low = least->high = (least->low + high) / 2;
    improve(*least, stepsOfHalves);
    improve(upper, stepsOfHalves);
    intervals.insert(least + 1, std::move(upper));
    dropSolved();
  }
}

void Lagrangian::improve(Interval &interval, int steps) {
  improveTime(interval, steps);
  if (costMatters && interval.time < timeLimit)
    improveCost(interval, steps);
}

void Lagrangian::improveTime(Interval &interval, int steps) {
  double base = (microBatches - 1) * interval.low;
  bool anyTime = costMatters && !std::isfinite(timeLimit); // the cheapest plans leave devices
  Costs costs;
  double least = ascend(
      interval.multipliers, anyTime ? 1 : steps, timeLimit - base,
      [&](const std::vector<double> &current) { return solveTime(current, interval.high, costs); },
      [&] { interval.costs = costs; });
  interval.time = base + least;
}

void Lagrangian::improveCost(Interval &interval, int steps) {
  std::vector<double> paid;
  interval.cost = ascend(
      interval.costMultipliers, steps, costLimit,
      [&](const std::vector<double> &current) { return solveCost(current, interval, paid); },
      [&] { interval.paid = paid; });
}

/// Polyak's steps from `multipliers` towards `goal`, shortened when they do not help. Returns the
/// best value; `multipliers` becomes where it is had, and `keep` is called there.
template <typename Solve, typename Keep>
double Lagrangian::ascend(std::vector<double> &multipliers, int steps, double goal, Solve solve,
                          Keep keep) const {
  double best = -infinity, stride = 1;
  std::vector<double> current = multipliers;
  int stalled = 0;
  for (int step = 0; step < steps && stride > 0.02; ++step) {
    double value = solve(current);
    stalled = value > best + 1e-3 * std::abs(best) ? 0 : stalled + 1;
    if (value > best) {
      best = value;
      multipliers = current;
      keep();
    }
    if (best >= goal || !std::isfinite(best))
      break;
    std::vector<double> slope = surplus();
    double norm = 0;
    for (size_t i = 0; i < slope.size(); ++i)
      norm += current[i] > 0 || slope[i] > 0 ? slope[i] * slope[i] : 0;
    if (norm == 0)
      break; // no multiplier can grow, none can shrink: the optimum
    if (stalled >= 3) {
      stride /= 2;
      stalled = 0;
    }
    double reach = (std::isfinite(goal) ? goal : best + std::abs(best)) - value;
    for (size_t i = 0; i < slope.size(); ++i)
      current[i] = std::max(0.0, current[i] + stride * reach / norm * slope[i]);
  }
  return best;
}

/// What each option pays for its resources.
std::vector<double> Lagrangian::chargesOf(const std::vector<double> &multipliers) const {
  size_t resources = limits.size();
  std::vector<double> charges(evaluator.space.options.size(), 0);
  for (size_t option = 0; option < charges.size(); ++option)
    for (size_t resource = 0; resource < resources; ++resource)
      charges[option] += multipliers[resource] * use[option * resources + resource];
  return charges;
}

/// The value of the relaxation where the shortest path takes `least`.
double Lagrangian::bound(double least, const std::vector<double> &multipliers) const {
  double paid = std::accumulate(multipliers.begin(), multipliers.end(), 0.0);
  return std::isfinite(least) ? least - paid - 1e-12 * (least + paid) : infinity;
}

/// Shortest paths under the multipliers: Σ τ + exposed synchronisation, and Σ forward.
double Lagrangian::solveTime(const std::vector<double> &multipliers, double high, Costs &costs) {
  chargeOptions(multipliers);
  costs.fill.assign(positions, infinity);
  costs.forward.assign(positions, infinity);
  steps.assign(positions, {});
  costs.fill[0] = costs.forward[0] = 0;
  for (int end = 1; end < positions; ++end) {
    double leastFill = infinity, leastForward = infinity;
    Step step{};
    for (int begin = 0; begin < end; ++begin) {
      double fillBefore = costs.fill[begin], forwardBefore = costs.forward[begin];
      size_t pair = pairIndex(begin, end);
      for (size_t i = firstChoice[pair]; i < firstChoice[pair + 1]; ++i) {
        const Choice &choice = choices[i];
        if (choice.time > high)
          continue;
        double paid = optionCosts[choice.option];
        double forward = paid + choice.forward + forwardBefore;
        if (forward < leastForward) {
          leastForward = forward;
          step.forwardBegin = begin;
          step.forwardChoice = static_cast<int>(i);
        }
        double behind = choice.sync + forwardBefore;
        double fill = paid + choice.time + std::max(fillBefore, behind);
        if (fill < leastFill) {
          leastFill = fill;
          step.fillBegin = begin;
          step.fillChoice = static_cast<int>(i);
          step.behindSync = behind > fillBefore;
        }
      }
    }
    costs.fill[end] = leastFill;
    costs.forward[end] = leastForward;
    steps[end] = step;
  }
  return bound(costs.fill[positions - 1], multipliers);
}

/// What a stage is paid for an iteration in the interval, at least.
double Lagrangian::paidFor(const Choice &choice, const Interval &interval) const {
  return prices[choice.option] * std::max(interval.time, microBatches * choice.time + choice.sync) *
         safety;
}

/// Shortest paths under the multipliers: what stages are paid for an iteration in the interval.
double Lagrangian::solveCost(const std::vector<double> &multipliers, const Interval &interval,
                             std::vector<double> &paid) {
  chargeOptions(multipliers);
  paid.assign(positions, infinity);
  steps.assign(positions, {});
  paid[0] = 0;
  for (int end = 1; end < positions; ++end)
    for (int begin = 0; begin < end; ++begin) {
      size_t pair = pairIndex(begin, end);
      for (size_t i = firstChoice[pair]; i < firstChoice[pair + 1]; ++i) {
        const Choice &choice = choices[i];
        if (choice.time > interval.high)
          continue;
        double sum = paid[begin] + paidFor(choice, interval) + optionCosts[choice.option];
        if (sum >= paid[end])
          continue;
        paid[end] = sum;
        steps[end].fillBegin = begin;
        steps[end].fillChoice = static_cast<int>(i);
      }
    }
  return bound(paid[positions - 1], multipliers);
}

/// How much more of each resource than there is the path of the last solve takes, as a share.
std::vector<double> Lagrangian::surplus() const {
  std::vector<double> result(limits.size(), -1);
  bool forwardOnly = false;
  for (int position = positions - 1; position > 0;) {
    const Step &step = steps[position];
    size_t option = choices[forwardOnly ? step.forwardChoice : step.fillChoice].option;
    for (size_t resource = 0; resource < limits.size(); ++resource)
      result[resource] += use[option * limits.size() + resource];
    position = forwardOnly ? step.forwardBegin : step.fillBegin;
    forwardOnly |= step.behindSync;
  }
  return result;
}

/// What the resources that `partial` leaves are worth.
double Lagrangian::refund(const std::vector<double> &multipliers,
                          const PartialPlacement &partial) const {
  double sum = 0;
  for (int type = 0; type < types; ++type)
    if (limits[type] > 0)
      sum += multipliers[type] * (1 - partial.used[type] / limits[type]);
  if (limits.size() > size_t(types))
    sum += multipliers[types] * (1 - partial.price / limits[types]);
  return sum;
}

/// The least of the iteration time of completions whose slowest stage lies in the interval.
double Lagrangian::openTime(const Interval &interval, const PartialPlacement &partial) const {
  if (partial.slowest > interval.high)
    return infinity;
  double open = std::max(interval.costs.fill[partial.position],
                         partial.exposed + interval.costs.forward[partial.position]);
  return chosenTime(interval, partial) + open;
}

/// The part of it that does not depend on the stages before `partial`.
double Lagrangian::chosenTime(const Interval &interval, const PartialPlacement &partial) const {
  return partial.fill - refund(interval.multipliers, partial) +
         (microBatches - 1) * std::max(partial.slowest, interval.low);
}

double Lagrangian::time(const PartialPlacement &partial) const {
  if (!started)
    return 0;
  if (partial.position == 0)
    return partial.fill + partial.exposed + (microBatches - 1) * partial.slowest;
  double least = solvedTime;
  for (const Interval &interval : intervals)
    least = std::min(least, openTime(interval, partial));
  return least;
}

double Lagrangian::cost(const PartialPlacement &partial) const {
  if (!started || !costMatters || partial.position == 0)
    return 0;
  double least = solvedCost;
  for (const Interval &interval : intervals) {
    double time = openTime(interval, partial);
    if (time > timeLimit)
      continue;
    double open = interval.paid[partial.position] - refund(interval.costMultipliers, partial);
    least = std::min(least, time * partial.price + std::max(0.0, open));
  }
  return least;
}

} // namespace heterplan
