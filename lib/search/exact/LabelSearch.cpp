#include "search/exact/LabelSearch.h"

#include "cost/TrafficPrice.h"
#include "search/exact/ProofProgress.h"
#include "search/placement/SearchBudget.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

LabelSearch::LabelSearch(Evaluator &evaluator, const SearchOptions &options)
    : evaluator(evaluator), options(options), space(evaluator.space),
      types(static_cast<int>(space.available.size())),
      last(static_cast<int>(space.positions.size()) - 1), cases(space.microBatches.size()),
      known(cases.size()), blockBounded(cases.size()), blockStarts(cases.size()), paths(evaluator),
      packings(evaluator.problem.cluster, space), labels(evaluator, paths, packings),
      countsTraffic((evaluator.problem.request.objective == Objective::Cost ||
                     evaluator.problem.request.maxCostPerHour > DollarsPerHour(0)) &&
                    chargesTraffic(evaluator.problem.cluster)),
      scratch(types) {
  for (size_t option = 0; option < space.options.size(); ++option)
    if (space.options[option].wholeModelOnly)
      wholeModelOptions.push_back(static_cast<int>(option));
}

/// Puts its slots, none, into `scratch`.
Label LabelSearch::rootOf(int choice) {
  Label root{};
  root.parent = -1;
  root.position = root.end = last;
  root.option = -1;
  root.chain = 0;
  root.choice = choice;
  std::fill(scratch.begin(), scratch.end(), 0);
  bound(root);
  return root;
}

void LabelSearch::addRoot(int choice) {
  Label root = rootOf(choice);
  if (promising(root))
    open.push({root.bound, labels.add(root, scratch)});
}

/// Slowest iteration that is still of interest.
double LabelSearch::timeLimit() const {
  const Request &request = evaluator.problem.request;
  double floor = request.longestIteration().value() * (1 + 1e-9);
  return request.objective == Objective::Throughput ? std::min(ofInterest(), floor) : floor;
}

/// Lists the stages that may stand before label `index` into `stages`.
void LabelSearch::listStages(int index) {
  const Label &label = labels[index];
  ArrayRef<int> slots = labels.slotsOf(index);
  std::copy(slots.begin(), slots.end(), scratch.begin());
  stages.clear();
  Bounds &bounds = cases[label.choice]->bounds;
  if (!bounds.listExtensions(partialOf(label), timeLimit(), ofInterest(), stages))
    for (int option = 0; option < static_cast<int>(space.options.size()); ++option)
      for (int begin = label.position; begin-- > 0;)
        stages.push_back({begin, label.position, option});
  else if (label.depth == 0)
    for (int option : wholeModelOptions)
      stages.push_back({0, label.position, option});
}

bool LabelSearch::mayStand(const StageSpan &stage, const Label &label) const {
  const GroupOption &option = space.options[stage.option];
  if (option.wholeModelOnly && (label.depth > 0 || stage.begin > 0))
    return false;
  if (stage.begin > 0 && label.depth + 1 >= space.maxStages)
    return false; // the last stage that may be added has to take all the rest
  return option.group.replicas() <= cases[label.choice]->table.batch &&
         space.mayFollow(stage.option, label.option) &&
         (stage.begin > 0 || !option.group.besideBefore);
}

/// Calls `keep` with each promising label that has one stage more than label `index`, whose slots
/// are then in `scratch`; complete ones are considered as solutions instead.
template <typename Keep> void LabelSearch::expand(int index, Keep keep) {
  if (labels[index].depth >= space.maxStages)
    return;
  listStages(index);
  steps += static_cast<int64_t>(stages.size());
  auto add = [&](const Label &grown) {
    if (grown.position > 0)
      keep(grown);
    else if (grown.depth >= space.minStages)
      complete(grown);
  };
  for (const StageSpan &stage : stages) {
    if (!mayStand(stage, labels[index]) || !takeSlots(index, stage.option))
      continue;
    ++priced;
    for (const StageTimes &entry : stagesBefore(labels[index], stage.option, stage.begin)) {
      Label grown, other;
      if (!grow(index, stage.option, stage.begin, entry, grown))
        continue;
      bool hasOther = growOtherShares(index, grown, other);
      if (hasOther)
        add(other);
      if (promising(grown) && !(hasOther && grown.otherShares))
        add(grown);
    }
  }
}

