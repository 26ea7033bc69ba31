// The intervals of the slowest stage, and of the iteration, into which placements are split: which
// of them decides the bound, and its halves.
#include "search/exact/Lagrangian.h"

#include "cost/TrafficPrice.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
/// The part of its bound from which on an interval of slowest stages is halved before it is
/// sharpened once more.
constexpr double wide = 0.01;
/// Types lie in different regions if their transfers make an iteration longer by this part of what
/// is of interest.
constexpr double worthApart = 0.05;
} // namespace

/// By position: devices · seconds of the layers before it, as single stages at their best.
std::vector<double> Lagrangian::workBefore() const {
  std::vector<double> work(positions, infinity);
  work[0] = 0;
  for (const StageArc &choice : choices)
    if (choice.end == choice.begin + 1) {
      const int64_t devices = evaluator.space.options[choice.option].group.deviceCount();
      work[choice.end] = std::min(work[choice.end], double(devices) * paceOf(choice));
    }
  for (int position = 1; position < positions; ++position)
    work[position] = work[position - 1] + (std::isfinite(work[position]) ? work[position] : 0);
  return work;
}

/// As if the slowest stage took what stages take on average, by their parts of the work: it takes
/// no less. So each adds for itself to (m−1)·max τ, and the whole range of slowest stages is one
/// interval. Drops the choices that no placement of interest has then; goes on while they are many.
void Lagrangian::dropBeforeIntervals() {
  if (costMatters || !std::isfinite(timeLimit) || microBatches == 1 ||
      !options.uses(Method::SpreadBottleneck))
    return;
  const std::vector<double> work = workBefore();
  if (!(work.back() > 0))
    return;
  std::vector<StageArc> plain = choices;
  for (StageArc &choice : choices) {
    const double part = (work[choice.end] - work[choice.begin]) / work.back();
    const double added = (microBatches - 1) * part * paceOf(choice);
    choice.forward += added;
    choice.leastForward += added;
  }
  Interval whole = intervalOf(0, infinity, Regions::everywhere);
  for (double before = infinity; !isSolved(whole) && double(whole.choices.size()) < before;) {
    before = double(whole.choices.size());
    improveTime(whole, options.tuning.repeatedSteps);
    fixChoices(whole);
  }
  if (isSolved(whole) && !whole.isEmpty())
    solvedTime = std::min(solvedTime, whole.leastTime());
  if (isSolved(whole))
    whole.choices.clear();
  choices.clear();
  for (const OpenArc &open : whole.choices) {
    StageArc &choice = choices.emplace_back(plain[open.choice]);
    choice.behind.fewest = std::max(choice.behind.fewest, open.behind.fewest);
    if (open.behind.most < depths.most)
      choice.behind.most = open.behind.most;
  }
}

/// Whether a placement of the interval may have the stage.
bool Lagrangian::mayTake(const StageArc &choice, const Interval &interval) const {
  return paceOf(choice) <= interval.high && leastIterationWith(choice) <= interval.most &&
         (interval.region < 0 || regions.of(choice.option) == interval.region);
}

/// The interval of slowest stages, with all choices that it may have.
Interval Lagrangian::intervalOf(double low, double high, int region) const {
  const LagrangianBounds none{std::vector<double>(resources.count() + 1, 0)};
  Interval interval{low, high, 0, infinity, none, none};
  interval.region = region;
  for (size_t i = 0; i < choices.size(); ++i)
    if (mayTake(choices[i], interval))
      interval.choices.push_back(
          {int(i), {depths.of(choices[i].behind.fewest), depths.of(choices[i].behind.most)}});
  return interval;
}

/// Intervals of all placements: of each region, and of those across. For cost only where zones
/// charge for traffic: elsewhere they take more time and memory, and bounds stay as loose.
void Lagrangian::startIntervals() {
  started = true;
  dropBeforeIntervals();
  const Request &request = evaluator.problem.request;
  const bool byZones = chargesTraffic(evaluator.problem.cluster) &&
                       (costMatters || request.maxCostPerHour > DollarsPerHour(0));
  const MicroBatches samples{request.globalBatch, microBatches};
  const double apart = costMatters ? infinity : worthApart * timeLimit / microBatches;
  if (byZones || (std::isfinite(timeLimit) && !costMatters))
    regions = Regions(evaluator, choices, samples, apart, byZones);
  for (int region : regions.all())
    startIntervals(region);
  if (regions.all().size() > 1)
    startIntervals(Regions::across);
}

/// A geometric grid over the slowest stage, up to where (m−1)·low alone passes the limit.
void Lagrangian::startIntervals(int region) {
  double low = leastSlowest(region);
  if (region == Regions::across)
    low = std::max(low, regions.slowestAcross());
  if (!std::isfinite(low))
    return; // no placement at all: no interval
  const double intervalRatio = options.tuning.intervalRatio;
  const size_t most = intervals.size() + size_t(options.tuning.mostIntervals) / 2;
  while (microBatches > 1 && low > 0 && intervals.size() + 1 < most &&
         (microBatches - 1) * low * intervalRatio < timeLimit) {
    intervals.push_back(intervalOf(low, low * intervalRatio, region));
    low *= intervalRatio;
  }
  intervals.push_back(intervalOf(low, infinity, region));
}

