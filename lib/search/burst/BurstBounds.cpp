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
          moving = weighted(move.forward + move.backward, table.width(after) * move.forward +
                                                              table.width(before) * move.backward);
        }
        double &entry = next[place(end, after)];
        entry = std::min(entry, sum + moving);
      }
    }
  }
}

/// Of stages of which the last one ends at `end` and has `width`.
double Completions::leastEnding(const BurstTable &table, int end, int width) const {
  double result = infinity;
  for (int begin = end; begin-- > 0;) {
    const BurstRun &run = table.run(begin, end, width);
    if (run.time < 0)
      break; // nor are longer ones allowed
    double exposed = begin == 0 ? run.sum : 0;
    result = std::min(result,
                      next[place(begin, width)] +
                          weighted(run.time + exposed, table.width(width) * (run.time + run.sum)));
  }
  return result;
}

/// Of stages and, behind them, branches side by side that end at `end`.
double Completions::leastOfBranches(const BranchTable &branches, int end) const {
  double result = infinity;
  for (size_t i = 0; i < branches.blocks().size(); ++i) {
    const BranchBlock &block = branches.blocks()[i];
    if (block.end != end)
      continue;
    auto before = own.begin() + ptrdiff_t(place(block.begin, 0));
    double least = *std::min_element(before, before + widths);
    for (const LaneChoice &choice : branches.choices(int(i)))
      result = std::min(result, least + weighted(choice.leastTime, choice.leastDeviceTime));
  }
  return result;
}

BurstBounds::BurstBounds(const BurstTable &table, const BranchTable *branches,
                         const BurstGoal &goal) {
  double longest = goal.longest.value() * (1 + rounding);
  sums.emplace_back(table, branches, BurstWeights{1, 0});
  least = sums.front().whole();
  if (least > longest) {
    least = infinity;
    return;
  }
  if (!goal.deviceTime)
    return;
  sums.emplace_back(table, branches, BurstWeights{0, 1});
  best = 1;
  least = sums.back().whole();
  if (longest < infinity)
    addLagrangian(table, branches, longest);
}

/// The bound is concave in what a second of the iteration weighs: by steps on either side of the
/// best so far, finer each time.
void BurstBounds::addLagrangian(const BurstTable &table, const BranchTable *branches,
                                double longest) {
  constexpr double mostWeight = 1 << 14, leastWeight = 1.0 / 16, finest = 1.02;
  auto add = [&](double weight) {
    sums.emplace_back(table, branches, BurstWeights{weight, 1});
    double bound = sums.back().whole() - weight * longest;
    if (bound <= least)
      return;
    least = bound;
    best = sums.size() - 1;
  };
  for (double weight = leastWeight; weight <= mostWeight; weight *= 4)
    add(weight);
  for (double step = 2; best > 1 && step > finest; step = std::sqrt(step)) {
    double middle = sums[best].weights.time;
    add(middle * step);
    add(middle / step);
  }
}

bool BurstBounds::allow(double time, double deviceTime, int cut, int width, bool isOwn,
                        BurstLimits limits) const {
  return all_of(sums, [&](const Completions &sum) {
    double before = isOwn ? sum.within(cut, width) : sum.upTo(cut, width);
    return before + sum.weighted(time, deviceTime) <= sum.most(limits);
  });
}

} // namespace heterplan
