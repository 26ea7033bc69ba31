// The cases of the exact search: the numbers of micro-batches that it examines, and how tight their
// bounds are.
#include "search/exact/LabelSearch.h"

#include "search/placement/SearchBudget.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

/// Prices the stages for a number of micro-batches.
Bounds &LabelSearch::addCase(int choice) {
  StageLimits limits;
  limits.isOver = [&] { return SearchBudget(options).interrupted(); };
  if (options.uses(Method::BoundedTable)) {
    limits.iteration = timeLimit();
    limits.paid = Bounds::paidFor(evaluator.problem.request, ofInterest());
    limits.before =
        CountBounds(evaluator, /*wholeModelGroups=*/false).timesBefore(space.microBatches[choice]);
  }
  cases[choice] =
      std::make_unique<MicroBatchCase>(evaluator, space.microBatches[choice], limits, ascents);
  labels.setChoice(choice, cases[choice]->table);
  return cases[choice]->bounds;
}

/// Opens a case and returns whether its bound can beat the incumbent.
bool LabelSearch::openCase(int choice) {
  Bounds &bounds = addCase(choice);
  if (SearchBudget(options).interrupted()) { // not all of its stages are there
    cases[choice].reset();
    return false;
  }
  if (coarser && options.uses(Method::WarmStart))
    bounds.startFrom(coarser->multipliersOf(choice), 1);
  else if (int near = nearestKnown(choice); near >= 0 && options.uses(Method::WarmStart))
    bounds.startFrom(multipliersOf(near),
                     double(space.microBatches[near]) / space.microBatches[choice]);
  return keepCase(choice);
}

/// The number of micro-batches nearest to this one whose multipliers are known; −1: none.
int LabelSearch::nearestKnown(int choice) const {
  int nearest = -1;
  double least = infinity;
  for (int other = 0; other < int(cases.size()); ++other) {
    const double ratio = double(space.microBatches[other]) / space.microBatches[choice];
    if (other != choice && std::abs(std::log(ratio)) < least && !multipliersOf(other).empty()) {
      least = std::abs(std::log(ratio));
      nearest = other;
    }
  }
  return nearest;
}

/// Whether placements with so many micro-batches may beat the best plan, by bounds that are as
/// tight as that plan and the clock allow.
bool LabelSearch::keepCase(int choice) {
  Bounds &bounds = cases[choice]->bounds;
  std::optional<double> &tightFor = cases[choice]->tightFor;
  const bool mayBeTighter = !tightFor || (*tightFor > ofInterest() && bounds.root() < ofInterest());
  if (mayBeTighter && !SearchBudget(options).interrupted()) {
    bounds.tighten(timeLimit(), ofInterest());
    tightFor = ofInterest();
    offerPaths(choice);
  }
  return !dropCase(choice);
}

/// Offers the paths that the bounds found, which may improve the incumbent.
void LabelSearch::offerPaths(int choice) {
  if (!options.uses(Method::MetPaths))
    return;
  for (const Lagrangian::Path &path : cases[choice]->bounds.takePaths()) {
    Placement placement;
    placement.microBatches = space.microBatches[choice];
    for (const StageSpan &stage : path)
      placement.stages.push_back({space.positions[stage.begin], space.positions[stage.end],
                                  space.options[stage.option].group});
    best.offer(evaluator, std::move(placement));
  }
}

/// Forgets the stages, which take much memory, where they cannot beat the best plan.
bool LabelSearch::dropCase(int choice) {
  const Bounds &bounds = cases[choice]->bounds;
  if (bounds.root() < ofInterest())
    return false;
  forgetCase(choice);
  return true;
}

void LabelSearch::forgetCase(int choice) {
  known[choice] = cases[choice]->bounds.multipliers();
  cases[choice].reset();
}

const KnownMultipliers &LabelSearch::multipliersOf(int choice) const {
  return cases[choice] ? cases[choice]->bounds.multipliers() : known[choice];
}

/// The numbers of micro-batches that may hold the best plan, the most promising ones first, each
/// with a first plan where there is none from elsewhere. Returns a bound of those that there was no
/// time for.
double LabelSearch::openCases() {
  double left = infinity;
  for (auto [bound, choice] : CountBounds(evaluator, /*wholeModelGroups=*/false).inOrder()) {
    const bool isOver =
        bound >= cutoff() || work() > options.workLimit || SearchBudget(options).interrupted();
    if (!isOver && openCase(choice) && !coarser && options.uses(Method::Beam))
      beam(choice);
    if (isOver || (!cases[choice] && SearchBudget(options).interrupted()))
      left = std::min(left, bound);
    report();
  }
  for (size_t choice = 0; choice < cases.size(); ++choice)
    if (cases[choice])
      keepCase(static_cast<int>(choice));
  return left;
}

/// Tightens the bounds of a long search: those that decide, and with them those of the labels,
/// until this share of all work is done.
void LabelSearch::sharpen(double workShare) {
  const SearchBudget budget(options, workShare);
  std::vector<char> isSharp(cases.size(), false);
  for (size_t choice = 0; choice < cases.size(); ++choice)
    if (cases[choice])
      keepCase(static_cast<int>(choice));
  while (work() <= budget.left() && !budget.interrupted()) {
    int least = leastCase(isSharp);
    if (least < 0)
      break;
    int64_t states = cases[least]->bounds.sharpen(timeLimit());
    sharpened += states;
    offerPaths(least);
    isSharp[least] = dropCase(least) || states == 0;
    report();
  }
  boundAgain();
}

/// The number of micro-batches whose bound decides, of those that are not sharp; −1: none.
int LabelSearch::leastCase(ArrayRef<char> isSharp) const {
  int least = -1;
  double leastBound = cutoff();
  for (size_t choice = 0; choice < cases.size(); ++choice) {
    if (!cases[choice] || (!isSharp.empty() && isSharp[choice]))
      continue;
    double bound = cases[choice]->bounds.root();
    if (bound < leastBound) {
      least = static_cast<int>(choice);
      leastBound = bound;
    }
  }
  return least;
}

/// Bounds the open labels as the bounds are now.
void LabelSearch::boundAgain() {
  std::vector<double> roots(cases.size(), infinity);
  for (size_t choice = 0; choice < cases.size(); ++choice)
    if (cases[choice])
      roots[choice] = cases[choice]->bounds.root();
  decltype(open) before;
  std::swap(open, before);
  for (; !before.empty(); before.pop()) {
    auto [known, index] = before.top();
    Label label = labels[index];
    if (label.dominated || !cases[label.choice])
      continue;
    ArrayRef<int> slots = labels.slotsOf(index);
    std::copy(slots.begin(), slots.end(), scratch.begin());
    bound(label);
    label.bound = std::max({label.bound, known, roots[label.choice]});
    labels.raiseBound(index, label.bound);
    if (promising(label))
      open.push({label.bound, index});
  }
}

} // namespace heterplan
