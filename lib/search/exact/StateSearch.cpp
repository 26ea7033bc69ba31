#include "search/exact/StateSearch.h"

#include "search/exact/DeviceLevels.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// A value this near to a limit is no improvement: times of stages are rounded in favour of bounds.
constexpr double tolerance = 1 - 1e-11;
/// The most states of a range. With a budget multipliers are weaker than states, so that the halves
/// of a range have almost as many stages as all of it.
constexpr size_t statesOfRange = 50'000'000, statesOfRangeInBudget = 200'000'000;
/// The most misses of a range, after which the rest of a band is passed over, too.
constexpr int mostMisses = 16;
/// Rounded states, as a share of the most unrounded ones: 22 levels of three types, which sufficed
/// in trials (docs/experiments/gaps.md).
constexpr double shareOfRounded = 0.55;
/// A bound is solved again for the limit that it gives, where that is less than this share of the
/// one before.
constexpr double worthSolving = 0.97;
/// Solves of a band before it is divided, unless there are few states.
constexpr int patience = 4;
/// A band is narrow if its slowest stages differ by less than this share of the longest improving
/// iteration.
constexpr double narrow = 2e-3;
/// The width of a band, as a share of the longest improving iteration, that is passed over if the
/// bound is below every placement.
constexpr double passedOver = 5e-4, passedOverOfRounded = 2e-3;

/// As the iteration model has them (cost/IterationRules.h).
StageSums sumsOf(ArrayRef<Stage> stages) {
  StageSums sums;
  for (const Stage &stage : reverse(stages)) {
    double time = (stage.forward + stage.backward).value();
    sums.fill += time;
    sums.slowest = std::max(sums.slowest, time);
    sums.exposed = std::max(stage.sync.value(), sums.exposed - stage.backward.value());
  }
  return sums;
}

std::map<int, size_t> countByOption(ArrayRef<StageArc> stages) {
  std::map<int, size_t> count;
  for (const StageArc &stage : stages)
    ++count[stage.option];
  return count;
}
} // namespace

void Incumbent::take(Placement other, const Evaluation &evaluation) {
  if (evaluation.objective >= objective)
    return;
  objective = evaluation.objective;
  time = evaluation.iteration.value();
  placement = withModes(std::move(other), evaluation);
}

std::optional<Evaluation> Incumbent::offer(Evaluator &evaluator, Placement other) {
  std::optional<Evaluation> evaluation = evaluator.measure(other);
  if (evaluation && evaluator.meetsLimits(evaluation->iteration, evaluation->price))
    take(std::move(other), *evaluation);
  return evaluation;
}

bool StateSearch::applies(const Evaluator &evaluator, size_t mostStates) {
  const SearchSpace &space = evaluator.space;
  const bool anyDepth = space.minStages == 1 && space.maxStages + 1 >= int(space.positions.size());
  return anyDepth && evaluator.rules.fillWeight() == 1 &&
         !evaluator.rules.transfersArePartOfStages() &&
         (DeviceStates::count(space) <= mostStates ||
          DeviceStates::mayRound(space, evaluator.problem.request));
}

bool StateSearch::rounds(const Evaluator &evaluator, size_t mostStates) {
  return applies(evaluator, mostStates) && DeviceStates::count(evaluator.space) > mostStates;
}

StateSearch::StateSearch(Evaluator &evaluator, PathTable &paths, Incumbent &best,
                         const SearchBudget &budget, size_t mostStates, int64_t statesPerWork,
                         SolveSizes sizes)
    : evaluator(evaluator), paths(paths), best(best), budget(budget), statesPerWork(statesPerWork),
      sizes(sizes), isRounded(rounds(evaluator, mostStates)),
      mostOfThem(isRounded ? size_t(shareOfRounded * double(mostStates))
                           : DeviceStates::count(evaluator.space)) {}

size_t StateSearch::mostStages() const {
  const bool isBudget = evaluator.problem.request.maxCostPerHour > DollarsPerHour(0);
  return (isBudget ? statesOfRangeInBudget : statesOfRange) / mostOfThem;
}

