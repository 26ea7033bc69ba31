#include "search/burst/BurstSearch.h"

#include "search/burst/BurstBounds.h"
#include "search/burst/BurstFlows.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-9;
/// The most labels at one cut with one width.
constexpr size_t mostLabels = 4000;

/// The stages from some cut to the end of the model.
struct Label {
  double time = 0;    // passes, updates, and moves between them
  double backlog = 0; // of sums, when the backward pass of the first stage is done
  double deviceTime = 0;
  SmallVector<double, 0> memory; // by type: BurstTable::needs(); empty where it does not count
  int begin = 0, end = 0, width = 0;
  int next = -1;               // the label behind the first stage
  int block = -1, choice = -1; // branches side by side between the two
  double iteration() const { return time + backlog; }
  BurstSums sums() const { return {time, deviceTime, backlog}; }
};

class WidthSearch {
public:
  /// `branches`: those that may lie side by side; null: all stages run in turn. `bounds`: of the
  /// same plans. Only those are looked for of which what is to be least is at most `limit`.
  WidthSearch(const BurstTable &table, const BurstGoal &goal, BranchTable *branches,
              const BurstBounds &bounds, double limit, bool countsMemory, SearchBudget &budget)
      : table(table), goal(goal), branches(branches), bounds(bounds), countsMemory(countsMemory),
        budget(budget), nodes(size_t(table.cuts() + 1) * size_t(table.widths())),
        before(nodes.size()), longest(goal.longest.value() * (1 + rounding)), limit(limit) {}

  BurstChoice run() {
    grow(-1, table.cuts());
    for (int cut = table.cuts() - 1; cut > 0 && !budget.exhausted(); --cut)
      for (int width = 0; width < table.widths(); ++width) {
        for (int label : std::vector<int>(nodes[place(cut, width)]))
          grow(label, cut);
        for (int label : std::vector<int>(nodes[place(cut, width)]))
          growBranches(label, cut);
        for (int label : std::vector<int>(before[place(cut, width)]))
          growBefore(label, cut);
      }
    return choice();
  }

private:
  size_t place(int cut, int width) const {
    return size_t(cut) * size_t(table.widths()) + size_t(width);
  }

  /// Adds branches side by side that end at cut `end` before label `next`, and what the stage
  /// before them receives; that stage itself comes later.
  void growBranches(int next, int end) {
    for (int i = 0; branches && i < int(branches->blocks().size()); ++i) {
      if (branches->blocks()[i].end != end)
        continue;
      for (int width = 0; width < table.widths(); ++width)
        addBranches(next, i, width);
    }
  }

  /// Extends a label by branches behind a stage of `width`, cheapest first, until the cheapest one
  /// left adds too much.
  void addBranches(int next, int block, int width) {
    int narrowest = std::min(table.width(width), table.width(labels[next].width));
    int begin = branches->blocks()[block].begin;
    double room = bounds.roomFor(labels[next].sums(), begin, width, limits());
    for (const RankedLanes &ranked : bounds.ranked(block)) {
      if (ranked.least > room)
        break;
      if (branches->choices(block)[ranked.choice].devices <= narrowest)
        addBranches(next, block, ranked.choice, width);
    }
  }

  void addBranches(int next, int block, int choice, int width) {
    const LaneChoice &lanes = branches->choices(block)[choice];
    const int begin = branches->blocks()[block].begin;
    if (!bounds.allow(labels[next].sums() + lanes.least, begin, width, /*isOwn=*/true, limits()))
      return; // most are not worthwhile, and this is cheap
    budget.add(1);
    BlockCost cost =
        branches->cost(block, lanes, table.width(width), table.width(labels[next].width));
    if (!cost.isAllowed)
      return;
    Label label = labels[next];
    label.begin = label.end = begin;
    label.width = width;
    label.next = next;
    label.block = block;
    label.choice = choice;
    label.time += cost.time;
    label.deviceTime += cost.deviceTime;
    double open = label.backlog, longest = 0; // from when the stage behind is done
    for (size_t i = 0; i < cost.backward.size(); ++i) {
      longest = std::max(longest, cost.backward[i]);
      open = std::max(open, std::max(labels[next].backlog, cost.backward[i]) + lanes.lanes[i].sum);
    }
    label.backlog = std::max(0.0, open - longest - cost.returned);
    if (isWorthwhile(label, /*isOwn=*/true))
      keepIfBest(label, before[place(label.begin, width)]);
  }

  /// Adds the stage before the branches of label `next`.
  void growBefore(int next, int end) {
    Label behind = labels[next];
    budget.add(1);
    for (int begin = end; begin-- > 0;) {
      const BurstRun &run = table.run(begin, end, behind.width);
      if (run.time < 0)
        break; // nor are longer ones
      Label label = behind;
      label.begin = begin;
      addRun(run, label);
      insert(label);
    }
  }

