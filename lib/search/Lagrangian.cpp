#include "search/Lagrangian.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-12;
constexpr double intervalRatio = 1.2;
constexpr size_t mostIntervals = 32;
constexpr int ascentSteps = 40;
/// An interval is not split further when that could not raise its bound by more than this share.
constexpr double worthSplitting = 0.002;

size_t pairIndex(int begin, int end) { return size_t(end) * (end - 1) / 2 + begin; }
} // namespace

Lagrangian::Lagrangian(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups)
    : evaluator(evaluator), microBatches(table.microBatches),
      positions(static_cast<int>(evaluator.space.positions.size())),
      types(static_cast<int>(evaluator.space.available.size())), solved(infinity) {
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
/// share nor anything else is of no use to this number of micro-batches.
void Lagrangian::listChoicesOf(const StageTable &table, bool wholeModelGroups, int begin, int end) {
  firstChoice.push_back(choices.size());
  bool last = end + 1 == positions, whole = begin == 0 && last;
  const std::vector<GroupOption> &options = evaluator.space.options;
  for (int option = 0; option < static_cast<int>(options.size()); ++option) {
    const StageEntry &entry = table.at(begin, end, option);
    if ((options[option].wholeModelOnly && !(whole && wholeModelGroups)) ||
        entry.mostInFlight < std::min(microBatches, last ? 1 : 2))
      continue;
    double receive = begin > 0 ? table.leastReceive(begin, option, entry.share) : 0;
    double gradient = last ? 0 : table.leastReceiveGradient(end, option, entry.share);
    Choice choice{(entry.forward + entry.backward + receive + gradient) * safety,
                  ((entry.estimate ? 0 : entry.forward) + receive) * safety, entry.sync * safety,
                  option};
    if (choices.size() > firstChoice.back()) {
      const Choice &before = choices.back();
      const GroupOption &fewer = options[before.option], &more = options[option];
      if (fewer.group.counts.size() == 1 && more.group.counts.size() == 1 &&
          fewer.group.counts[0].first == more.group.counts[0].first && before.time <= choice.time &&
          before.forward <= choice.forward && before.sync <= choice.sync)
        continue;
    }
    choices.push_back(choice);
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

/// A geometric grid over the slowest stage, up to where (m−1)·low alone passes the target.
void Lagrangian::startIntervals(double target) {
  started = true;
  double low = leastSlowest();
  if (!std::isfinite(low))
    return; // no placement at all: no interval
  auto add = [&](double from, double to) {
    intervals.push_back({from, to, std::vector<double>(limits.size(), 0), {}, 0});
  };
  while (microBatches > 1 && low > 0 && intervals.size() + 1 < mostIntervals / 2 &&
         (microBatches - 1) * low * intervalRatio < target) {
    add(low, low * intervalRatio);
    low *= intervalRatio;
  }
  add(low, infinity);
}

void Lagrangian::tighten(double target) {
  if (!started)
    startIntervals(target);
  for (size_t i = intervals.size(); i-- > 0;) {
    if (i + 1 < intervals.size())
      intervals[i].multipliers = intervals[i + 1].multipliers; // a good start
    ascend(intervals[i], target);
  }
  dropSolved(target);
  splitDeciding(target);
}

/// Intervals that cannot hold anything better than the target need no bounds of their own.
void Lagrangian::dropSolved(double target) {
  auto done = std::remove_if(intervals.begin(), intervals.end(), [&](const Interval &interval) {
    bool drop = interval.root >= target;
    if (drop)
      solved = std::min(solved, interval.root);
    return drop;
  });
  intervals.erase(done, intervals.end());
}

/// Halves the interval that decides the bound until that gains little.
void Lagrangian::splitDeciding(double target) {
  while (!intervals.empty() && intervals.size() < mostIntervals) {
    auto least =
        std::min_element(intervals.begin(), intervals.end(),
                         [](const Interval &a, const Interval &b) { return a.root < b.root; });
    if (microBatches == 1 || least->root >= target)
      return;
    double high = least->high;
    if (!std::isfinite(high))
      high = std::min(least->low * 4, target / (microBatches - 1));
    if (!std::isfinite(high) || (microBatches - 1) * (high - least->low) < worthSplitting * target)
      return;
    Interval upper = *least;
    upper.low = least->high = (least->low + high) / 2;
    ascend(*least, target);
    ascend(upper, target);
    intervals.insert(least + 1, std::move(upper));
    dropSolved(target);
  }
}

/// Shortest paths under the multipliers; returns the bound of Σ τ + exposed synchronisation.
double Lagrangian::solve(const std::vector<double> &multipliers, double high, Costs &costs) {
  size_t resources = limits.size();
  optionCosts.assign(evaluator.space.options.size(), 0);
  for (size_t option = 0; option < optionCosts.size(); ++option)
    for (size_t resource = 0; resource < resources; ++resource)
      optionCosts[option] += multipliers[resource] * use[option * resources + resource];
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
  double paid = 0;
  for (double multiplier : multipliers)
    paid += multiplier;
  double least = costs.fill[positions - 1];
  return std::isfinite(least) ? least - paid - 1e-12 * (least + paid) : infinity;
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

/// Polyak's steps towards the target, shortened when they do not help.
void Lagrangian::ascend(Interval &interval, double target) {
  double base = (microBatches - 1) * interval.low, best = -infinity, stride = 1;
  std::vector<double> current = interval.multipliers;
  Costs costs;
  int stalled = 0;
  for (int step = 0; step < ascentSteps && stride > 0.02; ++step) {
    double value = solve(current, interval.high, costs);
    if (value > best) {
      stalled = value > best + 1e-3 * std::abs(best) ? 0 : stalled + 1;
      best = value;
      interval.multipliers = current;
      interval.costs = costs;
    } else {
      ++stalled;
    }
    if (base + best >= target || !std::isfinite(best))
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
    double goal = std::isfinite(target) ? target - base : best + std::abs(best);
    for (size_t i = 0; i < slope.size(); ++i)
      current[i] = std::max(0.0, current[i] + stride * (goal - value) / norm * slope[i]);
  }
  interval.root = base + best;
}

double Lagrangian::openBound(const Interval &interval, const PartialPlacement &partial) const {
  if (partial.slowest > interval.high)
    return infinity;
  double open = std::max(interval.costs.fill[partial.position],
                         partial.exposed + interval.costs.forward[partial.position]);
  for (int type = 0; type < types; ++type)
    if (limits[type] > 0)
      open -= interval.multipliers[type] * (1 - partial.used[type] / limits[type]);
  if (limits.size() > size_t(types))
    open -= interval.multipliers[types] * (1 - partial.price / limits[types]);
  return open + (microBatches - 1) * std::max(partial.slowest, interval.low);
}

double Lagrangian::time(const PartialPlacement &partial) const {
  if (!started)
    return 0;
  if (partial.position == 0)
    return partial.fill + partial.exposed + (microBatches - 1) * partial.slowest;
  double least = solved - partial.fill;
  for (const Interval &interval : intervals)
    least = std::min(least, openBound(interval, partial));
  return partial.fill + least;
}

double Lagrangian::root() const {
  double least = started ? solved : 0;
  for (const Interval &interval : intervals)
    least = std::min(least, interval.root);
  return least;
}

} // namespace heterplan
