#include "search/problem/NarrowOrder.h"

#include "search/problem/Cuts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
/// Layers that stay together, with the tensors that they exchange with others.
struct Unit {
  int begin = 0, end = 0;         // layers
  double work = 0;                // seconds
  std::vector<int> reads, makes;  // indices into UnitGraph::flows
  std::vector<int> before, after; // units of which the order is fixed, each once
};

/// A tensor that units exchange.
struct UnitFlow {
  double bytes = 0;
  std::vector<int> consumers; // ascending
};

/// Seconds of each layer on the first device type that has times for all of them; empty: none has.
std::vector<double> workOf(const Problem &problem) {
  for (const DeviceType &type : problem.cluster.types) {
    std::vector<double> work;
    for (const Layer &layer : problem.graph.layers) {
      Expected<LayerCost> cost = problem.costs->price(layer, type, problem.request.globalBatch);
      if (!cost) {
        consumeError(cost.takeError());
        break;
      }
      work.push_back((cost->forward + cost->backward).value());
    }
    if (work.size() == problem.graph.layers.size())
      return work;
  }
  return {};
}

class UnitGraph {
public:
  std::vector<Unit> units;
  std::vector<UnitFlow> flows;

  UnitGraph(const Problem &problem, ArrayRef<double> work) {
    const LayerGraph &graph = problem.graph;
    const std::vector<bool> allowed = allowedCuts(problem);
    for (int layer = 0; layer < graph.size(); ++layer) {
      if (layer == 0 || allowed[layer])
        units.emplace_back().begin = layer;
      units.back().end = layer + 1;
      units.back().work += work[layer];
      unitOf.push_back(size() - 1);
    }
    for (const LayerTensor &tensor : graph.tensors)
      add(tensor);
    for (auto [first, second] : fixedPairs(graph))
      order(unitOf[first], unitOf[second]);
    for (Unit &unit : units)
      for (std::vector<int> *list : {&unit.before, &unit.after}) {
        sort(*list);
        list->erase(std::unique(list->begin(), list->end()), list->end());
      }
  }

  int size() const { return static_cast<int>(units.size()); }

  double widthMade(int unit) const {
    double bytes = 0;
    for (int flow : units[unit].makes)
      bytes += flows[flow].bytes;
    return bytes;
  }

private:
  std::vector<int> unitOf; // by layer

  void order(int first, int second) {
    if (first == second)
      return;
    units[first].after.push_back(second);
    units[second].before.push_back(first);
  }

  void add(const LayerTensor &tensor) {
    const int producer = unitOf[tensor.producer];
    const double directions = tensor.differentiable ? 2 : 1;
    UnitFlow flow{directions * (tensor.bytesPerSample + tensor.fixedBytes).value(), {}};
    for (int consumer : tensor.consumers) {
      const int unit = unitOf[consumer];
      if (unit != producer && (flow.consumers.empty() || flow.consumers.back() != unit))
        flow.consumers.push_back(unit);
    }
    if (flow.consumers.empty())
      return;
    const int index = static_cast<int>(flows.size());
    units[producer].makes.push_back(index);
    for (int consumer : flow.consumers) {
      units[consumer].reads.push_back(index);
      order(producer, consumer);
    }
    flows.push_back(std::move(flow));
  }
};

/// The width of the cuts of `order`, as OrderWidth says it.
double widthOf(const UnitGraph &graph, ArrayRef<int> order) {
  constexpr int parts = 16;
  const int units = graph.size();
  std::vector<int> left; // consumers of each flow that are still to come
  for (const UnitFlow &flow : graph.flows)
    left.push_back(static_cast<int>(flow.consumers.size()));
  std::vector<double> share, width; // at the cut behind each unit
  double work = 0, live = 0;
  for (int unit : order) {
    work += graph.units[unit].work;
    live += graph.widthMade(unit);
    for (int flow : graph.units[unit].reads)
      if (--left[flow] == 0)
        live -= graph.flows[flow].bytes;
    share.push_back(work);
    width.push_back(live);
  }
  double sum = 0;
  for (int part = 1; part < parts; ++part) {
    const auto at = [&](double place) {
      return int(lower_bound(share, place / parts * work) - share.begin());
    };
    const int first = std::max(0, at(part - 0.5) - 1), last = std::min(units - 1, at(part + 0.5) + 1);
    double least = std::numeric_limits<double>::infinity();
    for (int cut = first; cut < last; ++cut)
      least = std::min(least, width[cut]);
    sum += std::isfinite(least) ? least : 0;
  }
  return sum / (parts - 1);
}

/// A search for an order, unit by unit. It keeps the `beamWidth` best sets of first units of each
/// size: those with the least width of cuts on average over their work. A set that two orders make
/// is kept once.
class BeamSearch {
public:
  explicit BeamSearch(const UnitGraph &graph) : graph(graph) {
    uint64_t seed = 0;
    for (int unit = 0; unit < graph.size(); ++unit)
      keys.push_back(mixed(seed += 0x9e3779b97f4a7c15));
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

  /// A number with random bits (splitmix64, Steele et al., OOPSLA 2014).
  static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }

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

std::optional<NarrowOrder> narrowOrder(const Problem &problem) {
  const std::vector<double> work = workOf(problem);
  if (work.empty())
    return std::nullopt;
  const UnitGraph graph(problem, work);
  std::vector<int> given(graph.size());
  std::iota(given.begin(), given.end(), 0);
  const std::vector<int> found = BeamSearch(graph).run();
  NarrowOrder result;
  result.width = {Bytes(widthOf(graph, given)), Bytes(widthOf(graph, found))};
  if (found == given || result.width.narrow >= result.width.given)
    return std::nullopt;
  for (int unit : found)
    for (int layer = graph.units[unit].begin; layer < graph.units[unit].end; ++layer)
      result.layers.push_back(layer);
  return result;
}

} // namespace heterplan
