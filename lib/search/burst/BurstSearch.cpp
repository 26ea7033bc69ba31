#include "search/burst/BurstSearch.h"

#include "search/burst/Branches.h"
#include "search/burst/BurstFlows.h"
#include "search/burst/BurstTable.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-9;
/// Of labels that are kept at one cut with one width.
constexpr size_t mostLabels = 4000;

/// The stages from some cut to the end of the model.
struct Label {
  double time = 0;    // passes, updates, and moves between them
  double backlog = 0; // of sums, when the backward pass of the first stage is done
  double deviceTime = 0;
  double memory = 0; // of the first device, which is in all stages
  int begin = 0, end = 0, width = 0;
  int next = -1;               // the label behind the first stage
  int block = -1, choice = -1; // branches side by side between the two
  double iteration() const { return time + backlog; }
};

/// By cut and width behind it, the least that the stages before it add: where it is of the next
/// stage, and of the stage that ends there (`own`).
struct Rest {
  std::vector<double> next, own;
};

class WidthSearch {
public:
  /// `branches`: those that may lie side by side; null: all stages run in turn.
  WidthSearch(const BurstTable &table, const BurstGoal &goal, BranchTable *branches,
              bool countsMemory, SearchBudget &budget)
      : table(table), goal(goal), branches(branches), countsMemory(countsMemory), budget(budget),
        nodes(size_t(table.cuts() + 1) * size_t(table.widths())), before(nodes.size()),
        restTime(completions(
            [](const BurstRun &run, int) { return run.time; },
            [](const BurstMove &move, int, int) { return move.forward + move.backward; },
            &LaneChoice::leastTime)),
        restDeviceTime(
            completions([](const BurstRun &run, int width) { return width * (run.time + run.sum); },
                        [](const BurstMove &move, int before, int after) {
                          return after * move.forward + before * move.backward;
                        },
                        &LaneChoice::leastDeviceTime)) {}

  /// From here on only what is better than `choice` is looked for.
  void beat(const BurstChoice &choice) {
    if (!choice.stages.empty())
      limit = (goal.deviceTime ? choice.deviceTime : choice.iteration).value() * (1 - rounding);
  }

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

  /// Sums of gradients are not counted in times. At the end the width does not matter.
  template <typename OfRun, typename OfMove>
  Rest completions(OfRun ofRun, OfMove ofMove, double LaneChoice::*ofChoice) const {
    size_t widths = size_t(table.widths());
    std::vector<double> rest(size_t(table.cuts() + 1) * widths, infinity);
    std::vector<double> own(rest.size(), infinity);
    std::fill(rest.begin(), rest.begin() + ptrdiff_t(widths), 0);
    for (int end = 1; end <= table.cuts(); ++end) {
      std::fill_n(rest.begin() + ptrdiff_t(place(end, 0)), widths,
                  leastOfBranches(end, own, ofChoice));
      for (int before = 0; before < table.widths(); ++before) {
        double &least = own[place(end, before)];
        for (int begin = 0; begin < end; ++begin)
          if (const BurstRun &run = table.run(begin, end, before); run.time >= 0)
            least = std::min(least, rest[place(begin, before)] + ofRun(run, table.width(before)));
        for (int after = 0; after < table.widths(); ++after) {
          double moving = 0;
          if (end < table.cuts()) {
            const BurstMove &move = table.move(end, before, after);
            if (before == after || move.forward < 0)
              continue;
            moving = ofMove(move, table.width(before), table.width(after));
          }
          double &entry = rest[place(end, after)];
          entry = std::min(entry, least + moving);
        }
      }
    }
    return {std::move(rest), std::move(own)};
  }

  /// Of branches side by side that end at `end`, with the stages before them.
  double leastOfBranches(int end, const std::vector<double> &own,
                         double LaneChoice::*ofChoice) const {
    double result = infinity;
    for (size_t i = 0; branches && i < branches->blocks().size(); ++i) {
      const BranchBlock &block = branches->blocks()[i];
      if (block.end != end)
        continue;
      double least = infinity;
      for (int width = 0; width < table.widths(); ++width)
        least = std::min(least, own[place(block.begin, width)]);
      for (const LaneChoice &choice : branches->choices(int(i)))
        result = std::min(result, least + choice.*ofChoice);
    }
    return result;
  }

  /// Adds branches side by side that end at cut `end` before label `next`, and what the stage
  /// before them receives; that stage itself comes later.
  void growBranches(int next, int end) {
    for (int i = 0; branches && i < int(branches->blocks().size()); ++i) {
      if (branches->blocks()[i].end != end)
        continue;
      const std::vector<LaneChoice> &choices = branches->choices(i);
      for (int choice = 0; choice < int(choices.size()); ++choice)
        for (int width = table.widths(); width-- > 0;) {
          int narrowest = std::min(table.width(width), table.width(labels[next].width));
          if (choices[choice].devices > narrowest)
            break;
          addBranches(next, i, choice, width);
        }
    }
  }

