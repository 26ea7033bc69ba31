#include "search/exact/Lagrangian.h"

#include "search/network/StageArcs.h"
#include "support/Parallel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
/// Intervals whose neighbours are made known at a time.
constexpr size_t intervalsAtOnce = 4;
/// Levels that raise the bound by less than this part of it are not worth keeping.
constexpr double worthOfLevels = 1e-6;
/// The tolerance within which a placement at a limit is still examined.
constexpr double tolerance = 1 + 1e-9;

/// They grow without end where these stages have no placement at all.
bool diverged(const std::vector<double> &multipliers) {
  constexpr double most = 1e30;
  return std::any_of(multipliers.begin(), multipliers.end(),
                     [](double multiplier) { return multiplier > most; });
}

/// Beyond the last depth at which memory tells stages apart all are alike.
Depths depthsOf(ArrayRef<StageArc> choices) {
  Depths depths;
  for (const StageArc &choice : choices)
    if (choice.behind.most < StagesBehind::any)
      depths.most = std::max(depths.most, choice.behind.most + 1);
  return depths;
}
} // namespace

void LagrangianBounds::compress(const Depths &depths) {
  if (fill.empty() || !rowOf.empty())
    return;
  const size_t rows = depths.rows();
  rowOf.assign(fill.size() / rows, -1);
  size_t kept = 0;
  for (size_t place = 0; place < rowOf.size(); ++place) {
    const auto isReached = [&](const std::vector<double> &figures) {
      return std::any_of(figures.begin() + place * rows, figures.begin() + (place + 1) * rows,
                         [](double each) { return each < infinity; });
    };
    if (!isReached(fill) && !isReached(forward))
      continue;
    rowOf[place] = int(kept);
    for (std::vector<double> *figures : {&fill, &forward})
      std::copy_n(figures->begin() + place * rows, rows, figures->begin() + kept * rows);
    ++kept;
  }
  for (std::vector<double> *figures : {&fill, &forward}) {
    figures->resize(kept * rows);
    figures->shrink_to_fit();
  }
}

Lagrangian::Lagrangian(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups,
                       const SearchOptions &options)
    : evaluator(evaluator), options(options), microBatches(table.microBatches),
      positions(static_cast<int>(evaluator.space.positions.size())),
      types(static_cast<int>(evaluator.space.available.size())),
      costMatters(evaluator.problem.request.objective == Objective::Cost), batch(table.batch),
      places(evaluator.space), resources(evaluator),
      choices(stageArcs(evaluator, table, wholeModelGroups)), depths(depthsOf(choices)),
      levels(evaluator, resources, batch, depths, options.tuning), timeLimit(infinity),
      costLimit(infinity), solvedTime(infinity), solvedCost(infinity), arcPaths(places) {}

/// The least time of a stage that counts in (m−1)·max τ.
double Lagrangian::paceOf(const StageArc &choice) const {
  if (!evaluator.problem.request.overlapsTransfers)
    return choice.time();
  return std::max(choice.computing(), std::max(choice.receive, choice.gradient) * StageArc::safety);
}

/// The least iteration of placements with the stage, without its synchronisation.
double Lagrangian::leastIterationWith(const StageArc &choice) const {
  if (!evaluator.problem.request.overlapsTransfers)
    return microBatches * choice.time();
  return choice.time() + (microBatches - 1) * paceOf(choice);
}

/// The least slowest stage of the placements in a region.
double Lagrangian::leastSlowest(int region) const {
  std::vector<double> least(places.size(), infinity);
  least[0] = 0;
  for (auto choice = choices.begin(); choice != choices.end();) {
    const int end = choice->end;
    for (; choice != choices.end() && choice->end == end; ++choice)
      if (region < 0 || regions.of(choice->option) == region)
        places.overStage(*choice, [&](size_t before, size_t behind) {
          least[behind] = std::min(least[behind], std::max(least[before], paceOf(*choice)));
        });
    places.overChains(
        end, [&](size_t fewer, size_t more) { least[more] = std::min(least[more], least[fewer]); });
  }
  return least[places.at(positions - 1)];
}

