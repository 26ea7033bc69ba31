#include "search/burst/BurstBounds.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-9;
} // namespace

Completions::Completions(const BurstTable &table, const BranchTable *branches, BurstWeights weights)
    : weights(weights), widths(table.widths()),
      next(size_t(table.cuts() + 1) * size_t(widths), infinity), own(next.size(), infinity) {
  std::fill_n(next.begin(), widths, 0);
  for (int end = 1; end <= table.cuts(); ++end) {
    double beside = branches ? leastOfBranches(*branches, end) : infinity;
    std::fill_n(next.begin() + ptrdiff_t(place(end, 0)), widths, beside);
    for (int before = 0; before < widths; ++before) {
      double sum = own[place(end, before)] = leastEnding(table, end, before);
      for (int after = 0; after < widths; ++after) {
        double moving = 0;
        if (end < table.cuts()) { // behind the end the width does not matter
          const BurstMove &move = table.move(end, before, after);
          if (before == after || move.forward < 0)
            continue;
          moving = weighted(table.sumsOf(move, before, after));
        }
        double &entry = next[place(end, after)];
        entry = std::min(entry, sum + moving);
      }
    }
  }
}

/// A bound for stages whose last one ends at `end` and has `width`.
double Completions::leastEnding(const BurstTable &table, int end, int width) const {
  double result = infinity;
  for (int begin = end; begin-- > 0;) {
    const BurstRun &run = table.run(begin, end, width);
    if (run.time < 0)
      break; // nor are longer ones allowed
    double exposed = begin == 0 ? weights.time * (1 - weights.open) * run.sum : 0;
    double added = weighted(table.sumsOf(run, width));
    result = std::min(result, next[place(begin, width)] + added + exposed);
  }
  return result;
}

/// A bound for stages followed by branches side by side that end at `end`.
double Completions::leastOfBranches(const BranchTable &branches, int end) const {
  double result = infinity;
  for (size_t i = 0; i < branches.blocks().size(); ++i) {
    const BranchBlock &block = branches.blocks()[i];
    if (block.end != end)
      continue;
    auto before = own.begin() + ptrdiff_t(place(block.begin, 0));
    double least = *std::min_element(before, before + widths);
    for (const LaneChoice &choice : branches.choices(int(i)))
      result = std::min(result, least + weighted(choice.least));
  }
  return result;
}

BurstBounds::BurstBounds(const BurstTable &table, const BranchTable *branches,
                         const BurstGoal &goal)
    : table(table), branches(branches) {
  findLeast(goal);
  std::swap(sums.front(), sums[best]); // it decides most often
  best = 0;
  for (int block = 0; branches && block < int(branches->blocks().size()); ++block)
    rankLanes(block);
}

void BurstBounds::findLeast(const BurstGoal &goal) {
  double longest = goal.longest.value() * (1 + rounding);
  for (double open : {0.0, 0.25, 0.5, 0.75, 1.0})
    add({1, 0, open}, longest);
  if (least > longest)
    least = infinity;
  if (!goal.deviceTime || least > longest)
    return;
  least = 0;
  add({0, 1, 0}, longest);
  if (longest < infinity)
    addLagrangian(longest);
}

void BurstBounds::rankLanes(int block) {
  std::vector<RankedLanes> &order = orders.emplace_back();
  const std::vector<LaneChoice> &choices = branches->choices(block);
  order.reserve(choices.size());
  for (int i = 0; i < int(choices.size()); ++i)
    order.push_back({i, sums[best].weighted(choices[i].least)});
  stable_sort(order, [](const RankedLanes &a, const RankedLanes &b) { return a.least < b.least; });
}

/// Whether the bound by these weights on what is to be least is higher than those before.
bool BurstBounds::add(BurstWeights weights, double longest) {
  sums.emplace_back(table, branches, weights);
  double bound = sums.back().whole();
  if (weights.deviceTime > 0 && weights.time > 0)
    bound -= weights.time * longest;
  if (bound <= least)
    return false;
  least = bound;
  best = sums.size() - 1;
  return true;
}

/// The bound is concave in what a second of the iteration weighs, and of what is open: by steps on
/// either side of the best so far, finer each time.
void BurstBounds::addLagrangian(double longest) {
  constexpr double mostWeight = 1 << 14, leastWeight = 1.0 / 16, finest = 1.02;
  for (double weight = leastWeight; weight <= mostWeight; weight *= 4)
    for (double open : {0.0, 0.5, 1.0})
      add({weight, 1, open}, longest);
  double part = 0.25;
  for (double step = 2; sums[best].weights.time > 0 && step > finest; step = std::sqrt(step)) {
    BurstWeights middle = sums[best].weights;
    add({middle.time * step, 1, middle.open}, longest);
    add({middle.time / step, 1, middle.open}, longest);
    middle = sums[best].weights;
    add({middle.time, 1, std::min(1.0, middle.open + part)}, longest);
    add({middle.time, 1, std::max(0.0, middle.open - part)}, longest);
    part /= 2;
  }
}

bool BurstBounds::allow(const BurstSums &behind, int cut, int width, bool isOwn,
                        BurstLimits limits) const {
  return all_of(sums, [&](const Completions &sum) {
    double before = isOwn ? sum.within(cut, width) : sum.upTo(cut, width);
    return before + sum.weighted(behind) <= sum.most(limits);
  });
}

} // namespace heterplan