/// Labels are compared by the formula of the iteration time. If the schedule itself takes longer,
/// only the formula bounds the placements that this label stands for, including those it dominated.
void LabelSearch::complete(const Label &label) {
  if (label.otherShares) {
    leastOtherShares = std::min(leastOtherShares, label.bound);
    return;
  }
  Placement placement = placementOf(label);
  std::optional<Evaluation> evaluation = evaluator.evaluate(placement);
  if (!evaluation || evaluation->objective > label.bound * (1 + 1e-9))
    leastMisjudged = std::min(leastMisjudged, label.bound);
  if (evaluation)
    best.take(std::move(placement), *evaluation);
}

Placement LabelSearch::placementOf(const Label &first) const {
  Placement placement;
  placement.microBatches = space.microBatches[first.choice];
  for (const Label *label = &first; label->option >= 0; label = &labels[label->parent])
    placement.stages.push_back({space.positions[label->position],
                                space.positions[label->end],
                                space.options[label->option].group,
                                {},
                                label->mode});
  return placement;
}

/// Keeps the labels of least bound, one for each use of devices: others at a cut are much alike.
/// With six labels of any use, plans of GPTs on 128 to 512 GPUs were up to 8 % slower
/// (bench/joint.py).
void LabelSearch::keepFew(std::vector<int> &indices) const {
  std::stable_sort(indices.begin(), indices.end(),
                   [&](int a, int b) { return labels[a].bound < labels[b].bound; });
  std::set<std::vector<int>> uses;
  std::vector<int> kept;
  for (int index : indices) {
    if (kept.size() == size_t(options.tuning.beamWidth) || !promising(labels[index]))
      break;
    if (uses.insert(labels.slotsOf(index).vec()).second)
      kept.push_back(index);
  }
  indices = std::move(kept);
}

/// A first good plan: from each cut only the few most promising labels grow.
void LabelSearch::beam(int choice) {
  addRoot(choice);
  std::vector<std::vector<int>> waiting(last + 1);
  if (labels.size() > 0)
    waiting[last] = {0};
  for (int position = last; position > 0; --position) {
    std::vector<int> &here = waiting[position];
    keepFew(here);
    for (int index : here)
      expand(index, [&](const Label &grown) {
        if (!grown.otherShares)
          waiting[grown.position].push_back(labels.add(grown, scratch));
      });
  }
  labels.clear();
  open = {};
}

int64_t LabelSearch::work() const {
  return priced + (steps + labels.comparisons()) / options.tuning.stepsPerStage +
         sharpened / options.tuning.statesPerStage;
}

bool LabelSearch::isOver() const {
  return work() > options.workLimit || SearchBudget(options).interrupted();
}

void LabelSearch::report() const {
  if (options.progress)
    options.progress(double(work()) / double(options.workLimit), best.objective);
}

/// Until this share of all work is done.
void LabelSearch::bestFirst(double workShare) {
  const SearchBudget budget(options, workShare);
  int64_t expanded = 0;
  while (!open.empty() && work() <= budget.left() && !budget.interrupted()) {
    auto [bound, index] = open.top();
    if (bound >= cutoff())
      break;
    open.pop();
    if (labels[index].dominated)
      continue;
    expand(index, [&](const Label &grown) {
      if (labels.insert(grown, scratch, cases[grown.choice]->bounds.slowestAtLeast()))
        open.push({grown.bound, static_cast<int>(labels.size()) - 1});
    });
    if ((++expanded & 0xff) == 0)
      report();
  }
}

/// Bounds from this on are fathomed: a placement has to be better by more than the gap to count.
/// Infinite as long as no plan is known, so that only an empty queue proves that there is none.
double LabelSearch::cutoff() const {
  if (std::isinf(best.objective))
    return infinity;
  return best.objective * (1 - std::max(rounding, 1 - 1 / (1 + options.gap)));
}

void LabelSearch::start(const std::optional<Placement> &placement) {
  best = {}; // another plan that is as good may follow that of boundCases()
  if (placement)
    best.offer(evaluator, evaluator.shareNodes(*placement));
  best.objective = std::min(best.objective, toBeat());
}

double LabelSearch::toBeat() const {
  return options.toBeat ? objectiveOf(evaluator.problem.request, *options.toBeat) * (1 - rounding)
                        : infinity;
}

Solution LabelSearch::run() {
  return runFrom(provesNone() ? std::nullopt : greedyPlacement(evaluator));
}

