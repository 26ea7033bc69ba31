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

double Lagrangian::slowestAtLeast() const { return intervals.empty() ? 0 : intervals.front().low; }

/// By place: the least that the stages behind it pay.
std::vector<double> Lagrangian::leastBehind(const Interval &interval,
                                            const Charges &charges) const {
  std::vector<double> least(places.size(), infinity);
  least[places.at(positions - 1)] = 0;
  int position = positions;
  for (int i : reverse(interval.choices)) {
    const StageArc &choice = choices[i];
    for (; position > choice.end; --position)
      places.takeFewer(position - 1, least);
    const double own = ownCharge(choice, interval, charges) + charges.second * choice.time();
    places.overStage(choice, [&](size_t before, size_t behind) {
      least[before] = std::min(least[before], own + least[behind]);
    });
  }
  return least;
}

/// Drops choices that take longer than the interval allows.
void Lagrangian::dropChoices(Interval &interval) const {
  erase_if(interval.choices, [&](int i) { return !mayTake(choices[i], interval); });
}

/// The least that comes before a choice, with what of its synchronisation is not hidden there.
double Lagrangian::leastBefore(const StageArc &choice, const LagrangianBounds &relaxation,
                               double exposed) const {
  if (relaxation.junctions.empty()) { // others have less room before them
    const size_t place =
        places.before(choice.begin, choice.option, evaluator.space.leastChain(choice.option));
    return std::max(relaxation.fill[place], relaxation.forward[place] + exposed);
  }
  const Levels &levels = relaxation.levels;
  const size_t state = levels.states() - 1 - this->levels.statesTaken(levels, choice.option);
  double least = infinity;
  for (int chain : evaluator.space.chainsOf(choice.option))
    least = std::min(
        least, leastBefore(relaxation, choice.begin, choice.option, chain, choice.receive, state)
                   .withExposed(exposed));
  return least;
}

/// A choice with it.
double Lagrangian::leastWith(const StageArc &choice, const Interval &interval,
                             const LagrangianBounds &relaxation, const Charges &charges) const {
  return ownCharge(choice, interval, charges) + charges.second * choice.time() +
         leastBefore(choice, relaxation, charges.second * choice.syncTime());
}

/// Drops the choices that no placement of interest has in this interval, unless all of it is
/// solved: reduced-cost fixing.
void Lagrangian::fixChoices(Interval &interval) const {
  if (isSolved(interval) || !options.uses(Method::Fixing))
    return;
  const Charges time = chargesOf(interval.time.multipliers, 1, /*countsMoney=*/false);
  const Charges cost = costCharges(interval, interval.cost.multipliers);
  const std::vector<double> behind = leastBehind(interval, time);
  std::vector<double> behindCost;
  if (costMatters)
    behindCost = leastBehind(interval, cost);
  PartialPlacement none;
  const std::vector<int> nothing(types, 0);
  none.used = nothing;
  const double limit = longestOf(interval) * tolerance - chosenTime(interval, none);
  const double mostCost = costLimit * tolerance + refund(interval, interval.cost.multipliers, none);
  erase_if(interval.choices, [&](int i) {
    const StageArc &choice = choices[i];
    const size_t place = places.behind(choice);
    if (leastWith(choice, interval, interval.time, time) + behind[place] > limit)
      return true;
    return costMatters &&
           leastWith(choice, interval, interval.cost, cost) + behindCost[place] > mostCost;
  });
}

/// Sorts the choices of an unsolved interval that an improving placement may have.
void Lagrangian::rankChoices(Interval &interval) const {
  fixChoices(interval);
  interval.ranked.clear();
  interval.firstRanked.assign(2, 0);
  const Charges time = chargesOf(interval.time.multipliers, 1, /*countsMoney=*/false);
  const Charges cost = costCharges(interval, interval.cost.multipliers);
  auto finishEnd = [&] {
    std::sort(interval.ranked.begin() + interval.firstRanked.back(), interval.ranked.end(),
              [](const RankedArc &a, const RankedArc &b) {
                return std::tie(a.time, a.choice) < std::tie(b.time, b.choice);
              });
    interval.firstRanked.push_back(interval.ranked.size());
  };
  for (int i : interval.choices) {
    const StageArc &choice = choices[i];
    while (int(interval.firstRanked.size()) <= choice.end)
      finishEnd();
    interval.ranked.push_back({leastWith(choice, interval, interval.time, time),
                               costMatters ? leastWith(choice, interval, interval.cost, cost) : 0,
                               i});
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
    for (int choice : interval.choices)
      now[choice] = 0;
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
    for (int &choice : interval.choices)
      choice = now[choice];
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
          !evaluator.space.mayFollow(choices[ranked.choice].option, partial.option))
        continue;
      seen[ranked.choice] = listing;
      found.push_back(choices[ranked.choice]);
    }
  }
}

} // namespace heterplan
