#include "search/rl/RunTable.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

double RunTable::infinity() { return std::numeric_limits<double>::infinity(); }

RunTable::RunTable(Evaluator &evaluator, const AssignmentSpace &assignments, Start start)
    : start(start), blocks(assignments.blocks), types(assignments.types), evaluator(evaluator),
      assignments(assignments), costMatters(evaluator.problem.request.objective == Objective::Cost),
      merges(evaluator.rules.mergesNeighbours()),
      countsTimes(!costMatters && !evaluator.rules.slowestDecides()),
      microBatches(evaluator.space.microBatches[size_t(start.choice)]),
      firsts(size_t(blocks) * size_t(types)), ends(firsts.size()), cheapestEnds(firsts.size()),
      weights(size_t(types)), multipliers(size_t(types)) {
  if (costMatters && !evaluator.stages.costs.fit())
    countDeviceSeconds();
  for (int type = 0; type < types; ++type)
    fill(type);
  boundPayments();
  setMultipliers();
}

/// A device that holds a run holds the parts of it, but for what they receive; so do more devices.
/// Runs are therefore taken to be held up to the longest one that a single device holds. If that is
/// wrong, a mask is too weak, and sizing finds out.
void RunTable::fill(int type) {
  Held held;
  for (int begin = 0; begin < blocks; ++begin) {
    ends[pairIndex(begin, type)] = begin;
    firsts[pairIndex(begin, type)] = entries.size();
    held = {std::max(held.end, begin), false};
    if (evaluator.space.available[type] > 0)
      fill(begin, type, held);
  }
}

/// Whether one device holds the run, by runs that were asked for before.
bool RunTable::isHeld(const Run &run, Held &held) const {
  const std::vector<int> &at = evaluator.space.positions;
  while (held.end < run.end && !held.isLongest)
    if (evaluator.stages.holds({at[run.begin], at[held.end + 1]}, run.type, 1, microBatches, 1))
      ++held.end;
    else
      held.isLongest = true;
  return run.end <= held.end;
}

/// Counts of the runs that begin at `begin`. Memory is only looked at where time allows a run.
/// Once the time of layers alone exceeds the limit on all devices, longer runs exceed it too.
void RunTable::fill(int begin, int type, Held &held) {
  const std::vector<int> &at = evaluator.space.positions;
  const HeterPsModel *fit = evaluator.stages.costs.fit();
  int most = evaluator.space.available[type];
  const size_t first = entries.size();
  int &last = ends[pairIndex(begin, type)];
  for (int end = begin + 1; end <= blocks; ++end) {
    if (!assignments.allowed(end - 1, type))
      break;
    entries.emplace_back();
    if (countsTimes)
      timed.emplace_back();
    bool whole = begin == 0 && end == blocks;
    if (whole ? evaluator.space.minStages > 1 : evaluator.space.maxStages < 2)
      continue;
    const LayerRange range{at[begin], at[end]};
    int needed = evaluator.stages.leastCount(range, type, start.limit, microBatches, 0);
    if (needed > 0 && !isHeld({begin, end, type}, held))
      needed = evaluator.stages.leastCount(range, type, start.limit, microBatches, 1);
    if (needed > 0) // sizings may still find that none holds the stage
      last = end;
    else if (fit && fit->leastTime(at[begin], at[end], type, most) > start.limit)
      break;
    Entry &entry = entries.back();
    entry.count = needed;
    if (needed > 0 && costMatters)
      entry.paid = float(paymentOf({begin, end, type}));
    if (needed > 0 && countsTimes)
      listSizings({begin, end, type}, entry, timed.back());
  }
  entries.resize(first + size_t(last - begin));
  if (countsTimes)
    timed.resize(entries.size());
}

