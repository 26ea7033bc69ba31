// The shortest paths of NeighbourBound.
#include "search/verify/bound/NeighbourBound.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr size_t mostTypes = BoundStep::mostTypes;

/// Whether what a stage before them sends takes the same time for both.
bool haveOneInput(const BoundStep &a, const BoundStep &b) {
  return a.begin == b.begin && a.choice == b.choice;
}
} // namespace

BoundHop NeighbourBound::hopOf(int from, const BoundStep &step, bool inNode) const {
  if (from == 0)
    return {};
  const Cut &cut = bounds.crossing(step.begin);
  const NeighbourLink &link = linkOf(from, step.choice);
  const auto time = [&](Bytes perSample, Bytes fixed, bool back) {
    return inNode ? link.timeInNode(perSample, fixed, back)
                  : link.timeApart(perSample, fixed, back);
  };
  return {time(cut.forwardBytes, cut.fixedBytes, /*back=*/false),
          time(cut.backwardBytes, cut.fixedGradientBytes, /*back=*/true)};
}

size_t NeighbourBound::firstOfInput(size_t end) const {
  size_t first = end - 1;
  while (first > 0 && haveOneInput(steps[first - 1], steps[end - 1]))
    --first;
  return first;
}

size_t NeighbourBound::endOfInput(size_t first) const {
  size_t end = first + 1;
  while (end < steps.size() && haveOneInput(steps[end], steps[first]))
    ++end;
  return end;
}

/// The number of stages, from `first` on, whose passes take at most `most` seconds.
size_t NeighbourBound::lengthWithin(size_t first, size_t end, double most) const {
  if (steps[end - 1].passes <= most)
    return end - first;
  const auto within = [most](const BoundStep &step) { return step.passes <= most; };
  return size_t(
      std::partition_point(steps.begin() + long(first), steps.begin() + long(end), within) -
      (steps.begin() + long(first)));
}

/// The least behind the begin of stages at `place`, but for what they receive: by the number of
/// stages, those with the shortest passes, that may be chosen.
void NeighbourBound::addLeasts(std::vector<LeastOfInput> &leasts, size_t first, size_t end,
                               size_t place, bool pays, double least, const Rests &rests) const {
  const double each = pays ? second : 1;
  LeastOfInput now;
  leasts.assign(1, now);
  for (size_t i = first; i < end; ++i) {
    const BoundStep &step = steps[i];
    const BoundRest &after = rests[indexOf(step.end, place)];
    const double payment = pays ? own(step, least) : 0;
    const double full = each * step.passes + payment + after.fill;
    const double exposed = full + each * step.sync;
    const double ahead = each * step.forward + payment + after.forward;
    if (full < now.rest.fill) {
      now.rest.fill = full;
      now.via.fill = int(i);
    }
    if (std::max(exposed, ahead) < now.rest.forward) {
      now.rest.forward = std::max(exposed, ahead);
      now.via.forward = int(i);
      now.via.goesOn = ahead > exposed;
    }
    leasts.push_back(now);
  }
}

/// Lowers `rest` to one that begins with `hop` and goes on with the best of `of`.
void NeighbourBound::lower(BoundRest &rest, Via *via, const LeastOfInput &of, const BoundHop &hop,
                           double each, bool meets) {
  const double fill = of.rest.fill + each * (hop.receive + hop.gradient);
  const double forward = of.rest.forward + each * hop.receive;
  if (fill < rest.fill) {
    rest.fill = fill;
    if (via) {
      via->fill = of.via.fill;
      via->fillMeets = meets;
    }
  }
  if (forward < rest.forward) {
    rest.forward = forward;
    if (via) {
      via->forward = of.via.forward;
      via->goesOn = of.via.goesOn;
      via->forwardMeets = meets;
    }
  }
}

