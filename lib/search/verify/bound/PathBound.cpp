#include "search/verify/bound/PathBound.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double safety = 1 - 1e-10; // of sums of doubles
} // namespace

PathBound::PathBound(const StageBounds &bounds, const StageList &list, bool paysMoney)
    : bounds(bounds), list(list), paysMoney(paysMoney),
      resources(bounds.ofCluster().types.size() + 1) {
  for (size_t choice = 0; choice < list.choices.size(); ++choice) {
    const DeviceChoice &of = list.choices[choice];
    shares.resize(shares.size() + resources - 1, 0);
    for (auto [type, slots] : of.slots)
      shares[choice * resources + size_t(type)] = double(slots) / bounds.available(type);
    shares.push_back(
        std::isfinite(bounds.highestPrice()) ? list.prices[choice] / bounds.highestPrice() : 0);
  }
}

bool PathBound::isLimited(size_t multiplier, const BoundCell &cell) const {
  if (multiplier == resources)
    return std::isfinite(cell.most);
  if (multiplier + 1 == resources)
    return std::isfinite(bounds.highestPrice());
  return bounds.available(int(multiplier)) > 0;
}

/// The seconds that Σ τ and exposed synchronisation may take.
double PathBound::secondsOf(const BoundCell &cell) const {
  return cell.most - (list.microBatches - 1) * cell.low;
}

/// The payment of a stage beside its seconds. A stage is paid for a whole iteration, which
/// takes at least m·τ and its synchronisation.
double PathBound::own(const StageBound &stage, const BoundCell &cell) const {
  double result = charges[size_t(stage.choice)];
  if (paysMoney)
    result += list.prices[size_t(stage.choice)] *
              std::max(cell.least, list.microBatches * stage.time + stage.sync);
  return result;
}

/// Least values of the layers before each cut. `fill` counts Σ τ with exposed synchronisation, and
/// `forward` counts forward passes: the synchronisation of a later stage begins after them.
void PathBound::reach(const BoundCell &cell, const std::vector<double> &multipliers) {
  const int cuts = bounds.cutCount();
  const double second = (paysMoney ? 0 : 1) +
                        (multipliers[resources] > 0 ? multipliers[resources] / secondsOf(cell) : 0);
  charges.assign(list.choices.size(), 0);
  for (size_t choice = 0; choice < charges.size(); ++choice)
    for (size_t resource = 0; resource < resources; ++resource)
      charges[choice] += multipliers[resource] * shares[choice * resources + resource];
  fill.assign(size_t(cuts), {infinity});
  forward.assign(size_t(cuts), {infinity});
  fill[0].least = forward[0].least = 0;
  for (size_t i = 0; i < list.stages.size(); ++i) {
    const StageBound &stage = list.stages[i];
    if (stage.time > cell.high || list.microBatches * stage.time > cell.most)
      continue;
    const double paid = own(stage, cell);
    const Reached &before = fill[size_t(stage.begin)], &passed = forward[size_t(stage.begin)];
    const double late = passed.least + second * stage.sync;
    const bool isForward = late > before.least;
    const double full = paid + second * stage.time + (isForward ? late : before.least);
    if (full < fill[size_t(stage.end)].least)
      fill[size_t(stage.end)] = {full, int(i), isForward};
    const double ahead = paid + second * stage.forward + passed.least;
    if (ahead < forward[size_t(stage.end)].least)
      forward[size_t(stage.end)] = {ahead, int(i), true};
  }
}

std::vector<double> PathBound::surplusOf(const BoundCell &cell) const {
  std::vector<double> surplus(resources + 1, -1);
  bool isForward = false;
  for (int cut = bounds.cutCount() - 1; cut > 0;) {
    const Reached &reached = (isForward ? forward : fill)[size_t(cut)];
    const StageBound &stage = list.stages[size_t(reached.stage)];
    for (size_t resource = 0; resource < resources; ++resource)
      surplus[resource] += shares[size_t(stage.choice) * resources + resource];
    double seconds = isForward ? stage.forward : stage.time;
    if (!isForward && reached.isForward)
      seconds += stage.sync;
    surplus[resources] += seconds / secondsOf(cell);
    isForward = reached.isForward;
    cut = stage.begin;
  }
  return surplus;
}

double PathBound::value(const BoundCell &cell, const std::vector<double> &multipliers) {
  if (!(secondsOf(cell) > 0))
    return infinity;
  reach(cell, multipliers);
  const double least = fill.back().least;
  if (!std::isfinite(least))
    return infinity;
  const double paid = std::accumulate(multipliers.begin(), multipliers.end(), 0.0);
  const double value = least * safety - paid / safety;
  return paysMoney ? value : value + (list.microBatches - 1) * cell.low * safety;
}

PathValue PathBound::solve(const BoundCell &cell, const std::vector<double> &multipliers) {
  PathValue result{value(cell, multipliers), {}};
  if (std::isfinite(result.bound))
    result.surplus = surplusOf(cell);
  return result;
}

double PathBound::leastSlowest() const {
  std::vector<double> least(size_t(bounds.cutCount()), infinity);
  least[0] = 0;
  for (const StageBound &stage : list.stages)
    least[size_t(stage.end)] =
        std::min(least[size_t(stage.end)], std::max(least[size_t(stage.begin)], stage.time));
  return std::max(list.slowest, least.back());
}

} // namespace heterplan