/// Placements across regions take so much more than the least of their paths, which contain the
/// least transfers.
double Lagrangian::moreAcross(const Interval &interval) const {
  const Junctions &junctions = interval.time.junctions;
  const bool knowsTransfers = !junctions.empty() && junctions.knowNeighbours;
  return interval.region == Regions::across && !knowsTransfers ? regions.moreAcross() : 0;
}

/// The part of the budget that placements across regions of interest pay for traffic at least.
double Lagrangian::budgetAcross(const Interval &interval) const {
  if (interval.region != Regions::across || resources.count() == size_t(types))
    return 0;
  return regions.trafficAcross().value() * 3600 / longestOf(interval) /
         (evaluator.problem.request.maxCostPerHour.value() * (1 + 1e-9));
}

/// Dollars per hour · seconds that these pay at least.
double Lagrangian::costAcross(const Interval &interval) const {
  return interval.region == Regions::across && costMatters ? regions.trafficAcross().value() * 3600
                                                           : 0;
}

double Lagrangian::objectiveOf(const Interval &interval) const {
  return costMatters ? interval.cost.bound : interval.time.bound;
}

/// Whether an interval cannot hold anything of interest.
bool Lagrangian::isSolved(const Interval &interval) const {
  return interval.isEmpty() || interval.leastTime() >= timeLimit ||
         (costMatters && interval.cost.bound >= costLimit);
}

/// Drops solved intervals, which need no bounds of their own.
void Lagrangian::dropSolved() {
  for (const Interval &interval : intervals) {
    if (!isSolved(interval) || interval.isEmpty())
      continue;
    solvedTime = std::min(solvedTime, interval.leastTime());
    if (interval.leastTime() < timeLimit)
      solvedCost = std::min(solvedCost, interval.cost.bound);
  }
  erase_if(intervals, [&](const Interval &interval) { return isSolved(interval); });
}

/// Halves the interval that decides the bound until that gains little.
void Lagrangian::splitDeciding() {
  const size_t most = (costMatters ? 2 : 1) * size_t(options.tuning.mostIntervals);
  while (!intervals.empty() && intervals.size() < most) {
    size_t least = deciding();
    Interval upper = intervals[least];
    if (!split(intervals[least], upper))
      return;
    for (Interval *half : {&intervals[least], &upper}) {
      improveCost(*half, options.tuning.repeatedSteps);
      fixChoices(*half);
    }
    intervals.insert(intervals.begin() + least + 1, std::move(upper));
    dropSolved();
  }
}

size_t Lagrangian::deciding() const {
  return std::min_element(intervals.begin(), intervals.end(),
                          [&](const Interval &a, const Interval &b) {
                            return objectiveOf(a) < objectiveOf(b);
                          }) -
         intervals.begin();
}

/// Halves the interval that is sharpened next if levels without neighbours did not suffice, and it
/// is wide.
bool Lagrangian::splitWide() {
  const std::vector<Interval *> next = toSharpen();
  if (next.empty() || intervals.size() >= 2 * size_t(options.tuning.mostIntervals))
    return false;
  Interval &interval = *next.front();
  const double high = std::min(interval.high, timeLimit / microBatches);
  const double width = (microBatches - 1) * (high - interval.low) / interval.time.bound;
  if (interval.time.junctions.empty() || interval.time.junctions.knowNeighbours || width < wide)
    return false;
  const double before = interval.time.bound;
  Interval lower = interval;
  lower.forgetLevels();
  Interval upper = lower;
  if (!split(lower, upper)) // what is known belongs to its levels
    return false;
  for (Interval *half : {&lower, &upper}) {
    half->time.bound = std::max(before, std::min(half->time.bound, timeLimit));
    rankChoices(*half);
  }
  interval = std::move(lower);
  intervals.insert(intervals.begin() + (&interval - intervals.data()) + 1, std::move(upper));
  dropSolved();
  return true;
}

/// Halves the wider of what an interval has of slowest stages and, for cost, of iterations; false
/// where neither is worth it.
bool Lagrangian::split(Interval &interval, Interval &upper) {
  const double time = interval.leastTime();
  if (!(time > 0)) // parts of it tell nothing
    return false;
  double high = interval.high, most = longestOf(interval);
  if (!std::isfinite(high) && microBatches > 1)
    high = std::min(2 * interval.low, timeLimit / (microBatches - 1));
  if (!std::isfinite(most))
    most = 2 * time;
  else
    high = std::min(high, most / microBatches);
  double bySlowest = microBatches > 1 ? (microBatches - 1) * (high - interval.low) / time : 0;
  double byTime = costMatters ? (most - time) / time : 0;
  if (std::max(bySlowest, byTime) < options.tuning.worthSplitting)
    return false;
  if (byTime > bySlowest) {
    upper.least = interval.most = (time + most) / 2;
    dropChoices(interval);
    return true;
  }
  upper.low = interval.high = (interval.low + high) / 2;
  dropChoices(interval);
  improveTime(interval, options.tuning.repeatedSteps);
  improveTime(upper, options.tuning.repeatedSteps);
  return true;
}

} // namespace heterplan
