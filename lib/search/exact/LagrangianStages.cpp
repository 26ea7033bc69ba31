// Which stages a completion of interest may have: what a stage adds at least, with all that comes
// before and behind it (its reduced cost), decides.
#include "search/exact/Lagrangian.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// What is near enough to a limit to be looked at.
constexpr double tolerance = 1 + 1e-9;
} // namespace

double Lagrangian::slowestAtLeast() const { return intervals.empty() ? 0 : intervals.front().low; }

/// By position: the least Σ `cost` of the stages behind it.
template <typename Cost>
std::vector<double> Lagrangian::leastBehind(const Interval &interval, Cost cost) const {
  std::vector<double> least(positions, infinity);
  least[positions - 1] = 0;
  for (int begin = positions - 1; begin-- > 0;)
    for (int end = begin + 1; end < positions; ++end) {
      size_t pair = pairIndex(begin, end);
      for (size_t i = firstChoice[pair]; i < firstChoice[pair + 1]; ++i)
        if (choices[i].time <= interval.high)
          least[begin] = std::min(least[begin], cost(choices[i]) + least[end]);
    }
  return least;
}

/// Keeps the choices that a placement of interest may have in this interval.
void Lagrangian::rankChoices(Interval &interval) {
  interval.ranked.clear();
  interval.firstRanked.assign(1, 0);
  std::vector<double> costCosts = chargesOf(interval.costMultipliers);
  chargeOptions(interval.multipliers);
  std::vector<double> behind = leastBehind(
      interval, [&](const Choice &choice) { return choice.time + optionCosts[choice.option]; });
  PartialPlacement none;
  std::vector<int> nothing(types, 0);
  none.used = nothing;
  double limit = timeLimit * tolerance - chosenTime(interval, none);
  for (int end = 0; end < positions; ++end) {
    for (int begin = 0; begin < end; ++begin)
      rankChoicesOf(interval, begin, end, costCosts, limit - behind[end]);
    auto first = interval.ranked.begin() + interval.firstRanked.back();
    std::sort(first, interval.ranked.end(), [](const Ranked &a, const Ranked &b) {
      return std::tie(a.time, a.choice) < std::tie(b.time, b.choice);
    });
    interval.firstRanked.push_back(interval.ranked.size());
  }
}

/// Those between two positions that take, with all before them, at most `limit`.
void Lagrangian::rankChoicesOf(Interval &interval, int begin, int end,
                               const std::vector<double> &costCosts, double limit) const {
  size_t pair = pairIndex(begin, end);
  for (size_t i = firstChoice[pair]; i < firstChoice[pair + 1]; ++i) {
    const Choice &choice = choices[i];
    double before =
        std::max(interval.costs.fill[begin], choice.sync + interval.costs.forward[begin]);
    double time = optionCosts[choice.option] + choice.time + before;
    if (choice.time > interval.high || time > limit)
      continue;
    double paid = 0;
    if (costMatters)
      paid = interval.paid[begin] + costCosts[choice.option] + paidFor(choice, interval);
    interval.ranked.push_back({time, paid, begin, static_cast<int>(i)});
  }
}

void Lagrangian::listExtensions(const PartialPlacement &partial, double timeLimit, double costLimit,
                                SmallVectorImpl<Extension> &found) {
  seen.resize(choices.size(), 0);
  ++listing;
  for (const Interval &interval : intervals) {
    double time = openTime(interval, partial);
    if (time > timeLimit * tolerance)
      continue;
    double timeLeft = timeLimit * tolerance - chosenTime(interval, partial);
    double costLeft = infinity;
    if (costMatters)
      costLeft =
          costLimit * tolerance - time * partial.price + refund(interval.costMultipliers, partial);
    for (size_t i = interval.firstRanked[partial.position];
         i < interval.firstRanked[partial.position + 1]; ++i) {
      const Ranked &ranked = interval.ranked[i];
      if (ranked.time > timeLeft)
        break;
      if (ranked.paid > costLeft || seen[ranked.choice] == listing)
        continue;
      seen[ranked.choice] = listing;
      found.push_back({ranked.begin, choices[ranked.choice].option});
    }
  }
}

/// Marks the choices that a placement of interest may have in this interval.
void Lagrangian::keepStages(const Interval &interval, std::vector<char> &kept) const {
  std::vector<double> charges = chargesOf(interval.costMultipliers), behind(positions, 0);
  double limit = infinity;
  if (costMatters) {
    behind = leastBehind(interval, [&](const Choice &choice) {
      return paidFor(choice, interval) + charges[choice.option];
    });
    limit = costLimit * tolerance;
    for (double multiplier : interval.costMultipliers)
      limit += multiplier;
  }
  for (int end = 1; end < positions; ++end)
    for (size_t i = interval.firstRanked[end]; i < interval.firstRanked[end + 1]; ++i)
      if (interval.ranked[i].paid + behind[end] <= limit)
        kept[interval.ranked[i].choice] = true;
}

std::vector<Lagrangian::StageChoice> Lagrangian::listStages() const {
  std::vector<char> kept(choices.size(), false);
  for (const Interval &interval : intervals)
    keepStages(interval, kept);
  std::vector<StageChoice> stages;
  for (int end = 1; end < positions; ++end)
    for (int begin = 0; begin < end; ++begin) {
      size_t pair = pairIndex(begin, end);
      for (size_t i = firstChoice[pair]; i < firstChoice[pair + 1]; ++i)
        if (kept[i])
          stages.push_back({begin, end, choices[i].option});
    }
  return stages;
}

} // namespace heterplan