void Lagrangian::tighten(double newTimeLimit, double newCostLimit) {
  timeLimit = newTimeLimit;
  costLimit = newCostLimit;
  const bool isFirst = !started;
  if (isFirst)
    startIntervals();
  for (size_t i = intervals.size(); i-- > 0;) {
    Interval &interval = intervals[i];
    interval.forgetLevels();
    if (isFirst && isWarm) // from elsewhere
      startNear(interval);
    else if (isFirst && i + 1 < intervals.size() && intervals[i + 1].region == interval.region)
      // a good start
      interval.takeMultipliers(intervals[i + 1].time.multipliers,
                               intervals[i + 1].cost.multipliers);
    const int steps =
        isFirst && !isWarm ? options.tuning.ascentSteps : options.tuning.repeatedSteps;
    improveTime(interval, steps);
    improveCost(interval, steps);
    fixChoices(interval);
  }
  for (const Interval &interval : intervals) {
    bool isWhole = std::isinf(interval.most); // of several that only iterations tell apart
    if (isWhole && !diverged(interval.time.multipliers) && !diverged(interval.cost.multipliers))
      known[{interval.region, interval.high}] = {interval.time.multipliers,
                                                 interval.cost.multipliers};
  }
  dropSolved();
  splitDeciding();
  arcPaths.forget();
  for (Interval &interval : intervals) {
    rankChoices(interval);
    interval.time.compress(depths);
    interval.cost.compress(depths);
  }
  forgetChoices();
}

/// Stages take `ratio` times as long there as here, devices are paid for as long.
void Lagrangian::startFrom(const KnownMultipliers &others, double ratio) {
  known.clear();
  for (const auto &[of, multipliers] : others) {
    Multipliers &own = known[{of.first, of.second * ratio}] = multipliers;
    for (double &multiplier : own.time)
      multiplier *= ratio;
  }
  isWarm = !known.empty();
}

/// From the known multipliers whose slowest stage is nearest, without those of types that the
/// region does not have: they would only be refunded.
void Lagrangian::startNear(Interval &interval) const {
  const Multipliers &near = knownNear(interval);
  interval.takeMultipliers(near.time, near.cost);
  for (int type = 0; type < types; ++type)
    if (!regions.has(interval.region, type))
      interval.time.multipliers[type] = interval.cost.multipliers[type] = 0;
}

/// Multipliers of its region, or else of any.
const Multipliers &Lagrangian::knownNear(const Interval &interval) const {
  auto near = known.lower_bound({interval.region, interval.high});
  const auto isOfRegion = [&](auto each) {
    return each != known.end() && each->first.first == interval.region;
  };
  if (!isOfRegion(near) && near != known.begin())
    --near;
  return near->second;
}

/// The least of the iteration time of completions in the interval.
double Lagrangian::openTime(const Interval &interval, const PartialPlacement &partial) const {
  if (partial.slowest > interval.high)
    return infinity;
  const int region = regions.ofSlots(partial.used);
  if (interval.region >= 0 && region != interval.region && region != Regions::everywhere)
    return infinity;
  const double more = region == Regions::across ? 0 : moreAcross(interval);
  LeastMixtures before =
      leastBefore(interval.time, partial.position, partial.depth, partial.option, partial.chain,
                  partial.receive, interval.time.levels.stateLeft(partial.used));
  double open = before.withExposed(partial.exposed);
  double time = std::max(interval.leastTime(), chosenTime(interval, partial) + open + more);
  return time > interval.most * tolerance ? infinity : time;
}

/// The part of it that does not depend on the stages before `partial`.
double Lagrangian::chosenTime(const Interval &interval, const PartialPlacement &partial) const {
  return partial.fill - refund(interval, interval.time.multipliers, partial) +
         (microBatches - 1) * std::max(partial.slowest, interval.low);
}

/// The least price that completions in the interval pay for the stages before `partial`.
double Lagrangian::openCost(const Interval &interval, const PartialPlacement &partial) const {
  double exposed = secondCharge(interval, interval.cost.multipliers) * partial.exposed;
  const auto [fill, forward] = interval.cost.fillAndForward(
      depths, places.before(partial.position, partial.option, partial.chain), partial.depth);
  double open = std::max(fill, exposed + forward);
  return std::max(0.0, open - refund(interval, interval.cost.multipliers, partial));
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
    const double traffic =
        regions.ofSlots(partial.used) == Regions::across ? 0 : costAcross(interval);
    least = std::min(least, time * partial.price + openCost(interval, partial) + traffic);
  }
  return least;
}

/// The intervals whose bounds are least of those that are not sharp: several that do not keep
/// neighbours, or one that does. None if one that decides is sharp for want of room: what others
/// keep would not raise the bound then.
std::vector<Interval *> Lagrangian::toSharpen() {
  std::vector<Interval *> open;
  double stuck = infinity;
  for (Interval &interval : intervals)
    if (!interval.isSharp)
      open.push_back(&interval);
    else if (!levels.keepsAll(interval.time))
      stuck = std::min(stuck, interval.time.bound);
  stable_sort(open,
              [](const Interval *a, const Interval *b) { return a->time.bound < b->time.bound; });
  std::vector<Interval *> together;
  for (Interval *interval : open) {
    const bool isFirst = together.empty(), keepsNeighbours = !interval->time.junctions.empty();
    if (interval->time.bound >= stuck || together.size() == intervalsAtOnce ||
        (keepsNeighbours && !isFirst))
      break;
    together.push_back(interval);
    if (keepsNeighbours)
      break;
  }
  return together;
}

