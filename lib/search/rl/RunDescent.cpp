#include "search/rl/RunDescent.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int64_t mostLookups = 400'000; // of one descent
constexpr int raises = 4;                // of the price of missing devices
constexpr double raise = 4, tolerance = 1e-9;
} // namespace

RunDescent::RunDescent(const RunTable &table, const Evaluator &evaluator)
    : table(table), evaluator(evaluator), merges(evaluator.rules.mergesNeighbours()),
      used(size_t(table.types)) {
  const Problem &problem = evaluator.problem;
  for (int type = 0; type < table.types; ++type) {
    const int all = evaluator.space.available[type];
    double price = problem.request.objective == Objective::Cost
                       ? problem.cluster.types[type].price.value()
                       : 1.0 / std::max(all, 1);
    prices.push_back(price);
    impossible += price * all;
  }
}

std::vector<Run> RunDescent::improve(Runs runs) {
  begin(runs);
  lackScale = 1;
  for (int i = 0; i < raises; ++i) {
    descend();
    if (isFeasible() || looked >= most)
      break;
    lackScale *= raise;
    pending.assign(current.size(), true);
  }
  return current;
}

void RunDescent::begin(Runs runs) {
  current.clear();
  for (const Run &run : runs)
    if (merges && !current.empty() && current.back().type == run.type)
      current.back().end = run.end;
    else
      current.push_back(run);
  pending.assign(current.size(), true);
  most = looked + mostLookups;
  std::fill(used.begin(), used.end(), 0);
  add(current, 1);
}

bool RunDescent::isFeasible() const {
  for (int type = 0; type < table.types; ++type)
    if (used[size_t(type)] > evaluator.space.available[type])
      return false;
  return all_of(current, [&](const Run &run) { return table.count(run.begin, run.end, run.type); });
}

/// First improvements, at the runs around which something has changed.
void RunDescent::descend() {
  for (bool improved = true; improved;) {
    improved = false;
    for (size_t i = 0; i < current.size() && looked < most; ++i) {
      if (!pending[i])
        continue;
      pending[i] = false;
      if (improvePair(i) || divide(i) || exchange(i))
        improved = true;
    }
  }
}

/// The run and the next one: their boundary elsewhere, and another type for either; one run where
/// the boundary is at the end.
bool RunDescent::improvePair(size_t index) {
  const Run first = current[index];
  const bool isLast = index + 1 == current.size();
  const Run second = isLast ? Run{first.end, first.end, first.type} : current[index + 1];
  const size_t end = isLast ? index + 1 : index + 2;
  for (int type = 0; type < table.types; ++type) {
    if (evaluator.space.available[type] == 0)
      continue;
    const int farthest = std::min(second.end, table.farthest(first.begin, type));
    for (int cut = first.begin + 1; cut <= farthest; ++cut) {
      if (isLast && cut < second.end)
        continue; // `divide` does that
      const Run left{first.begin, cut, type}, right{cut, second.end, second.type};
      if (tryInstead(index, end, cut < second.end ? Runs{left, right} : Runs{left}))
        return true;
    }
    for (int cut = first.begin + 1; !isLast && type != second.type && cut < second.end; ++cut) {
      if (table.farthest(cut, type) < second.end)
        continue;
      if (tryInstead(index, end, {Run{first.begin, cut, first.type}, Run{cut, second.end, type}}))
        return true;
    }
  }
  return false;
}

/// A part of the run, at its beginning or its end, on another type.
bool RunDescent::divide(size_t index) {
  const Run whole = current[index];
  if (int(current.size()) >= evaluator.space.maxStages)
    return false;
  for (int type = 0; type < table.types; ++type) {
    if (evaluator.space.available[type] == 0 || type == whole.type)
      continue;
    for (int cut = whole.begin + 1; cut < whole.end; ++cut) {
      const Run left{whole.begin, cut, whole.type}, right{cut, whole.end, whole.type};
      if (table.farthest(cut, type) >= whole.end &&
          tryInstead(index, index + 1, {left, Run{cut, whole.end, type}}))
        return true;
      if (table.farthest(whole.begin, type) >= cut &&
          tryInstead(index, index + 1, {Run{whole.begin, cut, type}, right}))
        return true;
    }
  }
  return false;
}

/// The run and a later one have each other's type.
bool RunDescent::exchange(size_t index) {
  for (size_t later = index + 1; later < current.size(); ++later) {
    if (current[index].type == current[later].type)
      continue;
    SmallVector<Run, 16> others(current.begin() + int64_t(index),
                                current.begin() + int64_t(later) + 1);
    std::swap(others.front().type, others.back().type);
    if (tryInstead(index, later + 1, others))
      return true;
  }
  return false;
}

/// Puts `others` in place of the runs [begin, end) if that is better. Neighbours on one type become
/// one run where the iteration model says so.
bool RunDescent::tryInstead(size_t begin, size_t end, Runs others) {
  SmallVector<Run, 16> fresh;
  if (merges && begin > 0 && current[begin - 1].type == others.front().type)
    fresh.push_back(current[--begin]);
  auto append = [&](const Run &run) {
    if (merges && !fresh.empty() && fresh.back().type == run.type)
      fresh.back().end = run.end;
    else
      fresh.push_back(run);
  };
  for (const Run &run : others)
    append(run);
  if (merges && end < current.size() && current[end].type == fresh.back().type)
    append(current[end++]);
  const int stages = int(current.size() - (end - begin) + fresh.size());
  if (stages > evaluator.space.maxStages || stages < evaluator.space.minStages)
    return false;
  const Runs old = Runs(current).slice(begin, end - begin);
  if (changeOf(old, fresh) >= -tolerance * impossible)
    return false;
  add(old, -1);
  add(fresh, 1);
  current.erase(current.begin() + int64_t(begin), current.begin() + int64_t(end));
  current.insert(current.begin() + int64_t(begin), fresh.begin(), fresh.end());
  pending.erase(pending.begin() + int64_t(begin), pending.begin() + int64_t(end));
  pending.insert(pending.begin() + int64_t(begin), fresh.size(), true);
  touch(begin, begin + fresh.size());
  return true;
}

/// The run in front of [begin, end) has another neighbour now.
void RunDescent::touch(size_t begin, size_t end) {
  if (begin > 0)
    pending[begin - 1] = true;
  if (end < pending.size())
    pending[end] = true;
}

/// The penalty for missing devices of `type`, beyond their price.
double RunDescent::lackOf(int type) const {
  const int all = evaluator.space.available[type];
  return lackScale * std::max(0, used[size_t(type)] - all) *
         (prices[size_t(type)] + table.multiplier(type));
}

double RunDescent::changeOf(Runs from, Runs to) {
  double change = 0;
  changed.clear();
  for (Runs runs : {from, to})
    for (const Run &run : runs)
      if (!is_contained(changed, run.type)) {
        changed.push_back(run.type);
        change -= lackOf(run.type);
      }
  for (auto [runs, sign] : {std::pair(from, -1), std::pair(to, 1)})
    for (const Run &run : runs) {
      const int count = table.count(run.begin, run.end, run.type);
      ++looked;
      change += sign * (count > 0 ? count * prices[size_t(run.type)] : impossible);
      used[size_t(run.type)] += sign * count;
    }
  for (int type : changed)
    change += lackOf(type);
  add(to, -1);
  add(from, 1);
  return change;
}

void RunDescent::add(Runs of, int sign) {
  for (const Run &run : of)
    used[size_t(run.type)] += sign * table.count(run.begin, run.end, run.type);
}

} // namespace heterplan