/// Doubles the fewest devices up to all of them.
void RunTable::listSizings(const Run &run, Entry &entry, TimedEntry &of) {
  const std::vector<int> &at = evaluator.space.positions;
  int most = static_cast<int>(std::min<int64_t>(evaluator.space.available[run.type],
                                                evaluator.stages.fullSize(microBatches)));
  of.firstSizing = sizings.size();
  for (int count = entry.count;; count = std::min(2 * count, most)) {
    StageEvaluation stage =
        evaluator.stages.evaluate({at[run.begin], at[run.end]}, DeviceGroup{{{run.type, count}}},
                                  microBatches, {run.end == blocks, /*inFlight=*/1});
    if (stage.fits)
      sizings.push_back({count, (stage.cost.forward + stage.cost.backward).value() +
                                    stage.cost.synchronization.value() / 2});
    if (count >= most)
      break;
  }
  of.sizings = sizings.size() - of.firstSizing;
  if (of.sizings == 0)
    entry.count = 0;
}

/// Chooses the number of devices of a run by its cost.
void RunTable::choose(TimedEntry &entry, int type) const {
  entry.cost = infinity();
  for (size_t i = 0; i < entry.sizings; ++i) {
    const Sizing &sizing = sizings[entry.firstSizing + i];
    double cost = sizing.seconds + weight(type) * sizing.count;
    if (cost >= entry.cost)
      continue;
    entry.cost = cost;
    entry.chosen = sizing.count;
  }
}

/// Dynamic programming from the back.
void RunTable::solve() {
  least.assign(size_t(blocks) + 1, {infinity(), infinity()});
  least.back() = {0, 0};
  for (int type = 0; type < types && countsTimes; ++type)
    for (size_t i = firsts[pairIndex(0, type)], last = endOf(type); i < last; ++i)
      choose(timed[i], type);
  std::vector<double> behind(size_t(types) * size_t(blocks + 1), 0); // toGo by type and end
  for (int begin = blocks - 1; begin >= 0; --begin) {
    for (int type = 0; type < types; ++type) {
      const double *after = &behind[size_t(type) * size_t(blocks + 1)];
      double fewest = infinity();
      int &best = cheapestEnds[pairIndex(begin, type)] = begin;
      const size_t first = firsts[pairIndex(begin, type)];
      const double each = weight(type);
      for (int end = begin + 1, last = farthest(begin, type); end <= last; ++end) {
        const size_t i = first + size_t(end - begin - 1);
        const double own = countsTimes ? timed[i].cost : each * entries[i].count;
        const double cost = own + after[end];
        if (cost < fewest && entries[i].count > 0) {
          fewest = cost;
          best = end;
        }
      }
      Least &all = least[size_t(begin)];
      if (fewest < all.weight)
        all = {fewest, all.weight, type};
      else
        all.otherwise = std::min(all.otherwise, fewest);
    }
    for (int type = 0; type < types; ++type)
      behind[size_t(type) * size_t(blocks + 1) + size_t(begin)] = toGo(begin, type);
  }
}

/// Devices of each type that the cheapest runs need.
std::vector<int> RunTable::use() const {
  std::vector<int> used(size_t(types), 0);
  for (int begin = 0, before = -1; begin < blocks;) {
    Run run{begin, begin, before};
    double fewest = infinity();
    for (int type = 0; type < types; ++type) {
      Run next = cheapest(begin, type);
      if (next.end == begin || (merges && type == before) || weightThrough(next) >= fewest)
        continue;
      fewest = weightThrough(next);
      run = next;
    }
    if (run.end == begin)
      break;
    size_t index = indexOf(run.begin, run.end, run.type);
    used[size_t(run.type)] += countsTimes ? timed[index].chosen : entries[index].count;
    begin = run.end;
    before = run.type;
  }
  return used;
}

