#include "search/verify/bound/NeighbourBound.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double safety = 1 - 1e-10; // of sums of doubles
constexpr size_t mostTypes = BoundStep::mostTypes;
constexpr double largest = 1e100; // multiplier; sums of larger ones might be infinite
} // namespace

NeighbourBound::NeighbourBound(const StageBounds &bounds, const StageList &list, bool paysMoney,
                               const BoundCell &cell, const std::vector<double> &multipliers,
                               double goal)
    : bounds(bounds), microBatches(list.microBatches), paysMoney(paysMoney), cell(cell),
      goal(goal) {
  const size_t types = bounds.ofCluster().types.size();
  for (size_t type = 0; type < std::min(types, mostTypes); ++type)
    available[type] = bounds.available(int(type));
  listSteps(list);
  setMultipliers(multipliers);
  dropByCuts();
  numberChoices(list);
  dropWorse();
  dropByNeighbours();
}

NeighbourBound::NeighbourBound(const NeighbourBound &whole, const BoundCell &part)
    : NeighbourBound(whole) {
  cell = part;
  llvm::erase_if(steps, [&](const BoundStep &step) {
    return step.least > cell.high || microBatches * step.least > cell.most;
  });
  setMultipliers(whole.multipliers);
}

/// The seconds that all passes and exposed synchronisation may take.
double NeighbourBound::secondsOfCell() const { return cell.most - (microBatches - 1) * cell.low; }

void NeighbourBound::setMultipliers(const std::vector<double> &values) {
  multipliers = values;
  const size_t types = multipliers.size() - 2;
  for (size_t type = 0; type < types; ++type)
    if (type >= mostTypes || available[type] == 0)
      multipliers[type] = 0;
    else
      prices[type] = multipliers[type] / available[type];
  if (std::isfinite(bounds.highestPrice()))
    budget = multipliers[types] / bounds.highestPrice();
  refunded = std::accumulate(multipliers.begin(), multipliers.end(), 0.0) / safety;
  second = paysMoney ? 0 : 1;
  if (multipliers.back() > 0)
    second += multipliers.back() / secondsOfCell();
  for (BoundStep &step : steps)
    step.charge = chargeOf(step.taken, step.price);
}

double NeighbourBound::chargeOf(const BoundStep::Devices &taken, double price) const {
  double charge = budget * price;
  for (size_t type = 0; type < mostTypes; ++type)
    charge += prices[type] * taken[type];
  return charge;
}

/// The payment of a stage beside its seconds.
double NeighbourBound::own(const BoundStep &step, double least) const {
  return step.charge +
         (paysMoney ? step.price * std::max(least, microBatches * step.least + step.sync) : 0);
}

void NeighbourBound::listSteps(const StageList &list) {
  for (const StageBound &stage : list.stages) {
    if (stage.time > cell.high || microBatches * stage.time > cell.most)
      continue;
    BoundStep step;
    step.begin = stage.begin;
    step.end = stage.end;
    step.choice = stage.choice;
    step.passes = stage.time - stage.receive - stage.gradient;
    step.forward = stage.forward - stage.receive;
    step.sync = stage.sync;
    step.price = list.prices[size_t(stage.choice)];
    step.least = stage.time;
    for (auto [type, slots] : list.choices[size_t(stage.choice)].slots)
      if (size_t(type) < mostTypes)
        step.taken[size_t(type)] = slots;
    steps.push_back(step);
  }
  llvm::stable_sort(steps, [](const BoundStep &a, const BoundStep &b) {
    return std::tie(a.begin, a.end, a.price) < std::tie(b.begin, b.end, b.price);
  });
}

/// The least behind each cut, if transfers of neighbours take the least.
std::vector<BoundRest> NeighbourBound::restsByCut(bool pays) const {
  std::vector<BoundRest> result(size_t(bounds.cutCount()), {infinity, infinity});
  result.back() = {0, -infinity};
  const double each = pays ? second : 1;
  for (const BoundStep &step : reverse(steps)) {
    const BoundRest &after = result[size_t(step.end)];
    const double payment = pays ? own(step, cell.least) : 0;
    BoundRest &rest = result[size_t(step.begin)];
    rest.fill = std::min(rest.fill, payment + each * step.least + after.fill);
    rest.forward =
        std::min(rest.forward, payment + std::max(each * (step.sync + step.least) + after.fill,
                                                  each * step.forward + after.forward));
  }
  return result;
}

