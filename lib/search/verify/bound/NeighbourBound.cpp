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
}

NeighbourBound::NeighbourBound(const NeighbourBound &whole, const BoundCell &part)
    : NeighbourBound(whole) {
  cell = part;
  looked = 0;
  knowsNeighbours = true;
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
std::vector<BoundRest> NeighbourBound::restsByCut() const {
  std::vector<BoundRest> result(size_t(bounds.cutCount()), {infinity, infinity});
  result.back() = {0, -infinity};
  for (const BoundStep &step : reverse(steps)) {
    const BoundRest &after = result[size_t(step.end)];
    const double payment = own(step, cell.least);
    BoundRest &rest = result[size_t(step.begin)];
    rest.fill = std::min(rest.fill, payment + second * step.least + after.fill);
    rest.forward =
        std::min(rest.forward, payment + std::max(second * (step.sync + step.least) + after.fill,
                                                  second * step.forward + after.forward));
  }
  return result;
}

/// Drops stages without a look at their neighbours, which is quick.
void NeighbourBound::dropByCuts() {
  const std::vector<BoundRest> behind = restsByCut();
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
  std::vector<double> parts{0};
  for (size_t i = 1; i < choices.size(); ++i)
    parts.push_back(bounds.partOfNode(list.choices[size_t(choices[i])]));
  neighbours->runs = std::make_unique<NodeRuns>(parts, bounds.unitsOfNode());
  neighbours->links.resize(choices.size() * choices.size());
  neighbours->covers.resize(choices.size() * choices.size());
  neighbours->covers[0] = true;
  neighbours->meets.resize(choices.size());
  for (size_t i = 1; i < choices.size(); ++i)
    for (size_t j = 1; j < choices.size(); ++j) {
      const DeviceChoice &a = list.choices[size_t(choices[i])];
      const DeviceChoice &b = list.choices[size_t(choices[j])];
      const size_t index = i * choices.size() + j;
      neighbours->links[index] = bounds.between(b, a);
      if (neighbours->links[index].mayMeet)
        neighbours->meets[i] = neighbours->meets[j] = true;
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

/// The bound of all paths, with the multipliers as they are.
double NeighbourBound::rootOf(const Rests &of) const {
  const BoundRest &rest = of[indexOf(0, 0)];
  const double least = std::max(rest.fill, rest.forward) * safety - refunded;
  return paysMoney ? least : least + (microBatches - 1) * cell.low * safety;
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

double NeighbourBound::improve(int most, size_t &work) {
  const double bound = ascend(most);
  work += looked;
  looked = 0;
  return bound;
}

/// Polyak's steps towards the goal. A few of them often reach it; only then are stages dropped by
/// their neighbours, which takes as long as several steps.
double NeighbourBound::ascend(int most) {
  constexpr double beyond = 1.002, leastStride = 0.2;
  constexpr int patience = 3, stepsAlone = 3;
  std::vector<double> now = multipliers, best = multipliers;
  double bound = -infinity, stride = 1;
  int stalled = 0;
  for (int round = 0; round < most && stride > leastStride; ++round) {
    setMultipliers(now);
    std::vector<Via> via(indexOf(bounds.cutCount(), 0));
    const Rests rests = restsFor(true, cell.least, &via);
    looked += workOfRests();
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
    const std::vector<double> surplus = surplusOf(rests, via);
    if (!knowsNeighbours && round + 1 == stepsAlone) {
      setMultipliers(best);
      dropByNeighbours();
    }
    if (!advance(surplus, stride * (goal * beyond - value), now))
      break;
  }
  setMultipliers(best);
  dropByNeighbours();
  return std::min(bound, goal);
}

/// Drops stages by the least path through each of them.
void NeighbourBound::dropByNeighbours() {
  looked += 2 * workOfRests();
  knowsNeighbours = true;
  const std::vector<double> through = leastThrough();
  size_t kept = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double slowest = (microBatches - 1) * std::max(cell.low, steps[i].least) * safety;
    if (through[i] * safety - refunded + (paysMoney ? 0 : slowest) < goal)
      steps[kept++] = steps[i];
  }
  steps.resize(kept);
}

} // namespace heterplan