/// The choices of the stages that end at each cut, ascending; at the first one, that of no stage.
std::vector<std::vector<int>> NeighbourBound::choicesBefore() const {
  std::vector<bool> has(size_t(bounds.cutCount()) * choices.size());
  has[0] = true;
  for (const BoundStep &step : steps)
    has[size_t(step.end) * choices.size() + size_t(step.choice)] = true;
  std::vector<std::vector<int>> result(size_t(bounds.cutCount()));
  for (size_t i = 0; i < has.size(); ++i)
    if (has[i])
      result[i / choices.size()].push_back(int(i % choices.size()));
  return result;
}

NeighbourBound::Rests NeighbourBound::restsFor(bool pays, double least,
                                               std::vector<Via> *via) const {
  const int last = bounds.cutCount() - 1;
  const double each = pays ? second : 1;
  Rests result(indexOf(last + 1, 0), {infinity, infinity});
  std::fill(result.begin() + long(indexOf(last, 0)), result.end(), BoundRest{0, -infinity});
  const std::vector<std::vector<int>> froms = choicesBefore();
  std::vector<std::vector<LeastOfInput>> leasts; // by place of the choice
  for (size_t first = 0, end = steps.size(); end > 0; end = first) {
    first = firstOfInput(end);
    const BoundStep &step = steps[first];
    const size_t place = runs().first(step.choice);
    leasts.resize(std::max(leasts.size(), runs().placesOf(step.choice)));
    for (size_t i = 0; i < runs().placesOf(step.choice); ++i)
      addLeasts(leasts[i], first, end, place + i, pays, least, result);
    for (int from : froms[size_t(step.begin)]) {
      const BoundHop apart = hopOf(from, step, false);
      const size_t length = lengthWithin(first, end, cell.high - apart.receive);
      const size_t index = indexOf(step.begin, runs().first(from));
      for (size_t i = 0; i < runs().placesOf(from); ++i)
        lower(result[index + i], via ? &(*via)[index + i] : nullptr, leasts[0][length], apart, each,
              /*meets=*/false);
      if (!linkOf(from, step.choice).mayMeet)
        continue;
      const BoundHop inNode = hopOf(from, step, true);
      const size_t longer = lengthWithin(first, end, cell.high - inNode.receive);
      for (size_t i = 0; i < runs().placesOf(from); ++i)
        if (const size_t before = runs().first(from) + i; runs().mayJoin(before, step.choice))
          lower(result[index + i], via ? &(*via)[index + i] : nullptr,
                leasts[runs().joined(before, step.choice) - place][longer], inNode, each,
                /*meets=*/true);
    }
  }
  return result;
}

/// How far the least path exceeds each limit, relative.
std::vector<double> NeighbourBound::surplusOf(const Rests &of, const std::vector<Via> &via) const {
  const size_t types = multipliers.size() - 2;
  std::vector<double> surplus(multipliers.size(), -1);
  size_t place = 0, index = indexOf(0, 0);
  bool isForward = of[index].forward > of[index].fill;
  double seconds = 0;
  for (int cut = 0; cut + 1 < bounds.cutCount();) {
    const Via &next = via[index];
    const BoundStep &step = steps[size_t(isForward ? next.forward : next.fill)];
    const bool meets = isForward ? next.forwardMeets : next.fillMeets;
    for (size_t type = 0; type < std::min(mostTypes, types); ++type)
      if (available[type] > 0)
        surplus[type] += double(step.taken[type]) / available[type];
    if (std::isfinite(bounds.highestPrice()))
      surplus[types] += step.price / bounds.highestPrice();
    const bool goesOn = isForward && next.goesOn;
    const BoundHop hop = hopOf(runs().choiceOf(place), step, meets);
    seconds += hop.receive;
    if (goesOn)
      seconds += step.forward;
    else
      seconds += step.passes + (isForward ? step.sync : hop.gradient);
    isForward = goesOn;
    cut = step.end;
    place = meets ? runs().joined(place, step.choice) : runs().first(step.choice);
    index = indexOf(cut, place);
  }
  surplus.back() += seconds / secondsOfCell();
  return surplus;
}

