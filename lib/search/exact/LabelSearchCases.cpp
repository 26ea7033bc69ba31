// The cases of the exact search: the numbers of micro-batches that it examines, and how tight their
// bounds are.
#include "search/exact/LabelSearch.h"

#include "search/placement/SearchBudget.h"
#include "support/Parallel.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// The part of the way from the least bound to the best plan within which bounds are sharpened
/// under a time limit.
constexpr double worthALimit = 0.25;
} // namespace

/// Prices the stages for a number of micro-batches; `own`: an evaluator that no other thread uses.
void LabelSearch::addCase(int choice, Evaluator &own) {
  StageLimits limits;
  limits.isOver = [&] { return SearchBudget(options).interrupted(); };
  if (options.uses(Method::BoundedTable)) {
    limits.iteration = timeLimit();
    limits.paid = Bounds::paidFor(own.problem.request, ofInterest());
    limits.before =
        CountBounds(own, /*wholeModelGroups=*/false).timesBefore(space.microBatches[choice]);
    limits.mayHave = [&bound = blockBounded[choice]](int begin, int end, int option) {
      return bound.mayHave(begin, end, option);
    };
  }
  cases[choice] =
      std::make_unique<MicroBatchCase>(own, space.microBatches[choice], limits, options);
  blockBounded[choice] = {};
}

size_t LabelSearch::lanes() const {
  const size_t own = std::max<size_t>(space.stages(last + 1), 1);
  return std::clamp<size_t>(options.tuning.mostStages / own, 1, options.tuning.casesAtOnce);
}

Evaluator &LabelSearch::evaluatorOf(size_t lane) {
  if (lane == 0)
    return evaluator;
  while (others.size() < lane) {
    others.push_back(std::make_unique<Evaluator>(evaluator.problem, space.positions));
    others.back()->stages.costs.times.shareCostsWith(evaluator.stages.costs.times);
  }
  return *others[lane - 1];
}

void LabelSearch::openFirst() {
  if (!order.empty() && order.front().first < cutoff())
    openAtOnce(order.front().second);
}

/// Opens cases side by side, unless they are open, and tightens their bounds. A case whose time is
/// up while its stages are priced is not opened.
void LabelSearch::openAtOnce(ArrayRef<int> choices) {
  std::vector<Evaluator *> own;
  std::vector<int> near;
  for (size_t i = 0; i < choices.size(); ++i) {
    own.push_back(&evaluatorOf(i));
    near.push_back(nearestKnown(choices[i]));
  }
  inParallel(choices.size(), options.threads, [&](size_t i) {
    const int choice = choices[i];
    if (!cases[choice]) {
      addCase(choice, *own[i]);
      if (SearchBudget(options).interrupted()) {
        cases[choice].reset();
        return;
      }
      startNear(choice, near[i]);
    }
    tightenCase(choice);
  });
  for (int choice : choices)
    if (cases[choice])
      labels.setChoice(choice, cases[choice]->table);
}

