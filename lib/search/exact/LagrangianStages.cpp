// Which stages a completion of interest may have: what a stage adds at least, with all that comes
// before and behind it (its reduced cost), decides.
#include "search/exact/Lagrangian.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
/// The tolerance within which a placement at a limit is still examined.
constexpr double tolerance = 1 + 1e-9;
} // namespace

double Lagrangian::slowestAtLeast() const {
  double least = intervals.empty() ? 0 : infinity;
  for (const Interval &interval : intervals)
    least = std::min(least, interval.low);
  return least;
}

/// By place and stages behind it: the least that these pay.
std::vector<double> Lagrangian::leastBehind(const Interval &interval,
                                            const Charges &charges) const {
  const size_t rows = depths.rows();
  std::vector<double> least(places.size() * rows, infinity);
  least[depths.at(places.at(positions - 1), 0)] = 0;
  auto finish = [&](int position) {
    for (size_t place = places.at(position); place < places.at(position + 1); ++place) {
      double &deepest = least[depths.at(place, depths.most)];
      deepest = std::min(deepest, least[(place + 1) * rows - 1]);
    }
    places.takeFewer(position, least, rows);
  };
  int position = positions;
  for (const OpenArc &open : reverse(interval.choices)) {
    const StageArc &choice = choices[open.choice];
    for (; position > choice.end; --position)
      finish(position - 1);
    const double own = ownCharge(choice, interval, charges) + charges.second * choice.time();
    places.overStage(choice, [&](size_t before, size_t behind) {
      double *leastBefore = &least[before * rows + 1], *leastBehind = &least[behind * rows];
      for (int each = open.behind.fewest; each <= open.behind.most; ++each)
        leastBefore[each] = std::min(leastBefore[each], own + leastBehind[each]);
    });
  }
  return least;
}

/// Drops choices that take longer than the interval allows.
void Lagrangian::dropChoices(Interval &interval) const {
  erase_if(interval.choices,
           [&](const OpenArc &open) { return !mayTake(choices[open.choice], interval); });
}

/// The least that comes before a choice with so many stages behind it, with what of its
/// synchronisation is not hidden there.
double Lagrangian::leastBefore(const StageArc &choice, int behind,
                               const LagrangianBounds &relaxation, double exposed) const {
  if (relaxation.junctions.empty()) { // others have less room before them
    const auto [fill, forward] = relaxation.fillAndForward(
        depths,
        places.before(choice.begin, choice.option, evaluator.space.leastChain(choice.option)),
        behind + 1);
    return std::max(fill, forward + exposed);
  }
  const Levels &levels = relaxation.levels;
  const size_t state =
      levels.states() - 1 - levels.statesTaken(evaluator.space.options[choice.option].slots);
  double least = infinity;
  for (int chain : evaluator.space.chainsOf(choice.option))
    least = std::min(least, leastBefore(relaxation, choice.begin, behind + 1, choice.option, chain,
                                        choice.receive, state)
                                .withExposed(exposed));
  return least;
}

/// A choice with it, however many stages are behind it.
double Lagrangian::leastWith(const OpenArc &open, const Interval &interval,
                             const LagrangianBounds &relaxation, const Charges &charges) const {
  const StageArc &choice = choices[open.choice];
  double least = infinity;
  for (int behind = open.behind.fewest; behind <= open.behind.most; ++behind)
    least = std::min(least,
                     leastBefore(choice, behind, relaxation, charges.second * choice.syncTime()));
  return ownCharge(choice, interval, charges) + charges.second * choice.time() + least;
}

/// Drops the choices that no placement of interest has in this interval, and the depths at which
/// none has them, unless all of it is solved: reduced-cost fixing.
void Lagrangian::fixChoices(Interval &interval) const {
  if (isSolved(interval) || !options.uses(Method::Fixing))
    return;
  fixBy(interval, interval.time, chargesOf(interval.time.multipliers, 1, /*countsMoney=*/false),
        mostTime(interval) - moreAcross(interval));
  if (costMatters) {
    PartialPlacement none;
    const std::vector<int> nothing(types, 0);
    none.used = nothing;
    fixBy(interval, interval.cost, costCharges(interval, interval.cost.multipliers),
          costLimit * tolerance - costAcross(interval) +
              refund(interval, interval.cost.multipliers, none));
  }
}

/// The most that the stages of a placement of interest take, with what they pay.
double Lagrangian::mostTime(const Interval &interval) const {
  PartialPlacement none;
  const std::vector<int> nothing(types, 0);
  none.used = nothing;
  return longestOf(interval) * tolerance - chosenTime(interval, none);
}

