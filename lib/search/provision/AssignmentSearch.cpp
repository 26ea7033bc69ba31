#include "search/provision/AssignmentSearch.h"

#include <algorithm>
#include <limits>
#include <set>

using namespace llvm;

namespace heterplan {

AssignmentSearch::AssignmentSearch(Evaluator &evaluator, const SearchOptions &options,
                                   double workShare)
    : evaluator(evaluator), assignments(evaluator), meter(options, workShare), random(options.seed),
      options(options), provisioner(evaluator, assignments), orders(evaluator),
      best(assignments.uniform(0, 0)), bestObjective(std::numeric_limits<double>::infinity()) {
  for (int type = 0; type < assignments.types; ++type)
    for (int choice = 0; choice < assignments.choices; ++choice)
      score(assignments.uniform(type, choice));
}

const AssignmentSearch::Assessment &AssignmentSearch::assess(const TypeAssignment &assignment) {
  constexpr size_t mostKnown = 1 << 16;
  auto entry = known.find({assignment.choice, assignment.actions});
  meter.add(1);
  if (entry != known.end())
    return entry->second;
  int64_t before = provisioner.work();
  auto sizing = provisioner.size(assignment);
  ++sized;
  meter.add(provisioner.work() - before);
  unknown = {sizing ? sizing->objective : std::numeric_limits<double>::infinity(),
             provisioner.shortfall(), provisioner.closestObjective()};
  if (unknown.objective < bestObjective) {
    bestObjective = unknown.objective;
    best = assignment;
    placement = std::move(sizing->placement);
  }
  if (options.evaluationLimit > 0 && options.progress)
    options.progress(progress(), bestObjective);
  if (known.size() >= mostKnown)
    return unknown;
  return known.emplace(std::pair(assignment.choice, assignment.actions), unknown).first->second;
}

std::vector<TypeAssignment> AssignmentSearch::bestAssignments(size_t most) const {
  std::vector<std::pair<double, const std::pair<int, std::vector<int>> *>> order;
  for (const auto &[assignment, assessment] : known)
    if (assessment.objective < std::numeric_limits<double>::infinity())
      order.push_back({assessment.objective, &assignment});
  std::stable_sort(order.begin(), order.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  order.resize(std::min(order.size(), most));
  std::vector<TypeAssignment> result;
  for (const auto &[objective, assignment] : order)
    result.push_back({assignment->second, assignment->first});
  return result;
}

std::optional<Placement> AssignmentSearch::placementOf(const TypeAssignment &assignment) {
  std::optional<Provisioner::Sized> sized = provisioner.size(assignment);
  return sized ? std::optional(std::move(sized->placement)) : std::nullopt;
}

void AssignmentSearch::consider(const std::optional<Placement> &other) {
  if (!other)
    return;
  TypeAssignment assignment = assignments.of(*other);
  score(assignment);
  std::optional<Evaluation> evaluation = evaluator.evaluate(*other);
  if (!evaluation || evaluation->objective >= bestObjective)
    return;
  bestObjective = evaluation->objective;
  best = assignment;
  placement = other;
}

bool AssignmentSearch::improveBlock() {
  double before = bestObjective;
  for (int block = 0; block < assignments.blocks; ++block)
    for (int action : assignments.allowedAt(block)) {
      if (exhausted())
        return false;
      TypeAssignment assignment = best;
      assignment.actions[block] = action;
      score(assignment);
    }
  for (int choice = 0; choice < assignments.choices && !exhausted(); ++choice)
    score({best.actions, choice});
  return bestObjective < before;
}

/// Whether there are as many devices of each type.
bool AssignmentSearch::devicesSuffice(const Placement &other) const {
  std::vector<int> left = evaluator.space.available;
  for (const PlacedStage &stage : other.stages)
    for (auto [type, count] : stage.group.counts)
      if ((left[size_t(type)] -= count) < 0)
        return false;
  return true;
}

/// Numbers that tell placements without stated modes and shares apart.
std::vector<int> AssignmentSearch::keyOf(const Placement &placement) {
  std::vector<int> key{placement.microBatches};
  for (const PlacedStage &stage : placement.stages) {
    const DeviceGroup &group = stage.group;
    key.insert(key.end(),
               {-stage.end, group.inOneNode + 2 * group.besideBefore + 4 * group.besideNext});
    for (auto [type, count] : group.counts)
      key.insert(key.end(), {type, count});
    for (const Spread &spread : group.spread)
      key.insert(key.end(), {spread.nodes, spread.inNode});
  }
  return key;
}

/// The objective of `other`, whose modes and shares are not stated; it becomes the best if it is.
/// Infinite if it is infeasible.
double AssignmentSearch::tryPlacement(Placement other) {
  constexpr size_t mostTried = 1 << 16;
  if (!devicesSuffice(other))
    return std::numeric_limits<double>::infinity();
  meter.add(1);
  std::vector<int> key = keyOf(other);
  if (auto entry = tried.find(key); entry != tried.end())
    return entry->second;
  meter.add(int64_t(other.stages.size()));
  ++sized;
  other = evaluator.shareNodes(std::move(other));
  std::optional<Evaluation> evaluation = evaluator.evaluate(other);
  const double objective =
      evaluation ? evaluation->objective : std::numeric_limits<double>::infinity();
  if (objective < bestObjective) {
    bestObjective = objective;
    placement = std::move(other);
  }
  if (tried.size() < mostTried)
    tried.emplace(std::move(key), objective);
  return objective;
}

/// Assignments have no groups of several types.
void AssignmentSearch::tryWholeModel() {
  for (const GroupOption &option : evaluator.space.options)
    for (int microBatches : evaluator.space.microBatches)
      if (!exhausted() && !option.group.sharesNode() &&
          evaluator.space.isUseful(option, evaluator.stages.fullSize(microBatches)))
        tryPlacement({{{0, evaluator.problem.graph.size(), option.group}}, microBatches});
}

bool AssignmentSearch::improveGroup() {
  if (!placement)
    return false;
  double before = bestObjective;
  for (size_t stage = 0; stage < placement->stages.size(); ++stage)
    for (const GroupOption &option : evaluator.space.options) {
      if (exhausted())
        return false;
      if (option.group.sharesNode() || (option.wholeModelOnly && placement->stages.size() > 1))
        continue;
      Placement other = apart(*placement);
      other.stages[stage].group = option.group;
      other.stages[stage].decideAnew();
      tryPlacement(std::move(other));
    }
  return bestObjective < before;
}

/// Placements with `stage` in two, divided behind its first block, in the middle or before its last
/// one. Either part gets another group.
void AssignmentSearch::addDivisions(const Placement &current, size_t stage,
                                    std::vector<Placement> &into) const {
  const std::vector<int> &at = evaluator.space.positions;
  const PlacedStage &whole = current.stages[stage];
  auto begin = std::lower_bound(at.begin(), at.end(), whole.begin),
       end = std::lower_bound(at.begin(), at.end(), whole.end);
  if (int(current.stages.size()) >= evaluator.space.maxStages || end - begin < 2)
    return;
  std::vector<int> cuts{*(begin + 1), *(begin + (end - begin) / 2), *(end - 1)};
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (int cut : cuts)
    for (const GroupOption &option : evaluator.space.options) {
      if (option.group.sharesNode() || option.wholeModelOnly)
        continue;
      for (size_t part : {stage, stage + 1}) {
        into.push_back(current);
        std::vector<PlacedStage> &stages = into.back().stages;
        stages.insert(stages.begin() + int64_t(stage), whole);
        stages[stage].end = stages[stage + 1].begin = cut;
        stages[part].group = option.group;
      }
    }
}

/// Placements with other groups for `stage` and the next one, so that devices of the
/// one go to the other; none if there are too many.
void AssignmentSearch::addPairs(const Placement &current, size_t stage,
                                std::vector<Placement> &into) const {
  constexpr size_t mostGroups = 32;
  std::vector<const DeviceGroup *> groups;
  for (const GroupOption &option : evaluator.space.options)
    if (!option.group.sharesNode() && !option.wholeModelOnly)
      groups.push_back(&option.group);
  if (groups.size() > mostGroups)
    return;
  for (const DeviceGroup *first : groups)
    for (const DeviceGroup *second : groups) {
      into.push_back(current);
      into.back().stages[stage].group = *first;
      into.back().stages[stage + 1].group = *second;
    }
}

/// Placements in which `stage` has more or fewer devices of one type, or the next stage joins it
/// with its devices. Spaces without most groups of several types have them only in these moves.
void AssignmentSearch::addMixtures(const Placement &current, size_t stage,
                                   std::vector<Placement> &into) const {
  if (evaluator.space.listsMixed || assignments.types < 2)
    return;
  std::vector<int> counts(size_t(assignments.types), 0);
  for (auto [type, count] : current.stages[stage].group.counts)
    counts[size_t(type)] = count;
  for (int type = 0; type < assignments.types; ++type) {
    const int own = counts[size_t(type)], all = evaluator.space.available[size_t(type)];
    for (int other : std::set<int>{0, own / 2, own - 1, own + 1, own * 2, all / 2, all}) {
      if (other == own || other < 0 || other > all)
        continue;
      counts[size_t(type)] = other;
      if (DeviceGroup group = groupOfCounts(counts); !group.counts.empty()) {
        into.push_back(current);
        into.back().stages[stage].group = std::move(group);
      }
    }
    counts[size_t(type)] = own;
  }
  if (stage + 1 == current.stages.size())
    return;
  for (auto [type, count] : current.stages[stage + 1].group.counts)
    counts[size_t(type)] += count;
  into.push_back(current);
  std::vector<PlacedStage> &stages = into.back().stages;
  stages[stage].group = groupOfCounts(counts);
  stages[stage].end = stages[stage + 1].end;
  stages.erase(stages.begin() + int64_t(stage) + 1);
}

/// Placements with another group for `stage`, the group of a later stage and the other way round,
/// its end one cut further or nearer, or one stage with the next.
std::vector<Placement> AssignmentSearch::neighboursOf(const Placement &current,
                                                      size_t stage) const {
  std::vector<Placement> result;
  for (const GroupOption &option : evaluator.space.options)
    if (!option.group.sharesNode() && !(option.wholeModelOnly && current.stages.size() > 1)) {
      result.push_back(current);
      result.back().stages[stage].group = option.group;
    }
  for (size_t later = stage + 1; later < current.stages.size(); ++later) {
    result.push_back(current);
    std::swap(result.back().stages[stage].group, result.back().stages[later].group);
  }
  if (stage + 1 == current.stages.size())
    return result;
  const std::vector<int> &at = evaluator.space.positions;
  const int64_t cut = std::find(at.begin(), at.end(), current.stages[stage].end) - at.begin();
  for (int step : {-1, 1, -2, 2, -4, 4}) {
    if (cut + step < 0 || cut + step >= int64_t(at.size()))
      continue;
    const int moved = at[size_t(cut + step)];
    if (moved <= current.stages[stage].begin || moved >= current.stages[stage + 1].end)
      continue;
    result.push_back(current);
    result.back().stages[stage].end = result.back().stages[stage + 1].begin = moved;
  }
  for (size_t kept : {stage, stage + 1}) {
    result.push_back(current);
    std::vector<PlacedStage> &stages = result.back().stages;
    stages[kept].begin = stages[stage].begin;
    stages[kept].end = current.stages[stage + 1].end;
    stages.erase(stages.begin() + int64_t(kept == stage ? stage + 1 : stage));
  }
  return result;
}

/// The many placements with `stage` in two, or with other groups for two stages, or with groups of
/// several types.
std::vector<Placement> AssignmentSearch::wideNeighboursOf(const Placement &current,
                                                          size_t stage) const {
  std::vector<Placement> result;
  addMixtures(current, stage, result);
  addDivisions(current, stage, result);
  if (stage + 1 < current.stages.size())
    addPairs(current, stage, result);
  return result;
}

/// The groups of `current`, and of each type the largest useful one of the devices that are left;
/// none if a stage has several types.
std::vector<DeviceGroup> AssignmentSearch::groupsToOrder(const Placement &current) const {
  std::vector<DeviceGroup> groups;
  std::vector<int> left = evaluator.space.available;
  for (const PlacedStage &stage : current.stages) {
    if (stage.group.counts.size() > 1 || !stage.group.spread.empty())
      return {};
    left[size_t(stage.group.counts.front().first)] -= stage.group.counts.front().second;
    groups.push_back(stage.group);
  }
  const int64_t batch = evaluator.stages.fullSize(current.microBatches);
  for (int type = 0; type < assignments.types; ++type) {
    const DeviceGroup *largest = nullptr;
    for (const GroupOption &option : evaluator.space.options) {
      const DeviceGroup &group = option.group;
      if (group.counts.size() > 1 || group.counts.front().first != type || !group.spread.empty() ||
          group.sharesNode() || !evaluator.space.isUseful(option, batch) ||
          option.slots[size_t(type)] > left[size_t(type)])
        continue;
      if (!largest || group.counts.front().second > largest->counts.front().second)
        largest = &group;
    }
    if (largest)
      groups.push_back(*largest);
  }
  groups.resize(std::min(groups.size(), StageOrders::mostGroups));
  return groups;
}

/// The groups of `current`, and devices that are left, in the best order with the best cuts.
bool AssignmentSearch::reorder(Placement &current, double &objective) {
  constexpr size_t most = 4;
  const std::vector<DeviceGroup> groups = groupsToOrder(current);
  const int64_t before = orders.work();
  std::vector<Placement> others = orders.best(groups, current.microBatches, most, objective);
  meter.add(orders.work() - before);
  return takeBetter(others, current, objective);
}

/// Steps that help from `current`: other orders of its groups first, as they need few evaluations.
/// The wide neighbourhood follows where the narrow one has none.
void AssignmentSearch::climb(Placement current) {
  current = apart(std::move(current));
  double objective = tryPlacement(current);
  while (!exhausted()) {
    if (reorder(current, objective) ||
        improveStages(current, objective, &AssignmentSearch::neighboursOf))
      continue;
    std::vector<Placement> others;
    for (int microBatches : evaluator.space.microBatches) {
      others.push_back(current);
      others.back().microBatches = microBatches;
    }
    if (!takeBetter(others, current, objective) &&
        !improveStages(current, objective, &AssignmentSearch::wideNeighboursOf))
      return;
  }
}

/// The best step at each stage in turn.
bool AssignmentSearch::improveStages(Placement &current, double &objective, Neighbours neighbours) {
  const double before = objective;
  for (size_t stage = 0; stage < current.stages.size() && !exhausted(); ++stage) {
    std::vector<Placement> others = (this->*neighbours)(current, stage);
    takeBetter(others, current, objective);
  }
  return objective < before;
}

/// Whether some of `others` are better than `current`, which becomes the best of them.
bool AssignmentSearch::takeBetter(std::vector<Placement> &others, Placement &current,
                                  double &objective) {
  const double before = objective;
  for (Placement &other : others) {
    if (exhausted())
      break;
    for (PlacedStage &stage : other.stages)
      stage.decideAnew();
    if (double value = tryPlacement(other); value < objective) {
      objective = value;
      current = std::move(other);
    }
  }
  return objective < before;
}

void AssignmentSearch::climbFromFewCounts() {
  constexpr size_t most = 8; // the best ones
  using Start = std::pair<double, const std::vector<int> *>;
  std::map<int, Start> starts; // by number of micro-batches
  for (const auto &[assignment, assessment] : known) {
    Start &start =
        starts.try_emplace(assignment.first, assessment.objective, nullptr).first->second;
    if (!start.second || assessment.objective < start.first)
      start = {assessment.objective, &assignment.second};
  }
  std::vector<std::pair<int, Start>> order(starts.begin(), starts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto &a, const auto &b) { return a.second.first < b.second.first; });
  order.resize(std::min(order.size(), most));
  for (const auto &[choice, start] : order)
    if (std::optional<Provisioner::Sized> from = provisioner.size({*start.second, choice}))
      climb(std::move(from->placement));
}

void AssignmentSearch::descend() {
  while (improveBlock())
    ;
  if (assignments.sizesAreExact())
    return;
  tryWholeModel();
  while (improveGroup())
    ;
  climbFromFewCounts();
  climbFromNearby();
}

/// `from` after some random moves, whether or not they help.
Placement AssignmentSearch::shaken(Placement from) {
  from = apart(std::move(from));
  for (int moves = 1 + draw(random, 5); moves > 0; --moves) {
    const size_t stage = size_t(draw(random, int(from.stages.size())));
    std::vector<Placement> others = neighboursOf(from, stage);
    for (Placement &other : wideNeighboursOf(from, stage))
      others.push_back(std::move(other));
    if (!others.empty())
      from = std::move(others[size_t(draw(random, int(others.size())))]);
    if (draw(random, 4) == 0)
      from.microBatches = evaluator.space.microBatches[size_t(draw(random, assignments.choices))];
  }
  for (PlacedStage &stage : from.stages)
    stage.decideAnew();
  return from;
}

/// Iterated local search: steps that help from random placements near the best one, and from
/// assignments among the best ones.
void AssignmentSearch::climbFromNearby() {
  constexpr int patience = 60; // climbs without a better plan
  constexpr size_t most = 400;
  const std::vector<TypeAssignment> starts = bestAssignments(most);
  for (int idle = 0; idle < patience && placement && !exhausted(); ++idle) {
    const double before = bestObjective;
    std::optional<Placement> from = placement;
    if (idle % 2 && !starts.empty())
      from = placementOf(starts[size_t(draw(random, int(starts.size())))]);
    if (from)
      climb(shaken(std::move(*from)));
    if (bestObjective < before)
      idle = 0;
  }
}

namespace {
/// First block of the run of equal types that `block` is in, and the first after it.
std::pair<int, int> runAround(const AssignmentSpace &assignments, const TypeAssignment &assignment,
                              int block) {
  int begin = block, end = block + 1, type = assignments.typeOf(assignment.actions[block]);
  while (begin > 0 && assignments.typeOf(assignment.actions[begin - 1]) == type)
    --begin;
  while (end < assignments.blocks && assignments.typeOf(assignment.actions[end]) == type)
    ++end;
  return {begin, end};
}

void put(const AssignmentSpace &assignments, TypeAssignment &assignment, int begin, int end,
         int action) {
  for (int block = begin; block < end; ++block)
    if (assignments.allowed(block, action))
      assignment.actions[block] = block == begin ? action : assignments.typeOf(action);
}
} // namespace

TypeAssignment neighbour(const AssignmentSpace &assignments, TypeAssignment assignment,
                         std::mt19937_64 &random, bool mayExchange) {
  int block = draw(random, assignments.blocks);
  auto [begin, end] = runAround(assignments, assignment, block);
  const std::vector<int> &list = assignments.allowedAt(block);
  int action = list[draw(random, int(list.size()))];
  const int moves = mayExchange ? 6 : 5;
  constexpr int otherMicroBatches = -1; // behind all others
  const int move = draw(random, assignments.choices > 1 ? moves + 1 : moves);
  switch (move < moves ? move : otherMicroBatches) {
  case 0: // the run grows to the left or to the right
    if (begin > 0 && draw(random, 2))
      put(assignments, assignment, std::max(0, begin - 1 - draw(random, 3)), begin,
          assignments.typeOf(assignment.actions[block]));
    else
      put(assignments, assignment, end, std::min(assignments.blocks, end + 1 + draw(random, 3)),
          assignments.typeOf(assignment.actions[block]));
    break;
  case 1: // the whole run goes elsewhere
    put(assignments, assignment, begin, end, action);
    break;
  case 2: // a part of it
    put(assignments, assignment, block, std::min(end, block + 1 + draw(random, end - block)),
        action);
    break;
  case 3: // it joins its neighbour
    put(assignments, assignment, begin, end,
        assignments.typeOf(
            assignment.actions[begin > 0 && (end == assignments.blocks || draw(random, 2))
                                   ? begin - 1
                                   : std::min(end, assignments.blocks - 1)]));
    break;
  case 4: // one block
    assignment.actions[block] = action;
    break;
  case 5: { // two runs change places
    int from = assignment.actions[begin];
    auto [otherBegin, otherEnd] =
        runAround(assignments, assignment, draw(random, assignments.blocks));
    int to = assignment.actions[otherBegin];
    put(assignments, assignment, begin, end, to);
    put(assignments, assignment, otherBegin, otherEnd, from);
    break;
  }
  case otherMicroBatches:
    assignment.choice = draw(random, assignments.choices);
  }
  return assignment;
}

} // namespace heterplan