  /// Adds a stage before label `next`, whose first stage begins at cut `end`.
  void grow(int next, int end) {
    for (int width = 0; width < table.widths(); ++width) {
      budget.add(1);
      BurstMove move{0, 0};
      if (next >= 0) {
        move = table.move(end, width, labels[next].width);
        if (width == labels[next].width || move.forward < 0)
          continue;
        BurstSums behind = labels[next].sums() + table.sumsOf(move, width, labels[next].width);
        if (!bounds.allow(behind, end, width, /*isOwn=*/true, limits()))
          continue;
      }
      for (int begin = end; begin-- > 0;) {
        const BurstRun &run = table.run(begin, end, width);
        if (run.time < 0)
          break; // nor are longer ones
        insert(grown(next, begin, end, width, run, move));
      }
    }
  }

  Label grown(int next, int begin, int end, int width, const BurstRun &run,
              const BurstMove &move) const {
    Label label = next < 0 ? Label() : labels[next];
    if (next >= 0)
      label.deviceTime += table.width(label.width) * move.forward;
    label.deviceTime += table.width(width) * move.backward;
    label.time += move.forward + move.backward;
    label.backlog = std::max(0.0, label.backlog - move.backward);
    label.begin = begin;
    label.end = end;
    label.width = width;
    label.next = next;
    label.block = label.choice = -1;
    addRun(run, label);
    return label;
  }

  void addRun(const BurstRun &run, Label &label) const {
    label.deviceTime += table.width(label.width) * (run.time + run.sum);
    label.time += run.time;
    label.backlog = std::max(0.0, label.backlog - run.backward) + run.sum;
    if (!countsMemory)
      return;
    ArrayRef<double> needs = table.needs(label.begin, label.end, label.width);
    label.memory.resize(needs.size());
    for (size_t type = 0; type < needs.size(); ++type)
      label.memory[type] += needs[type];
  }

  /// `isOwn`: the stage that ends where the label begins has its width.
  bool isWorthwhile(const Label &label, bool isOwn = false) const {
    if (countsMemory && !isWithin(label.memory, table.memories()))
      return false;
    return bounds.allow(label.sums(), label.begin, label.width, isOwn, limits());
  }

  static bool isWithin(ArrayRef<double> some, ArrayRef<double> most) {
    for (size_t type = 0; type < some.size(); ++type)
      if (some[type] > most[type])
        return false;
    return true;
  }

  /// The limits that a plan must keep to improve the incumbent.
  BurstLimits limits() const {
    if (goal.deviceTime)
      return {longest, limit};
    return {std::min(longest, limit), infinity};
  }

  /// Whether `a` does at least as well as `b` whatever stages come before: what its sums are
  /// longer, an iteration is longer at most.
  bool dominates(const Label &a, const Label &b) const {
    if ((goal.deviceTime && a.deviceTime > b.deviceTime) ||
        (countsMemory && !isWithin(a.memory, b.memory)))
      return false;
    bool timeMatters = !goal.deviceTime || goal.longest < Seconds(infinity);
    return !timeMatters || a.time + std::max(0.0, a.backlog - b.backlog) <= b.time;
  }

  bool isBetter(const Label &a, const Label &b) const {
    std::pair first(a.iteration(), a.deviceTime), second(b.iteration(), b.deviceTime);
    if (goal.deviceTime) {
      std::swap(first.first, first.second);
      std::swap(second.first, second.second);
    }
    return first < second;
  }

  void insert(const Label &label) {
    if (!isWorthwhile(label))
      return;
    if (label.begin > 0)
      return keepIfBest(label, nodes[place(label.begin, label.width)]);
    double value = goal.deviceTime ? label.deviceTime : label.iteration();
    if (label.iteration() > longest || value > limit ||
        (best >= 0 && !isBetter(label, labels[best])))
      return;
    best = keep(label);
    limit = value;
  }

  /// Keeps `label` among those of one place, unless one of them does as well.
  void keepIfBest(const Label &label, std::vector<int> &kept) {
    if (any_of(kept, [&](int other) { return dominates(labels[other], label); }))
      return;
    erase_if(kept, [&](int other) { return dominates(label, labels[other]); });
    if (kept.size() >= mostLabels)
      complete = false;
    else
      kept.push_back(keep(label));
  }

  int keep(const Label &label) {
    labels.push_back(label);
    return static_cast<int>(labels.size()) - 1;
  }

  BurstChoice choice() const {
    BurstChoice result;
    result.proven = complete && !budget.exhausted();
    result.bound = Seconds(bounds.whole());
    if (best < 0)
      return result;
    result.iteration = Seconds(labels[best].iteration());
    result.deviceTime = Seconds(labels[best].deviceTime);
    Seconds value = goal.deviceTime ? result.deviceTime : result.iteration;
    result.bound = result.proven ? value : std::min(result.bound, value);
    for (int label = best; label >= 0; label = labels[label].next)
      addStages(labels[label], result.stages);
    return result;
  }