/// Drops stages without a look at their neighbours, which is quick.
void NeighbourBound::dropByCuts() {
  const std::vector<BoundRest> behind = restsByCut(true);
  std::vector<BoundRest> before(behind.size(), {infinity, infinity});
  before[0] = {0, 0};
  size_t kept = 0;
  for (const BoundStep &step : steps) {
    const BoundRest from = before[size_t(step.begin)], &after = behind[size_t(step.end)];
    const double payment = own(step, cell.least);
    const double fill =
        payment + second * step.least + std::max(from.fill, from.forward + second * step.sync);
    const double forward = payment + second * step.forward + from.forward;
    BoundRest &here = before[size_t(step.end)];
    here.fill = std::min(here.fill, fill);
    here.forward = std::min(here.forward, forward);
    const double least = std::max(fill + after.fill, forward + after.forward) * safety - refunded;
    const double slowest = (microBatches - 1) * std::max(cell.low, step.least) * safety;
    if (least + (paysMoney ? 0 : slowest) < goal)
      steps[kept++] = step;
  }
  steps.resize(kept);
}

/// Numbers the choices of the stages, and finds the links between them.
void NeighbourBound::numberChoices(const StageList &list) {
  std::map<int, int> numbers;
  choices = {-1};
  for (BoundStep &step : steps) {
    auto [entry, isNew] = numbers.try_emplace(step.choice, int(choices.size()));
    if (isNew)
      choices.push_back(step.choice);
    step.choice = entry->second;
  }
  neighbours = std::make_shared<Neighbours>();
  neighbours->links.resize(choices.size() * choices.size());
  neighbours->covers.resize(choices.size() * choices.size());
  neighbours->covers[0] = true;
  for (size_t i = 1; i < choices.size(); ++i)
    for (size_t j = 1; j < choices.size(); ++j) {
      const DeviceChoice &a = list.choices[size_t(choices[i])];
      const DeviceChoice &b = list.choices[size_t(choices[j])];
      const size_t index = i * choices.size() + j;
      neighbours->links[index] = bounds.between(b, a);
      neighbours->covers[index] = i == j || hasNoSlowerLinks(a, b);
    }
}

bool NeighbourBound::isNoWorse(const BoundStep &a, const BoundStep &b) const {
  for (size_t type = 0; type < mostTypes; ++type)
    if (a.taken[type] > b.taken[type])
      return false;
  return a.passes <= b.passes && a.least <= b.least && a.forward <= b.forward && a.sync <= b.sync &&
         a.price <= b.price && covers(a.choice, b.choice);
}

/// Drops stages that others of the same layers are no worse than, and sorts those that are left
/// into runs.
void NeighbourBound::dropWorse() {
  std::vector<BoundStep> kept;
  size_t first = 0;
  for (const BoundStep &step : steps) {
    if (kept.size() > first &&
        std::tie(kept[first].begin, kept[first].end) != std::tie(step.begin, step.end))
      first = kept.size();
    if (std::none_of(kept.begin() + long(first), kept.end(),
                     [&](const BoundStep &other) { return isNoWorse(other, step); }))
      kept.push_back(step);
  }
  llvm::stable_sort(kept, [](const BoundStep &a, const BoundStep &b) {
    return std::tie(a.begin, a.choice, a.passes) < std::tie(b.begin, b.choice, b.passes);
  });
  steps = std::move(kept);
}

double NeighbourBound::receiveOf(int from, const BoundStep &step) const {
  if (from == 0)
    return 0;
  const Cut &cut = bounds.crossing(step.begin);
  return neighbours->links[size_t(step.choice) * choices.size() + size_t(from)].time(
      cut.forwardBytes, cut.fixedBytes, /*back=*/false);
}

double NeighbourBound::gradientOf(int from, const BoundStep &step) const {
  if (from == 0)
    return 0;
  const Cut &cut = bounds.crossing(step.begin);
  return neighbours->links[size_t(step.choice) * choices.size() + size_t(from)].time(
      cut.backwardBytes, cut.fixedGradientBytes, /*back=*/true);
}

/// Whether what a stage before them sends takes the same time for both.
static bool haveOneInput(const BoundStep &a, const BoundStep &b) {
  return a.begin == b.begin && a.choice == b.choice;
}

size_t NeighbourBound::firstOfRun(size_t end) const {
  size_t first = end - 1;
  while (first > 0 && haveOneInput(steps[first - 1], steps[end - 1]))
    --first;
  return first;
}

size_t NeighbourBound::endOfRun(size_t first) const {
  size_t end = first + 1;
  while (end < steps.size() && haveOneInput(steps[end], steps[first]))
    ++end;
  return end;
}