/// Drops the depths of choices at which these, with the least before and behind them, pass a limit.
void Lagrangian::fixBy(Interval &interval, const LagrangianBounds &relaxation,
                       const Charges &charges, double limit) const {
  const std::vector<double> least = leastBehind(interval, charges);
  for (OpenArc &open : interval.choices) {
    const StageArc &choice = choices[open.choice];
    const double own = ownCharge(choice, interval, charges) + charges.second * choice.time();
    const double exposed = charges.second * choice.syncTime();
    const size_t place = places.behind(choice);
    auto passes = [&](int behind) {
      return own + leastBefore(choice, behind, relaxation, exposed) +
                 least[depths.at(place, behind)] >
             limit;
    };
    StagesBehind &behind = open.behind;
    while (behind.fewest <= behind.most && passes(behind.fewest))
      ++behind.fewest;
    while (behind.fewest <= behind.most && passes(behind.most))
      --behind.most;
  }
  erase_if(interval.choices,
           [](const OpenArc &open) { return open.behind.fewest > open.behind.most; });
}

/// Sorts the choices of an unsolved interval that an improving placement may have. `countsRest`:
/// with RankedArc::rest, which LevelPaths needs.
void Lagrangian::rankChoices(Interval &interval, bool countsRest) const {
  fixChoices(interval);
  interval.ranked.clear();
  interval.firstRanked.assign(2, 0);
  const Charges time = chargesOf(interval.time.multipliers, 1, /*countsMoney=*/false);
  const Charges cost = costCharges(interval, interval.cost.multipliers);
  std::vector<double> behind;
  if (countsRest)
    behind = leastBehind(interval, time);
  interval.mostTime = mostTime(interval);
  auto finishEnd = [&] {
    std::sort(interval.ranked.begin() + interval.firstRanked.back(), interval.ranked.end(),
              [](const RankedArc &a, const RankedArc &b) {
                return std::tie(a.time, a.choice) < std::tie(b.time, b.choice);
              });
    interval.firstRanked.push_back(interval.ranked.size());
  };
  for (const OpenArc &open : interval.choices) {
    const StageArc &choice = choices[open.choice];
    while (int(interval.firstRanked.size()) <= choice.end)
      finishEnd();
    interval.ranked.push_back({leastWith(open, interval, interval.time, time),
                               costMatters ? leastWith(open, interval, interval.cost, cost) : 0,
                               /*rest=*/0, open.choice, open.behind});
    if (countsRest) {
      const double *least = &behind[depths.at(places.behind(choice), 0)];
      interval.ranked.back().rest =
          ownCharge(choice, interval, time) + choice.time() +
          *std::min_element(least + open.behind.fewest, least + open.behind.most + 1);
    }
  }
  while (int(interval.firstRanked.size()) <= positions)
    finishEnd();
}

/// Frees the choices that no interval has, if they are most: they take much memory.
void Lagrangian::forgetChoices() {
  std::vector<int> now(choices.size(), -1); // by choice
  for (Interval &interval : intervals) {
    interval.choices.shrink_to_fit();
    interval.ranked.shrink_to_fit();
    for (const OpenArc &open : interval.choices)
      now[open.choice] = 0;
    for (const RankedArc &ranked : interval.ranked)
      now[ranked.choice] = 0;
  }
  const size_t kept = count(now, 0);
  if (2 * kept > choices.size())
    return;
  std::vector<StageArc> rest;
  rest.reserve(kept);
  for (size_t i = 0; i < choices.size(); ++i)
    if (now[i] == 0) {
      now[i] = int(rest.size());
      rest.push_back(choices[i]);
    }
  choices = std::move(rest);
  seen.clear();
  for (Interval &interval : intervals) {
    for (OpenArc &open : interval.choices)
      open.choice = now[open.choice];
    for (RankedArc &ranked : interval.ranked)
      ranked.choice = now[ranked.choice];
  }
}

void Lagrangian::listExtensions(const PartialPlacement &partial, double timeLimit, double costLimit,
                                SmallVectorImpl<StageSpan> &found) {
  seen.resize(choices.size(), 0);
  ++listing;
  for (const Interval &interval : intervals) {
    double time = openTime(interval, partial);
    if (time > timeLimit * tolerance)
      continue;
    double longest = std::min(timeLimit, interval.most) * tolerance;
    double timeLeft = longest - chosenTime(interval, partial);
    double costLeft = infinity;
    if (costMatters)
      costLeft = costLimit * tolerance - time * partial.price +
                 refund(interval, interval.cost.multipliers, partial);
    for (size_t i = interval.firstRanked[partial.position];
         i < interval.firstRanked[partial.position + 1]; ++i) {
      const RankedArc &ranked = interval.ranked[i];
      if (ranked.time > timeLeft)
        break;
      if (ranked.cost > costLeft || seen[ranked.choice] == listing ||
          !ranked.behind.has(depths.of(partial.depth)) ||
          !evaluator.space.mayFollow(choices[ranked.choice].option, partial.option))
        continue;
      seen[ranked.choice] = listing;
      found.push_back(choices[ranked.choice]);
    }
  }
}

} // namespace heterplan