int64_t Lagrangian::sharpen(double newTimeLimit) {
  if (costMatters || !std::isfinite(newTimeLimit))
    return 0;
  timeLimit = newTimeLimit;
  dropSolved();
  int64_t work = 0;
  while (work == 0) {
    while (splitWide())
      ;
    const std::vector<Interval *> together = toSharpen();
    if (together.empty())
      break;
    while (others.size() + 1 < together.size())
      others.push_back(
          std::make_unique<LevelPaths>(evaluator, resources, batch, depths, options.tuning));
    std::vector<Sharpened> done(together.size());
    inParallel(together.size(), options.threads, [&](size_t i) {
      done[i] = sharpenInterval(*together[i], i == 0 ? levels : *others[i - 1]);
    });
    for (size_t i = 0; i < together.size(); ++i) {
      work += done[i].work;
      keepPath(done[i].path);
    }
  }
  dropSolved();
  return work;
}

/// Keeps more in an interval; it is sharp if nothing more can be kept.
Lagrangian::Sharpened Lagrangian::sharpenInterval(Interval &interval, LevelPaths &own) {
  rankChoices(interval, /*countsRest=*/true); // fewer where the limit is shorter
  const size_t ofSolve = own.keepMore(interval, choices);
  interval.isSharp = ofSolve == 0;
  if (!interval.isSharp)
    return improveSharpened(interval, ofSolve, own);
  const Junctions &junctions = interval.time.junctions;
  if (junctions.empty() || junctions.knowNeighbours || interval.gained > worthOfLevels)
    return {};
  return sharpenByNeighbours(interval, own);
}

/// After levels that gained nothing: neighbours in their place, if most stages are dropped by
/// these. Levels tell labels apart better. On gpt2_small and cloud-large with a budget, this drops
/// 31,000 of 34,000 stages, and the whole search takes 2.3 s of CPU instead of 3.3.
Lagrangian::Sharpened Lagrangian::sharpenByNeighbours(Interval &interval, LevelPaths &own) {
  LagrangianBounds ofLevels = interval.time;
  const size_t before = interval.choices.size(),
               ofSolve = own.keepNeighboursAlone(interval, choices);
  if (ofSolve == 0)
    return {};
  interval.isSharp = false;
  Sharpened result = improveSharpened(interval, ofSolve, own);
  if (2 * interval.choices.size() <= before || isSolved(interval))
    return result;
  ofLevels.bound = interval.time.bound;
  interval.time = std::move(ofLevels);
  interval.isSharp = true;
  rankChoices(interval);
  return result;
}

/// Improves the multipliers with what paths keep now; a solve takes so many states. Stages that no
/// placement of interest has are left out, so that the bound is not above `timeLimit`.
Lagrangian::Sharpened Lagrangian::improveSharpened(Interval &interval, size_t ofSolve,
                                                   LevelPaths &own) {
  const double before = interval.time.bound;
  Ascent ascent = improveTime(interval, stepsToSharpen(interval), own);
  interval.time.bound = std::max(before, std::min(interval.time.bound, timeLimit));
  interval.gained = interval.time.bound / before - 1;
  if (!isSolved(interval)) {
    interval.time.atJunctions.compress();
    rankChoices(interval);
  }
  // Without neighbours a state takes half the time.
  const size_t states =
      ofSolve * size_t(ascent.steps) / (interval.time.junctions.knowNeighbours ? 1 : 2);
  return {int64_t(choices.size() + states), std::move(ascent.path)};
}

/// Neighbours need few steps: levels come next, if there is time for them. Without neighbours more
/// levels do.
int Lagrangian::stepsToSharpen(const Interval &interval) const {
  const bool hasLevels = !interval.time.levels.types.empty();
  const int steps = options.tuning.repeatedSteps;
  if (!interval.time.junctions.knowNeighbours)
    return interval.sharpened <= 3 ? 1 : (steps + 2) / 3;
  const int part = hasLevels ? 1 : options.deadline.isLimited() ? 4 : 2;
  return (steps + part - 1) / part;
}

LeastMixtures Lagrangian::leastBefore(const LagrangianBounds &bounds, int position, int behind,
                                      int option, int chain, double receive, size_t state) const {
  if (!bounds.junctions.empty())
    return levels.leastBefore(bounds, position, behind, option, chain, receive, state);
  const auto [fill, forward] =
      bounds.fillAndForward(depths, places.before(position, option, chain), behind);
  return LeastMixtures::ofBoth(fill, forward);
}

} // namespace heterplan
