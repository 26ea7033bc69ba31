// The multipliers of one interval, by subgradient ascent on shortest paths over the cuts.
#include "search/exact/Lagrangian.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9;

/// Under such multipliers no bound is negative.
bool isFree(ArrayRef<double> multipliers) {
  return all_of(multipliers, [](double multiplier) { return multiplier == 0; });
}
} // namespace

void Lagrangian::improveTime(Interval &interval, int steps) {
  double base = (microBatches - 1) * interval.low;
  bool anyTime = costMatters && !std::isfinite(timeLimit); // the cheapest plans leave devices
  ascend(interval, interval.time, anyTime ? 1 : steps, longestOf(interval) - base, infinity,
         [&](const std::vector<double> &multipliers) {
           return chargesOf(multipliers, 1, /*countsMoney=*/false);
         });
  interval.time.bound += base;
}

/// Where it matters.
void Lagrangian::improveCost(Interval &interval, int steps) {
  if (!costMatters || interval.leastTime() >= timeLimit || interval.isEmpty())
    return;
  ascend(
      interval, interval.cost, steps, costLimit, fillTime(interval, interval.low),
      [&](const std::vector<double> &multipliers) { return costCharges(interval, multipliers); });
}

/// Polyak's steps towards `goal`, shortened when they do not help; Σ τ and exposed synchronisation
/// may take `fillTime`. Leaves the best multipliers and what they give, and keeps the best path
/// within all limits.
template <typename MakeCharges>
void Lagrangian::ascend(const Interval &interval, LagrangianBounds &relaxation, int steps,
                        double goal, double fillTime, MakeCharges makeCharges) {
  double stride = 1, best = -infinity, leastOfPaths = infinity;
  std::vector<int> bestPath;
  LagrangianBounds current = relaxation;
  int stalled = 0;
  const bool hasLevels = !relaxation.junctions.empty();
  if (!hasLevels)
    listArcs(interval, makeCharges(relaxation.multipliers).countsMoney);
  for (int step = 0; step < steps && stride > 0.02; ++step) {
    const Charges charges = makeCharges(current.multipliers);
    if (hasLevels)
      solveLevels(interval, charges, current);
    else
      solve(charges, current);
    double value = current.bound;
    if (step == 0 && value < 0 && !isFree(current.multipliers)) { // where others were good
      current.multipliers.assign(current.multipliers.size(), 0);
      --step;
      continue;
    }
    stalled = value > best + 1e-3 * std::abs(best) ? 0 : stalled + 1;
    if (value > best) {
      best = value;
      relaxation = current;
    }
    if (best >= goal || !std::isfinite(best))
      break;
    std::vector<double> slope = surplus(fillTime);
    const bool isWithin = all_of(slope, [](double more) { return more <= rounding; });
    if (double least = leastOfLastPath(charges.countsMoney); isWithin && least < leastOfPaths) {
      leastOfPaths = least;
      bestPath = lastPath;
    }
    double norm = 0;
    for (size_t i = 0; i < slope.size(); ++i)
      norm += current.multipliers[i] > 0 || slope[i] > 0 ? slope[i] * slope[i] : 0;
    if (norm == 0)
      break; // no multiplier can grow, none can shrink: the optimum
    if (stalled >= 3) {
      stride /= 2;
      stalled = 0;
    }
    double reach = (std::isfinite(goal) ? goal : best + std::abs(best)) - value;
    for (size_t i = 0; i < slope.size(); ++i)
      current.multipliers[i] =
          std::max(0.0, current.multipliers[i] + stride * reach / norm * slope[i]);
  }
  if (!bestPath.empty())
    keepPath(bestPath);
}

/// Iteration of the last path, or what it costs, but for what is left of synchronisation.
double Lagrangian::leastOfLastPath(bool countsMoney) const {
  double fill = 0, slowest = 0, price = 0;
  for (int choice : lastPath) {
    fill += choices[choice].time();
    slowest = std::max(slowest, choices[choice].time());
    price += prices[choices[choice].option];
  }
  return (fill + (microBatches - 1) * slowest) * (countsMoney ? price : 1);
}

/// `path`: choices, from the end.
void Lagrangian::keepPath(ArrayRef<int> path) {
  Path &stages = met.emplace_back();
  for (int choice : reverse(path))
    stages.push_back(choices[choice]);
}

std::vector<Lagrangian::Path> Lagrangian::takePaths() { return std::exchange(met, {}); }

Lagrangian::Charges Lagrangian::chargesOf(const std::vector<double> &multipliers, double second,
                                          bool countsMoney) const {
  size_t resources = limits.size();
  Charges charges{std::vector<double>(evaluator.space.options.size(), 0), second, countsMoney};
  for (size_t option = 0; option < charges.options.size(); ++option)
    for (size_t resource = 0; resource < resources; ++resource)
      charges.options[option] += multipliers[resource] * use[option * resources + resource];
  return charges;
}

Lagrangian::Charges Lagrangian::costCharges(const Interval &interval,
                                            const std::vector<double> &multipliers) const {
  return chargesOf(multipliers, secondCharge(interval, multipliers), /*countsMoney=*/true);
}

/// What Σ τ and exposed synchronisation may take in an iteration of the interval where one stage
/// takes `slowest`.
double Lagrangian::fillTime(const Interval &interval, double slowest) const {
  return longestOf(interval) * (1 + 1e-9) - (microBatches - 1) * slowest;
}