/// Subgradient ascent of the Lagrangian dual, which ends with the multipliers of its best bound.
/// All weights are multipliers if money does not matter.
void RunTable::setMultipliers() {
  constexpr int mostSteps = 60;
  constexpr size_t mostWork = 12'000'000; // entries looked at
  const SearchSpace &space = evaluator.space;
  std::vector<double> prices(size_t(types), 0.0);
  for (int type = 0; type < types; ++type)
    if (costMatters)
      prices[size_t(type)] = evaluator.problem.cluster.types[type].price.value();
    else if (space.available[type] > 0 && !countsTimes)
      multipliers[size_t(type)] = 1.0 / space.available[type];
  auto weigh = [&](double floor) {
    for (int type = 0; type < types; ++type)
      weights[size_t(type)] = std::max(prices[size_t(type)] + multipliers[size_t(type)], floor);
    solve();
  };
  weigh(0);
  const double scale = toGo(0);
  const int steps =
      int(std::clamp<size_t>(mostWork / std::max<size_t>(entries.size(), 1), 4, mostSteps));
  std::vector<double> best = multipliers;
  double bestBound = -infinity();
  for (int step = 0; step < steps && isFeasible() && scale > 0; ++step) {
    std::vector<int> used = use();
    double bound = toGo(0), norm = 0;
    bool suffices = true;
    std::vector<double> surplus(size_t(types), 0.0); // over what there is
    for (int type = 0; type < types; ++type) {
      if (space.available[type] == 0)
        continue;
      bound -= multipliers[size_t(type)] * space.available[type];
      surplus[size_t(type)] = double(used[size_t(type)]) / space.available[type] - 1;
      suffices &= surplus[size_t(type)] <= 0;
      if (surplus[size_t(type)] > 0 || multipliers[size_t(type)] > 0)
        norm += surplus[size_t(type)] * surplus[size_t(type)];
    }
    if (bound > bestBound) {
      bestBound = bound;
      best = multipliers;
    }
    if (norm == 0 || (suffices && step == 0 && costMatters))
      break;
    double length = 0.3 * scale / (1 + 0.3 * step) / std::sqrt(norm);
    for (int type = 0; type < types; ++type)
      if (space.available[type] > 0)
        multipliers[size_t(type)] =
            std::max(0.0, multipliers[size_t(type)] +
                              length * surplus[size_t(type)] / space.available[type]);
    weigh(1e-9 * scale);
  }
  multipliers = std::move(best);
  weigh(scale > 0 && scale < infinity() ? 1e-9 * scale : 0);
}

/// Each layer pays at least its device-seconds at the count that takes fewest.
void RunTable::countDeviceSeconds() {
  const SearchSpace &space = evaluator.space;
  deviceSeconds.assign(size_t(types), std::vector<double>(size_t(blocks) + 1, 0));
  int64_t batch = evaluator.stages.fullSize(microBatches);
  for (int type = 0; type < types; ++type)
    for (int block = 0; block < blocks; ++block) {
      LayerRange range{space.positions[block], space.positions[block + 1]};
      double fewest = space.available[type] > 0 ? infinity() : 0;
      for (int count = 1; count <= std::min<int64_t>(space.available[type], batch); ++count)
        fewest = std::min(fewest, count * evaluator.stages.costs
                                              .computing(range, {}, type,
                                                         (batch + count - 1) / count, microBatches)
                                              .value());
      std::vector<double> &before = deviceSeconds[size_t(type)];
      before[size_t(block) + 1] = before[size_t(block)] + fewest;
    }
}

/// Under fitted costs k devices with serial + parallel/k ≤ E pay k·E ≥ parallel·E/(E − serial),
/// which is least at the limit. Elsewhere an iteration takes at least as long as all micro-batches
/// of one stage.
double RunTable::paymentOf(const Run &run) const {
  const std::vector<int> &at = evaluator.space.positions;
  double price = evaluator.problem.cluster.types[run.type].price.value() * microBatches;
  if (const HeterPsModel *fit = evaluator.stages.costs.fit())
    return price * start.limit *
           fit->realUnitsFor(at[run.begin], at[run.end], run.type, start.limit);
  const std::vector<double> &seconds = deviceSeconds[size_t(run.type)];
  return price * (seconds[size_t(run.end)] - seconds[size_t(run.begin)]);
}

void RunTable::boundPayments() {
  leastPaidFrom.assign(size_t(blocks) + 1, 0);
  if (!costMatters)
    return;
  for (int begin = blocks - 1; begin >= 0; --begin) {
    double fewest = infinity();
    for (int type = 0; type < types; ++type) {
      const size_t first = firsts[pairIndex(begin, type)];
      for (int end = begin + 1; end <= farthest(begin, type); ++end)
        if (const Entry &entry = entries[first + size_t(end - begin - 1)]; entry.count > 0)
          fewest = std::min(fewest, double(entry.paid) + leastPaidBehind(end));
    }
    leastPaidFrom[size_t(begin)] = fewest;
  }
}

} // namespace heterplan