/// Longest iteration of interest of placements that take what a state says.
double StateSearch::limitOf(size_t state) const {
  const Request &request = evaluator.problem.request;
  const double price = states->price(state);
  if (std::isinf(price))
    return -infinity;
  double limit = std::min(request.longestIteration().value(), most) * (1 + 1e-9);
  if (request.objective == Objective::Throughput)
    limit = std::min(limit, best.time * tolerance);
  const double mayCost = money();
  if (price * least > mayCost)
    return -infinity;
  return std::isfinite(mayCost) && price > 0 ? std::min(limit, mayCost / price) : limit;
}

double StateSearch::objectiveOf(size_t state, double seconds) const {
  const Request &request = evaluator.problem.request;
  if (request.objective == Objective::Throughput)
    return seconds;
  return states->price(state) * seconds / 3600 / double(request.globalBatch.value()) * 1e6;
}

double StateSearch::longest() const {
  double longest = 0;
  for (size_t state = 0; state < states->size(); ++state)
    longest = std::max(longest, limitOf(state));
  return longest;
}

/// Slowest stages that take so long are of no interest: in each state all stages take at least
/// `fill` together.
double StateSearch::nextBelow(function_ref<double(size_t)> fill) const {
  double next = 0;
  for (size_t state = 0; state < states->size(); ++state) {
    double left = limitOf(state) - fill(state);
    if (left > 0)
      next = std::max(next, microBatches > 1 ? left / (microBatches - 1) : infinity);
  }
  return next;
}

/// Notes that placements with a slowest stage from `low` on are not looked at.
void StateSearch::leave(function_ref<double(size_t)> fill, double low) {
  for (size_t state = 0; state < states->size(); ++state) {
    double least = fill(state) + (microBatches - 1) * low;
    if (least < limitOf(state))
      leftOver = std::min(leftOver, objectiveOf(state, least));
  }
}

const LeastTransfers &StateSearch::transfersOf() {
  std::unique_ptr<LeastTransfers> &known = transfers[microBatches];
  if (!known)
    known = std::make_unique<LeastTransfers>(evaluator, paths, *table);
  return *known;
}

bool StateSearch::tellsApart(ArrayRef<StageArc> stages) const {
  constexpr double most = 0.5;
  return DeviceLevels(evaluator.space, countByOption(stages), mostOfThem).exactShare() > most;
}

/// Makes `states` those of the types that stages use, at prices of interest; false: they are.
bool StateSearch::useStatesOf(ArrayRef<StageArc> stages) {
  std::map<int, size_t> used = countByOption(stages);
  std::set<int> now;
  for (auto [option, count] : used)
    for (auto [type, devices] : evaluator.space.options[option].group.counts)
      now.insert(type);
  const bool areKnown =
      all_of(used, [&](const auto &each) { return options.count(each.first) > 0; });
  if (states && areKnown && now == typesOfStates)
    return false;
  states = std::make_shared<DeviceStates>(evaluator.space, evaluator.problem, used,
                                          money() / least * (1 + 1e-9),
                                          isRounded ? mostOfThem : DeviceStates::none);
  options = std::move(used);
  typesOfStates = std::move(now);
  return true;
}

/// Most that a placement of interest costs, dollars per hour · seconds.
double StateSearch::money() const {
  const Request &request = evaluator.problem.request;
  double most = request.highestCost().value() * 3600 * (1 + 1e-9);
  if (request.objective == Objective::Throughput)
    return most;
  return std::min(most, Bounds::paidFor(request, best.objective) * tolerance);
}

/// Each in the modes that memory leaves it: in estimates, the least figures are of any.
std::vector<StageArc> StateSearch::modesOf(ArrayRef<StageArc> stages) {
  std::vector<StageArc> result;
  for (const StageArc &stage : stages)
    for (const StageTimes &entry : table->modes(stage.begin, stage.end, stage.option)) {
      StageArc &of = result.emplace_back(stage);
      static_cast<StageTimes &>(of) = entry;
    }
  return result;
}