  void addBranches(int next, int block, int choice, int width) {
    const LaneChoice &lanes = branches->choices(block)[choice];
    Label label = labels[next];
    label.begin = label.end = branches->blocks()[block].begin;
    label.width = width;
    label.next = next;
    label.block = block;
    label.choice = choice;
    label.time += lanes.leastTime;
    label.deviceTime += lanes.leastDeviceTime;
    if (!isWorthwhile(label, /*isOwn=*/true)) // most are not, and this is cheap
      return;
    budget.add(1);
    BlockCost cost =
        branches->cost(block, lanes, table.width(width), table.width(labels[next].width));
    if (!cost.isAllowed)
      return;
    label.time += cost.time - lanes.leastTime;
    label.deviceTime += cost.deviceTime - lanes.leastDeviceTime;
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
    for (int begin = end; begin-- > 0;) {
      const BurstRun &run = table.run(begin, end, behind.width);
      if (run.time < 0)
        break; // nor are longer ones
      budget.add(1);
      Label label = behind;
      addRun(run, label);
      label.begin = begin;
      insert(label);
    }
  }

  /// Adds a stage before label `next`, whose first stage begins at cut `end`.
  void grow(int next, int end) {
    for (int width = 0; width < table.widths(); ++width) {
      BurstMove move{0, 0};
      if (next >= 0) {
        move = table.move(end, width, labels[next].width);
        if (width == labels[next].width || move.forward < 0)
          continue;
      }
      for (int begin = end; begin-- > 0;) {
        const BurstRun &run = table.run(begin, end, width);
        if (run.time < 0)
          break; // nor are longer ones
        budget.add(1);
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
    label.memory += run.memory;
  }

  /// `isOwn`: the stage that ends where the label begins has its width.
  bool isWorthwhile(const Label &label, bool isOwn = false) const {
    size_t at = place(label.begin, label.width);
    double time = label.time + (isOwn ? restTime.own : restTime.next)[at];
    if (countsMemory && label.memory > goal.memory.value())
      return false;
    if (time > goal.longest.value() * (1 + rounding))
      return false;
    if (!goal.deviceTime)
      return time <= limit;
    return label.deviceTime + (isOwn ? restDeviceTime.own : restDeviceTime.next)[at] <= limit;
  }

  /// Whether `a` does at least as well as `b` whatever stages come before: what its sums are
  /// longer, an iteration is longer at most.
  bool dominates(const Label &a, const Label &b) const {
    if ((goal.deviceTime && a.deviceTime > b.deviceTime) || (countsMemory && a.memory > b.memory))
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
    if (label.iteration() > goal.longest.value() * (1 + rounding) || value > limit ||
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
    const std::vector<double> &rest = (goal.deviceTime ? restDeviceTime : restTime).next;
    result.bound = Seconds(rest[place(table.cuts(), 0)]);
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
  const bool countsMemory;
  SearchBudget &budget;
  std::vector<Label> labels;
  std::vector<std::vector<int>> nodes; // by cut and width: labels whose first stage begins there
  /// Likewise labels that begin with branches side by side, of the stage before them.
  std::vector<std::vector<int>> before;
  Rest restTime, restDeviceTime;
  int best = -1;
  double limit = infinity; // on what is to be least: of the best so far
  bool complete = true;
};

/// Of the device that needs most.
Bytes memoryOf(BurstCosts &costs, const BurstChoice &choice) {
  int widest = 0;
  for (const BurstStage &stage : choice.stages)
    widest = std::max(widest, stage.devices().end());
  std::vector<Bytes> needs(widest);
  if (needs.empty())
    return Bytes();
  BurstFlows flows = flowsOf(costs.problem.graph, choice.stages);
  for (size_t i = 0; i < choice.stages.size(); ++i) {
    const BurstStage &stage = choice.stages[i];
    StageCost cost = costs.stage(stage.layers, stage.width, flows.messagesOf(i));
    Bytes need = costs.memory(cost, stage.width);
    for (int device = stage.first; device < stage.devices().end(); ++device)
      needs[device] += need;
  }
  return *std::max_element(needs.begin(), needs.end());
}

/// `wider`, or `first` where a search of more than that held found nothing to beat it.
BurstChoice betterOf(BurstChoice first, BurstChoice wider, bool deviceTime) {
  if (!wider.stages.empty() || first.stages.empty())
    return wider;
  Seconds value = deviceTime ? first.deviceTime : first.iteration;
  first.proven = wider.proven;
  first.bound = wider.proven ? value : std::min(wider.bound, value);
  return first;
}
} // namespace

Expected<BurstChoice> searchWidths(BurstCosts &costs, ArrayRef<int> positions,
                                   const BurstGoal &goal, SearchBudget &budget) {
  BurstTable table(costs, positions, goal);
  BranchTable branches(costs, positions, table.allWidths(), goal.amplificationLimit);
  if (Error error = costs.takeError())
    return error;
  BurstChoice choice = WidthSearch(table, goal, nullptr, /*countsMemory=*/false, budget).run();
  if (!branches.blocks().empty()) {
    WidthSearch beside(table, goal, &branches, /*countsMemory=*/false, budget);
    beside.beat(choice);
    choice = betterOf(std::move(choice), beside.run(), goal.deviceTime);
  }
  if (memoryOf(costs, choice) <= goal.memory)
    return choice;
  BurstChoice fitting = WidthSearch(table, goal, nullptr, /*countsMemory=*/true, budget).run();
  if (!branches.blocks().empty()) {
    fitting.proven = false;
    fitting.bound = std::min(choice.bound, fitting.bound);
  }
  return fitting;
}

} // namespace heterplan
