// The multipliers of one interval, by subgradient ascent on shortest paths over the cuts.
#include "search/exact/Lagrangian.h"
#include "search/exact/SubgradientAscent.h"

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
  keepPath(improveTime(interval, steps, levels).path);
}

Lagrangian::Ascent Lagrangian::improveTime(Interval &interval, int steps, LevelPaths &own) {
  const double base = (microBatches - 1) * interval.low + moreAcross(interval);
  bool anyTime = costMatters && !std::isfinite(timeLimit); // the cheapest plans leave devices
  Ascent ascent = ascend(interval, interval.time, anyTime ? 1 : steps, longestOf(interval) - base,
                         infinity, own, [&](const std::vector<double> &multipliers) {
                           return chargesOf(multipliers, 1, /*countsMoney=*/false);
                         });
  interval.time.bound += base;
  return ascent;
}

/// Improves the bound on cost if it matters.
void Lagrangian::improveCost(Interval &interval, int steps) {
  if (!costMatters || interval.leastTime() >= timeLimit || interval.isEmpty())
    return;
  const auto charges = [&](const std::vector<double> &multipliers) {
    return costCharges(interval, multipliers);
  };
  const double more = costAcross(interval);
  keepPath(ascend(interval, interval.cost, steps, costLimit - more,
                  fillTime(interval, interval.low), levels, charges)
               .path);
  interval.cost.bound += more;
}

/// Towards `goal`; Σ τ and exposed synchronisation may take `fillTime`. Leaves the best multipliers
/// and what they give.
template <typename MakeCharges>
Lagrangian::Ascent Lagrangian::ascend(const Interval &interval, LagrangianBounds &relaxation,
                                      int steps, double goal, double fillTime, LevelPaths &own,
                                      MakeCharges makeCharges) {
  // Steps that aim at a goal which bounds can pass get shorter and shorter on the way there. On
  // wide_resnet101 and mixed-64, throughput, this proves a gap of 1 % in 13 s of CPU instead of 24.
  const double aim = std::isfinite(options.gap) ? goal * (1 + options.gap) : goal;
  const double ofBudget = budgetAcross(interval);
  double leastOfPaths = infinity;
  Ascent result;
  LagrangianBounds current = relaxation;
  const bool hasLevels = !relaxation.junctions.empty();
  if (!hasLevels) {
    const bool countsMoney = makeCharges(relaxation.multipliers).countsMoney;
    arcPaths.list(choices, interval.choices, depths, positions, [&](const StageArc &choice) {
      return countsMoney ? moneyFor(choice, interval) : 0;
    });
  }
  SubgradientAscent ascent(relaxation.multipliers, options.tuning);
  for (int step = 0; step < steps; ++step) {
    ++result.steps;
    const Charges charges = makeCharges(ascent.multipliers);
    auto pays = [&](const StageArc &choice) { return ownCharge(choice, interval, charges); };
    const double least =
        hasLevels ? own.solve(choices, pays, current) : arcPaths.solve(charges, current);
    current.bound = boundOf(least, ascent.multipliers) + ofBudget * ascent.multipliers[types];
    if (step == 0 && current.bound < 0 &&
        !isFree(ascent.multipliers)) { // of where others were good
      ascent.multipliers.assign(ascent.multipliers.size(), 0);
      --step;
      continue;
    }
    current.multipliers = ascent.multipliers;
    const bool isBest = ascent.take(current.bound);
    const bool isOver = ascent.best() >= goal || !std::isfinite(ascent.best());
    const ArcPath path = isOver      ? ArcPath()
                         : hasLevels ? own.path(choices, pays, current)
                                     : arcPaths.path(choices, charges, current);
    if (isBest)
      std::swap(relaxation, current); // what is in the other one is not read again
    if (isOver)
      break;
    std::vector<double> slope = surplus(path, fillTime);
    slope[types] += ofBudget;
    const bool isWithin = all_of(slope, [](double more) { return more <= rounding; });
    if (double least = leastOf(path, charges.countsMoney); isWithin && least < leastOfPaths) {
      leastOfPaths = least;
      result.path = path;
    }
    if (!ascent.step(slope, aim))
      break;
  }
  return result;
}

/// `least` without what the resources that exist would cost.
double Lagrangian::boundOf(double least, const std::vector<double> &multipliers) {
  const double paid = std::accumulate(multipliers.begin(), multipliers.end(), 0.0);
  return std::isfinite(least) ? least - paid - 1e-12 * (least + paid) : infinity;
}

/// The iteration of a path, or its cost, without the synchronisation that stays exposed.
double Lagrangian::leastOf(const ArcPath &path, bool countsMoney) const {
  double fill = 0, slowest = 0, price = 0;
  for (const PathStep &step : path) {
    const StageArc &choice = choices[step.choice];
    fill += choice.time();
    slowest = std::max(slowest, paceOf(choice));
    price += resources.price(choice.option);
  }
  return (fill + (microBatches - 1) * slowest) * (countsMoney ? price : 1);
}

void Lagrangian::keepPath(const ArcPath &path) {
  if (path.empty())
    return;
  Path &stages = met.emplace_back();
  for (const PathStep &step : reverse(path))
    stages.push_back(choices[step.choice]);
}

std::vector<Lagrangian::Path> Lagrangian::takePaths() { return std::exchange(met, {}); }

Charges Lagrangian::chargesOf(const std::vector<double> &multipliers, double second,
                              bool countsMoney) const {
  return {resources.charges(multipliers), second, countsMoney};
}

Charges Lagrangian::costCharges(const Interval &interval,
                                const std::vector<double> &multipliers) const {
  return chargesOf(multipliers, secondCharge(interval, multipliers), /*countsMoney=*/true);
}

/// The most Σ τ and exposed synchronisation of an iteration of the interval in which one stage
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
      std::max(interval.leastTime(), leastIterationWith(choice) + choice.syncTime());
  return resources.price(choice.option) * time * StageArc::safety;
}

double Lagrangian::ownCharge(const StageArc &choice, const Interval &interval,
                             const Charges &charges) const {
  return charges.options[choice.option] + (charges.countsMoney ? moneyFor(choice, interval) : 0);
}

/// How much more of each resource than there is a path takes, as a share.
std::vector<double> Lagrangian::surplus(const ArcPath &path, double fillTime) const {
  std::vector<double> result(resources.count() + 1, -1);
  for (const PathStep &step : path) {
    for (size_t resource = 0; resource < resources.count(); ++resource)
      result[resource] += resources.use(choices[step.choice].option, resource);
    result.back() += step.seconds / fillTime;
  }
  return result;
}

/// The value of the resources that `partial` leaves.
double Lagrangian::refund(const Interval &interval, const std::vector<double> &multipliers,
                          const PartialPlacement &partial) const {
  double sum = resources.refund(multipliers, partial);
  if (regions.ofSlots(partial.used) != Regions::across)
    sum -= budgetAcross(interval) * multipliers[types];
  if (multipliers.back() > 0) {
    double left = fillTime(interval, std::max(interval.low, partial.slowest)) - partial.fill;
    sum += secondCharge(interval, multipliers) * left;
  }
  return sum;
}

} // namespace heterplan