Solution LabelSearch::runFrom(const std::optional<Placement> &placement) {
  start(placement);
  return solve();
}

bool LabelSearch::provesNone() { return options.toBeat && !boundCases(std::nullopt); }

bool LabelSearch::boundCases(const std::optional<Placement> &placement) {
  start(placement);
  boundByBlocks();
  return !order.empty() && order.front().first < cutoff();
}

std::vector<double> LabelSearch::boundsAlong(const Placement &placement) {
  constexpr double ofInterest = 1 + 1e-6; // itself, too
  best.offer(evaluator, placement);
  const Placement stated = *best.placement;
  best.objective *= ofInterest;
  best.time *= ofInterest;
  const int choice =
      int(lower_bound(space.microBatches, placement.microBatches) - space.microBatches.begin());
  addCase(choice, evaluator);
  cases[choice]->bounds.tighten(timeLimit(), best.objective);
  labels.setChoice(choice, cases[choice]->table);
  Label label = rootOf(choice);
  std::vector<double> bounds{label.bound};
  for (const PlacedStage &stage : reverse(stated.stages)) {
    const int index = labels.add(label, scratch);
    const int begin = int(lower_bound(space.positions, stage.begin) - space.positions.begin());
    auto option = find_if(space.options, [&](const GroupOption &each) {
      return each.group == stage.group && !each.wholeModelOnly;
    });
    const int number = int(option - space.options.begin());
    if (option == space.options.end() || !takeSlots(index, number))
      break;
    const auto entries = stagesBefore(label, number, begin);
    auto entry = find_if(entries, [&](const StageTimes &each) { return each.mode == stage.mode; });
    if (entry == entries.end() || !grow(index, number, begin, *entry, label))
      break;
    bounds.push_back(label.bound);
  }
  return bounds;
}

/// Labels grow and bounds are sharpened by turns, which get longer, until the proof or the end of
/// all work, or until the rest of it promises too little. Labels go on if two turns in a row are
/// likely to end the proof.
void LabelSearch::prove() {
  constexpr double growth = 1.5;
  const bool sharpens = options.uses(Method::LevelBounds);
  double turn = options.tuning.firstTurn;
  ProofProgress progress(options.tuning.proofWindow);
  for (bool ofLabels = true; isOpen() && !isOver();) {
    const double before = open.top().first, share = double(work()) / double(options.workLimit);
    progress.add(share, before);
    if (progress.promised(cutoff()) < options.tuning.worthProving)
      break;
    const double end = std::min(1.0, share + turn);
    ofLabels ? bestFirst(end) : sharpen(end);
    const bool endsSoon = ofLabels && isOpen() && 2 * open.top().first - before >= cutoff();
    if (!ofLabels)
      turn = std::min(options.tuning.longestTurn, turn * growth);
    ofLabels = !ofLabels || !sharpens || endsSoon;
  }
}

/// The least bound of the open labels. If time is up, bounds of cases may be loose: then those over
/// blocks count, too.
double LabelSearch::leastOpen() {
  if (open.empty())
    return infinity;
  if (!options.deadline.isLimited())
    return open.top().first;
  std::vector<double> least(cases.size());
  for (auto [bound, choice] : order)
    least[choice] = bound;
  double result = infinity;
  for (; !open.empty(); open.pop()) {
    const auto [bound, label] = open.top();
    result = std::min(result, std::max(bound, least[labels[label].choice]));
  }
  return result;
}

Solution LabelSearch::solve() {
  double left = openCases();
  improveOnce();
  for (size_t choice = 0; choice < cases.size(); ++choice)
    if (cases[choice])
      addRoot(static_cast<int>(choice));
  prove();
  double least = std::min({left, leastMisjudged, leastOpen()});
  if (options.gap > 0) // what is fathomed may be better than the plan by the gap
    least = std::min(least, cutoff());
  bool complete = least >= best.objective * (1 - 1e-12);
  if (complete && best.objective >= toBeat())
    best.placement.reset();
  SearchBudget budget(options);
  budget.add(work());
  Solution solution{best.placement, complete ? best.objective : std::min(best.objective, least),
                    budget.termination(complete, best.placement.has_value())};
  if (leastOtherShares < best.objective * (1 - 1e-12))
    solution.leftOut.push_back("other shares of unequal devices");
  return solution;
}

} // namespace heterplan