size_t NeighbourBound::workOfRests() const {
  size_t work = 0;
  for (size_t first = 0, end = 0; first < steps.size(); first = end) {
    end = endOfInput(first);
    work += (end - first) * runs().placesOf(steps[first].choice) + runs().count();
  }
  return work;
}

/// Adds the ways in which a path arrives at a stage from a place, unless another is no worse.
void NeighbourBound::arrive(std::vector<Arrival> &arrivals, const BoundRest &before,
                            const BoundHop &hop) const {
  if (std::isfinite(before.fill))
    arrivals.push_back({hop.receive,
                        {before.fill + second * (hop.receive + hop.gradient),
                         before.forward + second * hop.receive}});
}

/// Drops arrivals that others are no worse than.
void NeighbourBound::keepBest(std::vector<Arrival> &arrivals) {
  llvm::sort(arrivals, [](const Arrival &a, const Arrival &b) {
    return std::tie(a.receive, a.before.fill, a.before.forward) <
           std::tie(b.receive, b.before.fill, b.before.forward);
  });
  size_t kept = 0;
  for (const Arrival &each : arrivals)
    if (std::none_of(arrivals.begin(), arrivals.begin() + long(kept), [&](const Arrival &other) {
          return other.before.fill <= each.before.fill &&
                 other.before.forward <= each.before.forward;
        }))
      arrivals[kept++] = each;
  arrivals.resize(kept);
}

/// The least of paths to the begin of `step`, by its place.
void NeighbourBound::addArrivals(std::vector<std::vector<Arrival>> &arrivals, const BoundStep &step,
                                 const std::vector<int> &froms, const Rests &before) const {
  const size_t place = runs().first(step.choice);
  arrivals.resize(runs().placesOf(step.choice));
  for (std::vector<Arrival> &each : arrivals)
    each.clear();
  for (int from : froms) {
    const BoundHop inNode = hopOf(from, step, linkOf(from, step.choice).mayMeet);
    BoundRest least{infinity, infinity};
    for (size_t other = runs().first(from); other < runs().first(from + 1); ++other) {
      const BoundRest &to = before[indexOf(step.begin, other)];
      least = {std::min(least.fill, to.fill), std::min(least.forward, to.forward)};
      if (mayMeet(other, step.choice))
        arrive(arrivals[runs().joined(other, step.choice) - place], to, inNode);
    }
    arrive(arrivals[0], least, hopOf(from, step, false));
  }
  for (std::vector<Arrival> &each : arrivals)
    keepBest(each);
}

/// The least path through each stage, with payments.
std::vector<double> NeighbourBound::leastThrough() const {
  const Rests behind = restsFor(true, cell.least);
  Rests before(behind.size(), {infinity, infinity});
  before[indexOf(0, 0)] = {0, 0};
  std::vector<double> result(steps.size(), infinity);
  const std::vector<std::vector<int>> froms = choicesBefore();
  std::vector<std::vector<Arrival>> arrivals; // by place
  for (size_t first = 0, end = 0; first < steps.size(); first = end) {
    end = endOfInput(first);
    addArrivals(arrivals, steps[first], froms[size_t(steps[first].begin)], before);
    for (size_t place = 0; place < arrivals.size(); ++place)
      for (size_t i = first; i < end; ++i) {
        const BoundStep &step = steps[i];
        const size_t index = indexOf(step.end, runs().first(step.choice) + place);
        const double payment = own(step, cell.least);
        for (const Arrival &from : arrivals[place]) {
          if (step.passes + from.receive > cell.high)
            break;
          const double fill = payment + second * step.passes +
                              std::max(from.before.fill, from.before.forward + second * step.sync);
          const double forward = payment + second * step.forward + from.before.forward;
          before[index].fill = std::min(before[index].fill, fill);
          before[index].forward = std::min(before[index].forward, forward);
          result[i] = std::min(
              result[i], std::max(fill + behind[index].fill, forward + behind[index].forward));
        }
      }
  }
  return result;
}

} // namespace heterplan
