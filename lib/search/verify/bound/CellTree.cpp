#include "search/verify/bound/CellTree.h"

#include "search/verify/bound/StateBound.h"

#include <algorithm>
#include <tuple>

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
// Parts of an iteration: cells that a few steps are enough for, and those worth halving.
constexpr double wide = 0.03, worthHalving = 4e-3;
// Parts of the goal: bounds from which on states are worth their work, also in narrow cells.
constexpr double near = 0.985, farthest = 0.8;
constexpr int fewSteps = 8, manySteps = 20;
constexpr size_t fewStates = 256, manyStates = 2048;
} // namespace

CellTree::CellTree(const StageBounds &bounds, const StageList &list, const BoundTarget &target,
                   std::vector<RootCell> &roots, double goal)
    : bounds(bounds), list(list), target(target), roots(roots), goal(goal), stuck(infinity) {
  for (size_t root = 0; root < roots.size(); ++root)
    if (roots[root].bound < goal)
      push({roots[root].bound, roots[root].cell, nullptr, root, 0});
}

bool CellTree::isBehind(const Open &a, const Open &b) {
  return std::tie(a.bound, a.order) > std::tie(b.bound, b.order);
}

void CellTree::push(Open &&cell) {
  cell.order = pushed++;
  open.push_back(std::move(cell));
  std::push_heap(open.begin(), open.end(), isBehind);
}

double CellTree::bound() const {
  const double least = std::min(goal, stuck);
  return open.empty() ? least : std::min(least, open.front().bound);
}

size_t CellTree::improve(size_t most) {
  size_t work = 0;
  while (isOpen() && work < most) {
    std::pop_heap(open.begin(), open.end(), isBehind);
    Open next = std::move(open.back());
    open.pop_back();
    treat(std::move(next), most, work);
  }
  return work;
}

void CellTree::treat(Open cell, size_t most, size_t &work) {
  RootCell &root = roots[cell.root];
  auto paths = cell.whole ? std::make_shared<NeighbourBound>(*cell.whole, cell.cell)
                          : std::make_shared<NeighbourBound>(bounds, list, target.paysMoney,
                                                             cell.cell, root.multipliers, goal);
  const CellHalves halves(cell.cell, list, target);
  const bool isNarrow = !(halves.widest() > worthHalving);
  const int steps = halves.widest() > wide ? fewSteps : manySteps;
  cell.bound = std::max(cell.bound, paths->improve(steps, work));
  if (!cell.whole)
    root.multipliers = paths->ofMultipliers();
  cell.bound = std::max(cell.bound, byStates(*paths, cell.bound, isNarrow, most, work));
  if (cell.bound >= goal)
    return;
  if (!isNarrow)
    halve(cell, halves, paths);
  else if (work < most)
    stuck = std::min(stuck, cell.bound);
  else
    push(std::move(cell)); // states may improve it with more work
}

void CellTree::halve(const Open &cell, const CellHalves &halves,
                     const std::shared_ptr<const NeighbourBound> &paths) {
  BoundCell lower = cell.cell, upper = cell.cell;
  if (halves.byTime > halves.bySlowest)
    lower.most = upper.least = halves.time;
  else
    lower.high = upper.low = halves.slowest;
  for (BoundCell part : {lower, upper}) {
    part = tightened(part, list);
    if (!isBeyond(part, list, target))
      push({cell.bound, part, paths, cell.root, 0});
  }
}

/// States cost more than halving the cell: they are worth it near the goal, or in the end.
double CellTree::byStates(const NeighbourBound &paths, double least, bool isNarrow, size_t most,
                          size_t &work) const {
  if (least >= goal || least < goal * (isNarrow ? farthest : near))
    return least;
  const StateBound states(paths);
  least = std::max(least, states.value(fewStates, most, work));
  if (least < goal && isNarrow)
    least = std::max(least, states.value(manyStates, most, work));
  return least;
}

} // namespace heterplan