/// The number of stages of a run whose passes take at most `most` seconds.
size_t NeighbourBound::lengthWithin(size_t first, size_t end, double most) const {
  const auto within = [most](const BoundStep &step) { return step.passes <= most; };
  return size_t(
      std::partition_point(steps.begin() + long(first), steps.begin() + long(end), within) -
      (steps.begin() + long(first)));
}

/// The least behind the begin of a run, but for what its stages receive: by the number of stages,
/// those with the shortest passes, that may be chosen.
void NeighbourBound::addLeasts(std::vector<LeastOfRun> &leasts, size_t first, size_t end, bool pays,
                               double least, const Rests &rests) const {
  const double each = pays ? second : 1;
  LeastOfRun now;
  leasts.assign(1, now);
  for (size_t i = first; i < end; ++i) {
    const BoundStep &step = steps[i];
    const BoundRest &after = rests[indexOf(step.end, step.choice)];
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

NeighbourBound::Rests NeighbourBound::restsFor(bool pays, double least,
                                               std::vector<Via> *via) const {
  const int last = bounds.cutCount() - 1;
  const double each = pays ? second : 1;
  Rests result((size_t(last) + 1) * choices.size(), {infinity, infinity});
  for (int choice = 0; choice < int(choices.size()); ++choice)
    result[indexOf(last, choice)] = {0, -infinity};
  std::vector<LeastOfRun> leasts;
  for (size_t first = 0, end = steps.size(); end > 0; end = first) {
    first = firstOfRun(end);
    addLeasts(leasts, first, end, pays, least, result);
    const BoundStep &step = steps[first];
    for (int from = firstBefore(step); from <= lastBefore(step); ++from) {
      const double receive = receiveOf(from, step);
      const LeastOfRun &of = leasts[lengthWithin(first, end, cell.high - receive)];
      const size_t index = indexOf(step.begin, from);
      BoundRest &rest = result[index];
      const double fill = of.rest.fill + each * (receive + gradientOf(from, step));
      const double forward = of.rest.forward + each * receive;
      if (fill < rest.fill) {
        rest.fill = fill;
        if (via)
          (*via)[index].fill = of.via.fill;
      }
      if (forward < rest.forward) {
        rest.forward = forward;
        if (via) {
          (*via)[index].forward = of.via.forward;
          (*via)[index].goesOn = of.via.goesOn;
        }
      }
    }
  }
  return result;
}

/// The bound of all paths, with the multipliers as they are.
double NeighbourBound::rootOf(const Rests &of) const {
  const BoundRest &rest = of[indexOf(0, 0)];
  const double least = std::max(rest.fill, rest.forward) * safety - refunded;
  return paysMoney ? least : least + (microBatches - 1) * cell.low * safety;
}

/// How far the least path exceeds each limit, relative.
std::vector<double> NeighbourBound::surplusOf(const Rests &of, const std::vector<Via> &via) const {
  const size_t types = multipliers.size() - 2;
  std::vector<double> surplus(multipliers.size(), -1);
  size_t index = indexOf(0, 0);
  bool isForward = of[index].forward > of[index].fill;
  double seconds = 0;
  for (int cut = 0, from = 0; cut + 1 < bounds.cutCount();) {
    const BoundStep &step = steps[size_t(isForward ? via[index].forward : via[index].fill)];
    for (size_t type = 0; type < std::min(mostTypes, types); ++type)
      if (available[type] > 0)
        surplus[type] += double(step.taken[type]) / available[type];
    if (std::isfinite(bounds.highestPrice()))
      surplus[types] += step.price / bounds.highestPrice();
    const bool goesOn = isForward && via[index].goesOn;
    seconds += receiveOf(from, step);
    if (goesOn)
      seconds += step.forward;
    else
      seconds += step.passes + (isForward ? step.sync : gradientOf(from, step));
    isForward = goesOn;
    cut = step.end;
    from = step.choice;
    index = indexOf(cut, from);
  }
  surplus.back() += seconds / secondsOfCell();
  return surplus;
}

bool NeighbourBound::isFree(size_t multiplier) const {
  const size_t types = multipliers.size() - 2;
  if (multiplier < types)
    return multiplier < mostTypes && available[multiplier] > 0;
  return multiplier == types ? std::isfinite(bounds.highestPrice()) : std::isfinite(cell.most);
}

/// A step of `length` over the square of the surplus; false if it leads nowhere.
bool NeighbourBound::advance(const std::vector<double> &surplus, double length,
                             std::vector<double> &now) const {
  double norm = 0;
  for (size_t i = 0; i < now.size(); ++i)
    if (isFree(i) && (now[i] > 0 || surplus[i] > 0))
      norm += surplus[i] * surplus[i];
  if (!(norm > 1e-18))
    return false;
  for (size_t i = 0; i < now.size(); ++i)
    if (isFree(i))
      now[i] = std::max(0.0, now[i] + length / norm * surplus[i]);
  return std::all_of(now.begin(), now.end(), [](double each) { return each < largest; });
}

size_t NeighbourBound::workOfRests() const {
  size_t runs = 0;
  for (size_t first = 0; first < steps.size(); first = endOfRun(first))
    ++runs;
  return steps.size() + runs * choices.size();
}

/// Polyak's steps towards the goal.
double NeighbourBound::improve(int most, size_t &work) {
  constexpr double beyond = 1.002, leastStride = 0.2;
  constexpr int patience = 3;
  std::vector<double> now = multipliers, best = multipliers;
  double bound = -infinity, stride = 1;
  int stalled = 0;
  for (int round = 0; round < most && stride > leastStride; ++round) {
    setMultipliers(now);
    std::vector<Via> via(size_t(bounds.cutCount()) * choices.size());
    const Rests rests = restsFor(true, cell.least, &via);
    work += workOfRests();
    const double value = rootOf(rests);
    if (value >= goal || !std::isfinite(value))
      return goal;
    stalled = value > bound + 1e-4 * goal ? 0 : stalled + 1;
    if (value > bound) {
      bound = value;
      best = now;
    }
    if (stalled >= patience) {
      stride /= 2;
      stalled = 0;
    }
    if (!advance(surplusOf(rests, via), stride * (goal * beyond - value), now))
      break;
  }
  setMultipliers(best);
  dropByNeighbours();
  return std::min(bound, goal);
}

/// The least of paths to the begin of `step`, by the stage before it.
void NeighbourBound::addArrivals(std::vector<Arrival> &arrivals, const BoundStep &step, double each,
                                 const Rests &before) const {
  arrivals.clear();
  for (int from = firstBefore(step); from <= lastBefore(step); ++from) {
    const BoundRest &to = before[indexOf(step.begin, from)];
    const double receive = receiveOf(from, step);
    if (std::isfinite(to.fill))
      arrivals.push_back(
          {receive,
           {to.fill + each * (receive + gradientOf(from, step)), to.forward + each * receive}});
  }
}

/// The least path through each stage: seconds, with payments or without.
std::vector<double> NeighbourBound::leastThrough(bool pays) const {
  const double each = pays ? second : 1;
  const Rests behind = restsFor(pays, cell.least);
  Rests before(behind.size(), {infinity, infinity});
  before[indexOf(0, 0)] = {0, 0};
  std::vector<double> result(steps.size(), infinity);
  std::vector<Arrival> arrivals;
  for (size_t first = 0, end = 0; first < steps.size(); first = end) {
    end = endOfRun(first);
    addArrivals(arrivals, steps[first], each, before);
    for (size_t i = first; i < end; ++i) {
      const BoundStep &step = steps[i];
      const BoundRest &after = behind[indexOf(step.end, step.choice)];
      BoundRest &here = before[indexOf(step.end, step.choice)];
      const double payment = pays ? own(step, cell.least) : 0;
      for (const Arrival &from : arrivals) {
        if (step.passes + from.receive > cell.high)
          continue;
        const double fill = payment + each * step.passes +
                            std::max(from.before.fill, from.before.forward + each * step.sync);
        const double forward = payment + each * step.forward + from.before.forward;
        here.fill = std::min(here.fill, fill);
        here.forward = std::min(here.forward, forward);
        result[i] = std::min(result[i], std::max(fill + after.fill, forward + after.forward));
      }
    }
  }
  return result;
}

void NeighbourBound::dropByNeighbours() {
  const std::vector<double> paying = leastThrough(true), timed = leastThrough(false);
  size_t kept = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double slowest = (microBatches - 1) * std::max(cell.low, steps[i].least) * safety;
    const double value = paying[i] * safety - refunded + (paysMoney ? 0 : slowest);
    const double seconds = timed[i] * safety + slowest;
    if (value < goal && seconds <= cell.most && (paysMoney || seconds < goal))
      steps[kept++] = steps[i];
  }
  steps.resize(kept);
}

} // namespace heterplan