double Lagrangian::secondCharge(const Interval &interval,
                                const std::vector<double> &multipliers) const {
  return multipliers.back() / fillTime(interval, interval.low);
}

/// A stage is paid for all of an iteration.
double Lagrangian::moneyFor(const StageArc &choice, const Interval &interval) const {
  const double time =
      std::max(interval.leastTime(), microBatches * choice.time() + choice.syncTime());
  return prices[choice.option] * time * StageArc::safety;
}

double Lagrangian::ownCharge(const StageArc &choice, const Interval &interval,
                             const Charges &charges) const {
  return charges.options[choice.option] + (charges.countsMoney ? moneyFor(choice, interval) : 0);
}

void Lagrangian::listArcs(const Interval &interval, bool countsMoney) {
  size_t count = 0;
  for (int i : interval.choices)
    count += places.chainsOf(choices[i].option);
  arcs.clear();
  arcs.reserve(count);
  for (int i : interval.choices) {
    const StageArc &choice = choices[i];
    const double money = countsMoney ? moneyFor(choice, interval) : 0;
    places.overStage(choice, [&](size_t before, size_t behind) {
      arcs.push_back({choice.time(), choice.forwardTime(), choice.syncTime(), money, i,
                      choice.option, unsigned(before), unsigned(behind)});
    });
  }
}

/// Shortest paths along `arcs` under the charges of `relaxation.multipliers`, and what they bound.
void Lagrangian::solve(const Charges &charges, LagrangianBounds &relaxation) {
  std::vector<double> &fills = relaxation.fill, &forwards = relaxation.forward;
  fills.assign(places.size(), infinity);
  forwards.assign(places.size(), infinity);
  steps.assign(places.size(), {});
  fills[0] = forwards[0] = 0;
  int position = 1;
  for (const Arc &arc : arcs) {
    for (; arc.behind >= places.at(position + 1); ++position)
      takeFewer(position, relaxation);
    const double own = charges.options[arc.option] + arc.money;
    Step &step = steps[arc.behind];
    const double forward = own + charges.second * arc.forward + forwards[arc.before];
    if (forward < forwards[arc.behind]) {
      forwards[arc.behind] = forward;
      step.forwardChoice = arc.choice;
      step.forwardFrom = arc.before;
    }
    const double exposed = charges.second * arc.sync + forwards[arc.before];
    const double fill = own + charges.second * arc.time + std::max(fills[arc.before], exposed);
    if (fill < fills[arc.behind]) {
      fills[arc.behind] = fill;
      step.fillChoice = arc.choice;
      step.fillFrom = arc.before;
      step.behindSync = exposed > fills[arc.before];
    }
  }
  for (; position < positions; ++position)
    takeFewer(position, relaxation);
  const std::vector<double> &multipliers = relaxation.multipliers;
  double least = fills[places.at(positions - 1)];
  double paid = std::accumulate(multipliers.begin(), multipliers.end(), 0.0);
  relaxation.bound = std::isfinite(least) ? least - paid - 1e-12 * (least + paid) : infinity;
}

/// A chain that may have more devices may have fewer.
void Lagrangian::takeFewer(int position, LagrangianBounds &relaxation) {
  places.overChains(position, [&](size_t fewer, size_t more) {
    if (relaxation.forward[fewer] < relaxation.forward[more]) {
      relaxation.forward[more] = relaxation.forward[fewer];
      steps[more].forwardChoice = steps[fewer].forwardChoice;
      steps[more].forwardFrom = steps[fewer].forwardFrom;
    }
    if (relaxation.fill[fewer] < relaxation.fill[more]) {
      relaxation.fill[more] = relaxation.fill[fewer];
      steps[more].fillChoice = steps[fewer].fillChoice;
      steps[more].fillFrom = steps[fewer].fillFrom;
      steps[more].behindSync = steps[fewer].behindSync;
    }
  });
}

/// How much more of each resource than there is the path of the last solve takes, as a share.
std::vector<double> Lagrangian::surplus(double fillTime) {
  lastPath.clear();
  std::vector<double> result(limits.size() + 1, -1);
  bool forwardOnly = false;
  for (size_t place = places.at(positions - 1); place > 0;) {
    const Step &step = steps[place];
    lastPath.push_back(forwardOnly ? step.forwardChoice : step.fillChoice);
    const StageArc &choice = choices[lastPath.back()];
    for (size_t resource = 0; resource < limits.size(); ++resource)
      result[resource] += use[choice.option * limits.size() + resource];
    double seconds = forwardOnly ? choice.forwardTime() : choice.time();
    place = forwardOnly ? step.forwardFrom : step.fillFrom;
    if (!forwardOnly && step.behindSync) {
      seconds += choice.syncTime();
      forwardOnly = true;
    }
    result.back() += seconds / fillTime;
  }
  return result;
}

/// What the resources that `partial` leaves are worth.
double Lagrangian::refund(const Interval &interval, const std::vector<double> &multipliers,
                          const PartialPlacement &partial) const {
  double sum = 0;
  for (int type = 0; type < types; ++type)
    if (limits[type] > 0)
      sum += multipliers[type] * (1 - partial.used[type] / limits[type]);
  if (limits.size() > size_t(types))
    sum += multipliers[types] * (1 - partial.price / limits[types]);
  if (multipliers.back() > 0) {
    double left = fillTime(interval, std::max(interval.low, partial.slowest)) - partial.fill;
    sum += secondCharge(interval, multipliers) * left;
  }
  return sum;
}

} // namespace heterplan