/// Stages that take less than `below` and keep as many micro-batches as the fewest stages behind
/// them that do.
std::vector<StageArc> StateSearch::thatMayStand(ArrayRef<StageArc> stages, double below) const {
  const int last = int(evaluator.space.positions.size()) - 1;
  std::vector<int> fewest(last + 1, microBatches); // stages behind a position
  fewest[last] = 0;
  std::vector<const StageArc *> byBegin;
  for (const StageArc &stage : stages)
    if (stage.time() < below)
      byBegin.push_back(&stage);
  std::stable_sort(byBegin.begin(), byBegin.end(),
                   [](const StageArc *a, const StageArc *b) { return a->begin > b->begin; });
  auto mayStand = [&](const StageArc &stage) {
    return stage.time() < below &&
           std::min(fewest[stage.end] + 1, microBatches) <= stage.mostInFlight;
  };
  for (const StageArc *stage : byBegin)
    if (mayStand(*stage))
      fewest[stage->begin] = std::min(fewest[stage->begin], fewest[stage->end] + 1);
  std::vector<StageArc> result;
  copy_if(stages, std::back_inserter(result), mayStand);
  return result;
}

double StateSearch::settle(StageTable &newTable, const Lagrangian::Range &range) {
  table = &newTable;
  microBatches = table->microBatches;
  batch = table->batch;
  least = range.least;
  most = range.most;
  states.reset();
  leftOver = infinity;
  misses = 0;
  settle(modesOf(range.stages), StatesOfInterest(nullptr),
         {range.low, std::nextafter(range.high, infinity)});
  const bool isTime = evaluator.problem.request.objective == Objective::Throughput;
  return isTime ? std::max(leftOver, least) : leftOver;
}

/// By a bound first, which tells the stages of interest and their states; then, where those are
/// few, exactly. Paths of interest have the `known` states, if those are of the devices in hand.
void StateSearch::settle(ArrayRef<StageArc> all, const StatesOfInterest &known, Band band) {
  std::vector<StageArc> stages = thatMayStand(all, band.below);
  if (stages.empty() || band.low >= band.below || tellsNoMore())
    return;
  useStatesOf(stages);
  const int positions = int(evaluator.space.positions.size());
  if (known.all() != states)
    return settle(stages, StatesOfInterest::all(states, positions), band);
  StatePaths bounds(known, transfersOf(), positions, bounding);
  auto fill = [&](size_t state) { return bounds.fill(state); };
  for (bool isShorter = true; isShorter && band.below > band.low;) {
    const int64_t before = bounds.work();
    bounds.solve(stages, band.below);
    looked += bounds.work() - before;
    const double next = nextBelow(fill);
    isShorter = next < worthSolving * band.below && !isOver();
    band.below = std::min(band.below, next);
    if (isShorter)
      stages = thatMayStand(stages, band.below);
  }
  if (band.below <= band.low)
    return;
  if (isOver() || !std::isfinite(longest()))
    return leave(fill, band.low);
  std::vector<double> limits;
  for (size_t state = 0; state < states->size(); ++state)
    limits.push_back(limitOf(state) - (microBatches - 1) * band.low);
  const int64_t before = bounds.work();
  const std::vector<StageArc> kept = bounds.within(stages, band.below, limits);
  looked += bounds.work() - before;
  if (kept.empty())
    return;
  if (useStatesOf(kept)) // fewer
    return settle(kept, known, band);
  settleWithin(kept, bounds.statesWithin(), band, fill);
}

/// Settles the remainder of the bound, which is the least of each state; in halves if the remainder
/// is large.
void StateSearch::settleWithin(ArrayRef<StageArc> stages, const StatesOfInterest &interest,
                               Band band, function_ref<double(size_t)> fill) {
  const size_t size = NeighbourPaths::additions(evaluator.space, interest, stages);
  const bool isNarrow =
      microBatches == 1 || (microBatches - 1) * (band.below - band.low) < narrow * longest();
  const bool isLarge = size > (isNarrow ? sizes.mostOfNarrow : sizes.most);
  if (isLarge && isNarrow)
    return leave(fill, band.low);
  if (!isLarge) {
    const int solves = isNarrow || size <= sizes.few ? std::numeric_limits<int>::max() : patience;
    band.below = settleExactly(stages, interest, band, solves);
    if (band.below <= band.low)
      return;
  }
  const double middle = (band.low + band.below) / 2;
  settle(stages, interest, {middle, band.below});
  settle(stages, interest, {band.low, middle});
}

