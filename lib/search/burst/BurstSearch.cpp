#include "search/burst/BurstSearch.h"

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
  int next = -1; // the label behind the first stage
  double iteration() const { return time + backlog; }
};

class WidthSearch {
public:
  WidthSearch(const BurstTable &table, const BurstGoal &goal, bool countsMemory,
              SearchBudget &budget)
      : table(table), goal(goal), countsMemory(countsMemory), budget(budget),
        nodes(size_t(table.cuts() + 1) * size_t(table.widths())),
        restTime(completions(
            [](const BurstRun &run, int) { return run.time; },
            [](const BurstMove &move, int, int) { return move.forward + move.backward; })),
        restDeviceTime(
            completions([](const BurstRun &run, int width) { return width * (run.time + run.sum); },
                        [](const BurstMove &move, int before, int after) {
                          return after * move.forward + before * move.backward;
                        })) {}

  BurstChoice run() {
    grow(-1, table.cuts());
    for (int cut = table.cuts() - 1; cut > 0 && !budget.exhausted(); --cut)
      for (int width = 0; width < table.widths(); ++width)
        for (int label : std::vector<int>(node(cut, width)))
          grow(label, cut);
    return choice();
  }

private:
  std::vector<int> &node(int cut, int width) {
    return nodes[size_t(cut) * size_t(table.widths()) + size_t(width)];
  }

  /// By cut and width behind it: the least that the stages before it add, sums of gradients not
  /// counted in times. At the end the width does not matter.
  template <typename OfRun, typename OfMove>
  std::vector<double> completions(OfRun ofRun, OfMove ofMove) const {
    size_t widths = size_t(table.widths());
    std::vector<double> rest(size_t(table.cuts() + 1) * widths, infinity);
    std::fill(rest.begin(), rest.begin() + ptrdiff_t(widths), 0);
    for (int end = 1; end <= table.cuts(); ++end)
      for (int before = 0; before < table.widths(); ++before) {
        double least = infinity; // of the stages up to `end`, the last on `before`
        for (int begin = 0; begin < end; ++begin)
          if (const BurstRun &run = table.run(begin, end, before); run.time >= 0)
            least = std::min(least, rest[size_t(begin) * widths + size_t(before)] +
                                        ofRun(run, table.width(before)));
        for (int after = 0; after < table.widths(); ++after) {
          double moving = 0;
          if (end < table.cuts()) {
            const BurstMove &move = table.move(end, before, after);
            if (before == after || move.forward < 0)
              continue;
            moving = ofMove(move, table.width(before), table.width(after));
          }
          double &entry = rest[size_t(end) * widths + size_t(after)];
          entry = std::min(entry, least + moving);
        }
      }
    return rest;
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
    double devices = table.width(width);
    label.deviceTime += devices * (run.time + run.sum + move.backward);
    if (next >= 0)
      label.deviceTime += table.width(label.width) * move.forward;
    label.time += run.time + move.forward + move.backward;
    label.backlog = std::max(0.0, label.backlog - run.backward - move.backward) + run.sum;
    label.memory += run.memory;
    label.begin = begin;
    label.end = end;
    label.width = width;
    label.next = next;
    return label;
  }

  bool isWorthwhile(const Label &label) const {
    size_t place = size_t(label.begin) * size_t(table.widths()) + size_t(label.width);
    if (countsMemory && label.memory > goal.memory.value())
      return false;
    if (label.time + restTime[place] > goal.longest.value() * (1 + rounding))
      return false;
    if (best < 0)
      return true;
    return goal.deviceTime ? label.deviceTime + restDeviceTime[place] <= labels[best].deviceTime
                           : label.time + restTime[place] <= labels[best].iteration();
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
    if (label.begin == 0) {
      if (label.iteration() <= goal.longest.value() * (1 + rounding) &&
          (best < 0 || isBetter(label, labels[best])))
        best = keep(label);
      return;
    }
    std::vector<int> &kept = node(label.begin, label.width);
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
    const std::vector<double> &rest = goal.deviceTime ? restDeviceTime : restTime;
    result.bound = Seconds(rest[size_t(table.cuts()) * size_t(table.widths())]);
    if (best < 0)
      return result;
    result.iteration = Seconds(labels[best].iteration());
    result.deviceTime = Seconds(labels[best].deviceTime);
    Seconds value = goal.deviceTime ? result.deviceTime : result.iteration;
    result.bound = result.proven ? value : std::min(result.bound, value);
    for (int label = best; label >= 0; label = labels[label].next)
      result.stages.push_back(
          {table.layers(labels[label].begin, labels[label].end), table.width(labels[label].width)});
    return result;
  }

  const BurstTable &table;
  const BurstGoal &goal;
  const bool countsMemory;
  SearchBudget &budget;
  std::vector<Label> labels;
  std::vector<std::vector<int>> nodes; // by cut and width: labels whose first stage begins there
  std::vector<double> restTime, restDeviceTime;
  int best = -1;
  bool complete = true;
};

/// Of the first device, which is in all stages and has as many samples as any other.
Bytes memoryOf(BurstCosts &costs, const BurstChoice &choice) {
  Bytes result{};
  for (const BurstStage &stage : choice.stages)
    result += costs.memory(costs.stage(stage.layers, stage.width), stage.width);
  return result;
}
} // namespace

Expected<BurstChoice> searchWidths(BurstCosts &costs, ArrayRef<int> positions,
                                   const BurstGoal &goal, SearchBudget &budget) {
  BurstTable table(costs, positions, goal);
  if (Error error = costs.takeError())
    return error;
  BurstChoice choice = WidthSearch(table, goal, /*countsMemory=*/false, budget).run();
  if (memoryOf(costs, choice) <= goal.memory)
    return choice;
  return WidthSearch(table, goal, /*countsMemory=*/true, budget).run();
}

} // namespace heterplan
