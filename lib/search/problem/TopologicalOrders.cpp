#include "search/problem/TopologicalOrders.h"

#include "support/Random.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
class BeamSearch {
public:
  explicit BeamSearch(const UnitGraph &graph) : graph(graph) {
    uint64_t state = 0;
    for (int unit = 0; unit < graph.size(); ++unit)
      keys.push_back(nextRandom(state));
  }

  std::vector<int> run() {
    State first;
    for (const UnitFlow &flow : graph.flows)
      first.readers.push_back(static_cast<int>(flow.consumers.size()));
    for (int unit = 0; unit < graph.size(); ++unit) {
      first.waitsFor.push_back(static_cast<int>(graph.units[unit].before.size()));
      if (first.waitsFor.back() == 0)
        first.ready.push_back(unit);
    }
    states.push_back(std::move(first));
    for (int step = 0; step < graph.size(); ++step)
      advance();
    return traceBack();
  }

private:
  static constexpr size_t beamWidth = 32, mostSorted = 4 * beamWidth;

  struct State {
    std::vector<int> readers;  // by flow: those that are still to come
    std::vector<int> waitsFor; // by unit: those before it that are still to come
    std::vector<int> ready;    // ascending
    double width = 0, cost = 0, work = 0;
    uint64_t hash = 0;
  };
  struct Choice {
    int parent = 0, unit = 0; // of the states of the step before
  };
  struct Candidate {
    Choice choice;
    double mean = 0, width = 0, cost = 0, work = 0;
    uint64_t hash = 0;

    bool operator<(const Candidate &other) const {
      return std::tuple(mean, width, choice.parent, choice.unit) <
             std::tuple(other.mean, other.width, other.choice.parent, other.choice.unit);
    }
  };

  const UnitGraph &graph;
  std::vector<uint64_t> keys; // by unit: the hash of a set is the exclusive or of those in it
  std::vector<State> states;
  std::vector<std::vector<Choice>> steps;

  Candidate candidate(int parent, int unit) const {
    const State &state = states[parent];
    Candidate next{{parent, unit}};
    next.width = state.width + graph.widthMade(unit);
    for (int flow : graph.units[unit].reads)
      if (state.readers[flow] == 1)
        next.width -= graph.flows[flow].bytes;
    const double work = graph.units[unit].work;
    next.work = state.work + work;
    next.cost = state.cost + (state.width + next.width) / 2 * work;
    next.mean = next.work > 0 ? next.cost / next.work : next.width;
    next.hash = state.hash ^ keys[unit];
    return next;
  }

  State after(const Candidate &candidate) const {
    const int unit = candidate.choice.unit;
    State next = states[candidate.choice.parent];
    next.ready.erase(lower_bound(next.ready, unit));
    for (int flow : graph.units[unit].reads)
      --next.readers[flow];
    for (int later : graph.units[unit].after)
      if (--next.waitsFor[later] == 0)
        next.ready.insert(lower_bound(next.ready, later), later);
    next.width = candidate.width;
    next.cost = candidate.cost;
    next.work = candidate.work;
    next.hash = candidate.hash;
    return next;
  }

  void advance() {
    std::vector<Candidate> candidates;
    for (int parent = 0; parent < int(states.size()); ++parent)
      for (int unit : states[parent].ready)
        candidates.push_back(candidate(parent, unit));
    if (candidates.size() > mostSorted) {
      std::nth_element(candidates.begin(), candidates.begin() + mostSorted, candidates.end());
      candidates.resize(mostSorted);
    }
    sort(candidates);
    std::vector<State> next;
    std::vector<Choice> &choices = steps.emplace_back();
    std::vector<uint64_t> known;
    for (const Candidate &each : candidates) {
      if (next.size() == beamWidth)
        break;
      if (is_contained(known, each.hash))
        continue;
      known.push_back(each.hash);
      next.push_back(after(each));
      choices.push_back(each.choice);
    }
    states = std::move(next);
  }

  std::vector<int> traceBack() const {
    std::vector<int> order;
    int state = 0;
    for (const std::vector<Choice> &choices : reverse(steps)) {
      order.push_back(choices[state].unit);
      state = choices[state].parent;
    }
    std::reverse(order.begin(), order.end());
    return order;
  }
};
} // namespace

std::vector<int> depthFirst(const UnitGraph &graph, function_ref<void(std::vector<int> &)> pick) {
  std::vector<int> order;
  std::vector<bool> seen(graph.size(), false);
  std::vector<std::pair<int, bool>> stack{{graph.size() - 1, false}};
  while (!stack.empty()) {
    auto [unit, ready] = stack.back();
    stack.pop_back();
    if (ready)
      order.push_back(unit);
    if (ready || seen[unit])
      continue;
    seen[unit] = true;
    stack.push_back({unit, true});
    std::vector<int> sources = graph.units[unit].sources;
    pick(sources);
    for (ArrayRef<int> list : {ArrayRef<int>(graph.units[unit].before), ArrayRef<int>(sources)})
      for (int source : reverse(list))
        if (!seen[source])
          stack.push_back({source, false});
  }
  return order;
}

std::vector<int> beamSearch(const UnitGraph &graph) { return BeamSearch(graph).run(); }

} // namespace heterplan