/// With transfers as they are, in so many solves. Returns the slowest stage from which on nothing
/// is left.
double StateSearch::settleExactly(ArrayRef<StageArc> stages, const StatesOfInterest &interest,
                                  Band band, int solves) {
  NeighbourPaths neighbours(evaluator, interest, paths, batch, stages, exact);
  auto fill = [&](size_t state) { return neighbours.fill(state); };
  for (; band.low < band.below && solves > 0; --solves) {
    const int64_t before = neighbours.work();
    neighbours.solve(band.below);
    looked += neighbours.work() - before;
    if (isOver()) {
      leave(fill, band.low);
      return band.low;
    }
    band.below = shorten(neighbours, stages, band);
    if (microBatches == 1)
      return band.low;
  }
  return band.below;
}

/// Offers the placements that `neighbours` has found, as long as they can improve the incumbent.
/// Returns the slowest stage from which on no other placement can, or the improving ones have been
/// noted. The same holds for other states that take at least as long, may take no longer by now and
/// cost no less.
double StateSearch::shorten(const NeighbourPaths &neighbours, ArrayRef<StageArc> stages,
                            Band band) {
  double next = band.low;
  std::vector<char> isDone(states->size(), false);
  while (true) {
    std::optional<size_t> state = decidingState(neighbours, isDone, next);
    if (!state)
      return std::min(next, band.below);
    const double fill = neighbours.fill(*state), limit = limitOf(*state);
    const double reach = microBatches > 1 ? (limit - fill) / (microBatches - 1) : infinity;
    if (reach < band.below)
      next = std::max(next, reach);
    else
      next = std::max(next, offer(neighbours, stages, *state, band));
    const double limitNow = limitOf(*state);
    for (size_t other = 0; other < isDone.size(); ++other)
      isDone[other] |= neighbours.fill(other) >= fill && limitOf(other) <= limitNow &&
                       objectiveOf(other, 1) >= objectiveOf(*state, 1);
    isDone[*state] = true;
  }
}

/// The state with the most time among those in which placements faster than `next` can improve the
/// incumbent.
std::optional<size_t> StateSearch::decidingState(const NeighbourPaths &neighbours,
                                                 ArrayRef<char> isDone, double next) const {
  std::optional<size_t> deciding;
  double most = 0;
  for (size_t state = 0; state < isDone.size(); ++state) {
    const double limit = limitOf(state), fill = neighbours.fill(state);
    if (isDone[state] || fill + (microBatches - 1) * next >= limit)
      continue;
    bool isMore = limit > most || (limit == most && fill < neighbours.fill(*deciding));
    if (deciding && !isMore)
      continue;
    deciding = state;
    most = limit;
  }
  return deciding;
}

/// Offers the placement that takes least in `state`. Returns the slowest stage from which on no
/// other one of the state is better, or that is noted: the bound does not know what fits nearer to
/// the end only, and what of synchronisation is hidden by which path.
double StateSearch::offer(const NeighbourPaths &neighbours, ArrayRef<StageArc> stages, size_t state,
                          Band band) {
  const SearchSpace &space = evaluator.space;
  const double fill = neighbours.fill(state), limit = limitOf(state);
  Placement placement;
  placement.microBatches = microBatches;
  for (int index : neighbours.path(state))
    placement.stages.push_back({space.positions[stages[index].begin],
                                space.positions[stages[index].end],
                                space.options[stages[index].option].group,
                                {},
                                stages[index].decidedMode()});
  std::optional<Evaluation> found = best.offer(evaluator, std::move(placement));
  if (found) {
    StageSums sums = sumsOf(found->stages);
    double least = fill + (microBatches - 1) * sums.slowest;
    if (evaluator.rules.leastIteration(sums, microBatches) * tolerance <= least &&
        sums.slowest * tolerance < band.below) {
      if (found->objective * tolerance > objectiveOf(state, least))
        misjudged = std::min(misjudged, objectiveOf(state, least));
      return sums.slowest * tolerance;
    }
  }
  const double step = isRounded ? passedOverOfRounded : passedOver;
  const bool goesOn = microBatches > 1 && (isRounded || ++misses < mostMisses);
  const double low =
      goesOn ? std::max(band.low, band.below - step * limit / (microBatches - 1)) : band.low;
  leftOver = std::min(leftOver, objectiveOf(state, fill + (microBatches - 1) * low));
  return low;
}

} // namespace heterplan