/// The multipliers with which a case begins: those of the search over fewer cuts, or of `near`.
void LabelSearch::startNear(int choice, int near) {
  if (!options.uses(Method::WarmStart))
    return;
  Bounds &bounds = cases[choice]->bounds;
  if (coarser)
    bounds.startFrom(coarser->multipliersOf(choice), 1);
  else if (near >= 0)
    bounds.startFrom(multipliersOf(near),
                     double(space.microBatches[near]) / space.microBatches[choice]);
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

/// Makes the bounds of a case as tight as the best plan and the clock allow.
void LabelSearch::tightenCase(int choice) {
  Bounds &bounds = cases[choice]->bounds;
  std::optional<double> &tightFor = cases[choice]->tightFor;
  const bool mayBeTighter = !tightFor || (*tightFor > ofInterest() && bounds.root() < ofInterest());
  if (!mayBeTighter || SearchBudget(options).interrupted())
    return;
  bounds.tighten(timeLimit(), ofInterest());
  tightFor = ofInterest();
}

/// Tightens the bounds of all cases side by side, and keeps those that may beat the best plan.
void LabelSearch::tightenOpenCases() {
  std::vector<int> all;
  for (size_t choice = 0; choice < cases.size(); ++choice)
    if (cases[choice])
      all.push_back(int(choice));
  inParallel(all.size(), options.threads, [&](size_t i) { tightenCase(all[i]); });
  for (int choice : all)
    keepCase(choice);
}

/// Improves the plan where there are open cases and a way to do so.
void LabelSearch::improveOnce() {
  if (!improve || llvm::none_of(cases, [](const auto &each) { return bool(each); }))
    return;
  if (std::optional<Placement> better = improve(best.placement))
    best.offer(evaluator, evaluator.shareNodes(std::move(*better)));
  tightenOpenCases();
}

/// Whether placements with so many micro-batches may beat the best plan.
bool LabelSearch::keepCase(int choice) {
  offerPaths(choice);
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

void LabelSearch::forgetCases() {
  for (int choice = 0; choice < int(cases.size()); ++choice)
    if (cases[choice])
      forgetCase(choice);
}

const KnownMultipliers &LabelSearch::multipliersOf(int choice) const {
  return cases[choice] ? cases[choice]->bounds.multipliers() : known[choice];
}

/// Orders the numbers of micro-batches by bounds that need no stages, which are quick ones if time
/// is up. A second call does so again only for a better plan, and from the multipliers of the
/// first.
void LabelSearch::boundByBlocks() {
  const bool isFirst = !blockBoundedFor;
  if (!isFirst && (ofInterest() >= *blockBoundedFor || SearchBudget(options).interrupted()))
    return;
  blockBoundedFor = ofInterest();
  if (isFirst)
    order = CountBounds(evaluator, /*wholeModelGroups=*/false).inOrder();
  if (only)
    llvm::erase_if(order, [&](auto &each) { return space.microBatches[each.second] != *only; });
  const BlockBounds bounds(evaluator, options.tuning, /*wholeModelGroups=*/false);
  BlockStarts near;
  for (size_t begin = 0, end = 0; end < order.size() && order[end].first < cutoff(); begin = end) {
    while (end < order.size() && order[end].first < cutoff() &&
           end - begin < size_t(options.tuning.casesAtOnce))
      ++end;
    boundTogether(bounds, begin, end, near);
  }
  std::sort(order.begin(), order.end());
}

/// Bounds the numbers of micro-batches from `begin` to `end` of the order side by side. `near`:
/// multipliers for those that have none yet; it becomes those of the first one.
void LabelSearch::boundTogether(const BlockBounds &bounds, size_t begin, size_t end,
                                BlockStarts &near) {
  std::vector<Evaluator *> own;
  for (size_t i = begin; i < end; ++i)
    own.push_back(&evaluatorOf(i - begin));
  inParallel(own.size(), options.threads, [&](size_t i) {
    auto &[least, choice] = order[begin + i];
    BlockStarts &start = blockStarts[choice];
    if (start.empty())
      start = coarser ? coarser->blockStarts[choice] : near;
    BlockBound bound = bounds.bound(*own[i], space.microBatches[choice], ofInterest(),
                                    /*listsStages=*/!SearchBudget(options).interrupted(), start);
    least = std::max(least, bound.objective);
    if (!bound.left.empty() || blockBounded[choice].left.empty())
      blockBounded[choice] = std::move(bound);
  });
  near = blockStarts[order[begin].second];
}

/// The numbers of micro-batches that may hold the best plan, the most promising ones first, each
/// with a first plan where there is none from elsewhere. Returns a bound of those that there was no
/// time for.
double LabelSearch::openCases() {
  double left = infinity;
  boundByBlocks();
  if (!coarser) // those that waste no samples have good plans, with which the others take less work
    std::stable_partition(order.begin(), order.end(), [&](const auto &each) {
      return evaluator.problem.request.globalBatch.value() % space.microBatches[each.second] == 0;
    });
  for (size_t next = 0; next < order.size();) {
    SmallVector<int, 4> together;
    const bool hasStart = coarser || nearestKnown(order[next].second) >= 0;
    const size_t begin = next, most = hasStart ? lanes() : 1; // the first one starts the others
    for (; next < order.size() && together.size() < most; ++next)
      if (order[next].first >= cutoff() || isOver())
        left = std::min(left, order[next].first);
      else
        together.push_back(order[next].second);
    openAtOnce(together);
    for (int choice : together)
      if (cases[choice] && keepCase(choice) && !coarser && options.uses(Method::Beam))
        beam(choice);
    for (size_t i = begin; i < next; ++i) {
      if (!cases[order[i].second] && SearchBudget(options).interrupted())
        left = std::min(left, order[i].first);
      report();
    }
  }
  tightenOpenCases();
  return left;
}

/// Tightens the bounds of a long search: those that decide, and with them those of the labels,
/// until this share of all work is done.
void LabelSearch::sharpen(double workShare) {
  const SearchBudget budget(options, workShare);
  std::vector<char> isSharp(cases.size(), false);
  tightenOpenCases();
  const int64_t before = sharpened;
  while (work() <= budget.left() && !budget.interrupted()) {
    const std::vector<int> together = deciding(isSharp);
    if (together.empty())
      break;
    std::vector<int64_t> states(together.size());
    inParallel(together.size(), options.threads,
               [&](size_t i) { states[i] = sharpenCase(together[i]); });
    for (size_t i = 0; i < together.size(); ++i) {
      sharpened += states[i];
      offerPaths(together[i]);
      isSharp[together[i]] = dropCase(together[i]) || states[i] == 0;
    }
    report();
  }
  if (sharpened > before)
    boundAgain();
}

/// Sharpens the bounds of a case by several steps, so that threads seldom wait for each other; by
/// one within a time limit.
/// Returns the states that it took; 0: nothing more can be kept.
int64_t LabelSearch::sharpenCase(int choice) {
  const int64_t atOnce = options.deadline.isLimited() ? 1 : 4'000'000;
  Bounds &bounds = cases[choice]->bounds;
  int64_t states = 0;
  while (states < atOnce && bounds.root() < cutoff() && !SearchBudget(options).interrupted()) {
    const int64_t step = bounds.sharpen(timeLimit());
    if (step == 0)
      break;
    states += step;
  }
  return states;
}

/// The numbers of micro-batches whose bounds decide, of those that are not sharp: the least ones,
/// as many as are sharpened at a time. Within a time limit, only those that soon decide.
std::vector<int> LabelSearch::deciding(ArrayRef<char> isSharp) const {
  std::vector<std::pair<double, int>> open;
  for (size_t choice = 0; choice < cases.size(); ++choice)
    if (cases[choice] && !isSharp[choice] && cases[choice]->bounds.root() < cutoff())
      open.push_back({cases[choice]->bounds.root(), int(choice)});
  std::sort(open.begin(), open.end());
  std::vector<int> result;
  for (auto [bound, choice] : ArrayRef(open).take_front(options.tuning.casesAtOnce)) {
    const double above = bound - open.front().first, all = cutoff() - open.front().first;
    if (!options.deadline.isLimited() || above <= worthALimit * all)
      result.push_back(choice);
  }
  return result;
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