  /// The first stage of `label` and the branches behind it.
  void addStages(const Label &label, std::vector<BurstStage> &stages) const {
    stages.push_back({table.layers(label.begin, label.end), table.width(label.width)});
    if (label.block < 0)
      return;
    for (const Lane &lane : branches->choices(label.block)[label.choice].lanes)
      stages.push_back({lane.layers, lane.devices.width, lane.devices.first, label.block,
                        branches->blocks()[label.block].passes});
  }

  const BurstTable &table;
  const BurstGoal &goal;
  BranchTable *const branches;
  const BurstBounds &bounds;
  const bool countsMemory;
  SearchBudget &budget;
  std::vector<Label> labels;
  std::vector<std::vector<int>> nodes; // by cut and width: labels whose first stage begins there
  /// Widths of the stage before labels that begin with branches side by side.
  std::vector<std::vector<int>> before;
  int best = -1;
  const double longest; // of an iteration
  double limit;         // on what is to be least: of the best so far
  bool complete = true;
};

/// Whether each device holds all of its stages.
bool fits(BurstCosts &costs, const BurstChoice &choice) {
  if (choice.stages.empty() || costs.problem.request.ignoreMemory)
    return true;
  std::map<int, Bytes> needs; // by device
  const Pool &pool = costs.pool;
  BurstFlows flows = flowsOf(costs.problem.graph, choice.stages);
  for (size_t i = 0; i < choice.stages.size(); ++i) {
    const BurstStage &stage = choice.stages[i];
    StageCost cost = costs.stage(stage.layers, stage.width, flows.messagesOf(i));
    for (int device = 0; device < stage.width; ++device)
      needs[stage.first + device] += costs.memory(cost, pool.kindOf(stage.width, device));
  }
  return all_of(needs, [&](const auto &need) {
    return need.second <= costs.problem.roomOf(pool.typeOf(need.first)).memory;
  });
}

/// The kinds of plans that are searched: stages in turn only, or side by side as well.
class BoundedSearch {
public:
  BoundedSearch(const BurstTable &table, const BurstGoal &goal, BranchTable *branches,
                SearchBudget &budget)
      : table(table), goal(goal), branches(branches), budget(budget),
        bounds(table, branches, goal) {}

  /// Plans near the bound first, then farther from it each time: where there is one, few others are
  /// looked at.
  BurstChoice run(bool countsMemory) {
    constexpr double nearest = 1e-3, factor = 8, farthest = 1;
    const double most = goal.atMost.value();
    double bound = bounds.whole();
    bool isComplete = true;
    for (double share = nearest; share < farthest; share *= factor) {
      double limit = bounds.whole() * (1 + share);
      if (!(limit < most))
        break;
      BurstChoice choice = runWithin(limit, countsMemory);
      if (!choice.stages.empty())
        return bounded(std::move(choice), bound);
      isComplete &= choice.proven;
      if (isComplete)
        bound = limit;
    }
    return bounded(runWithin(most, countsMemory), bound);
  }

private:
  BurstChoice runWithin(double limit, bool countsMemory) {
    return WidthSearch(table, goal, branches, bounds, limit, countsMemory, budget).run();
  }

  /// Nothing is better than `bound`.
  BurstChoice bounded(BurstChoice choice, double bound) const {
    Seconds value = goal.deviceTime ? choice.deviceTime : choice.iteration;
    choice.bound = Seconds(bound);
    if (!choice.stages.empty())
      choice.bound = choice.proven ? value : std::min(value, choice.bound);
    return choice;
  }

  const BurstTable &table;
  const BurstGoal &goal;
  BranchTable *const branches;
  SearchBudget &budget;
  const BurstBounds bounds;
};
} // namespace

Expected<BurstChoice> searchWidths(BurstCosts &costs, ArrayRef<int> positions,
                                   const BurstGoal &goal, SearchBudget &budget) {
  BurstTable table(costs, positions, goal);
  BranchTable branches(costs, positions, table.allWidths(), goal.amplificationLimit);
  if (Error error = costs.takeError())
    return error;
  bool hasBranches = !branches.blocks().empty();
  BurstChoice choice = BoundedSearch(table, goal, hasBranches ? &branches : nullptr, budget)
                           .run(/*countsMemory=*/false);
  if (fits(costs, choice))
    return choice;
  table.fillMemory(costs);
  BurstChoice fitting = BoundedSearch(table, goal, nullptr, budget).run(/*countsMemory=*/true);
  if (hasBranches) {
    fitting.proven = false;
    fitting.bound = std::min(choice.bound, fitting.bound);
  }
  return fitting;
}

} // namespace heterplan
