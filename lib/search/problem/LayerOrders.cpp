#include "search/problem/LayerOrders.h"

#include "search/problem/Cuts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
/// Layers that stay together, with the tensors that they exchange with others.
struct Unit {
  int begin = 0, end = 0;         // layers
  double work = 0;                // seconds
  std::vector<int> reads, makes;  // indices into UnitGraph::flows
  std::vector<int> sources;       // units that make what it reads, each once
  std::vector<int> before, after; // units of which the order is fixed, each once
};

/// A tensor that units exchange.
struct UnitFlow {
  int producer = 0;
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

} // namespace

/// The units of a problem, numbered in the given order.
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
      for (std::vector<int> *list : {&unit.sources, &unit.before, &unit.after}) {
        sort(*list);
        list->erase(std::unique(list->begin(), list->end()), list->end());
      }
  }

  int size() const { return static_cast<int>(units.size()); }

  /// Whether the given order is the only one.
  bool isChain() const {
    for (int unit = 1; unit < size(); ++unit)
      if (!is_contained(units[unit].before, unit - 1))
        return false;
    return true;
  }

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
    UnitFlow flow{producer, directions * (tensor.bytesPerSample + tensor.fixedBytes).value(), {}};
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
      units[consumer].sources.push_back(producer);
      order(producer, consumer);
    }
    flows.push_back(std::move(flow));
  }
};

namespace {
/// The cuts of an order, behind each unit but the last.
struct OrderCuts {
  std::vector<double> work;  // seconds of the units before it
  std::vector<double> width; // bytes of a sample that cross it
  double allWork = 0;

  OrderCuts(const UnitGraph &graph, ArrayRef<int> order) {
    std::vector<int> readers; // of each flow, that are still to come
    for (const UnitFlow &flow : graph.flows)
      readers.push_back(static_cast<int>(flow.consumers.size()));
    double live = 0;
    for (int unit : order) {
      allWork += graph.units[unit].work;
      live += graph.widthMade(unit);
      for (int flow : graph.units[unit].reads)
        if (--readers[flow] == 0)
          live -= graph.flows[flow].bytes;
      work.push_back(allWork);
      width.push_back(live);
    }
    work.pop_back();
    width.pop_back();
  }

  /// LayerOrders::narrowest() says what it is.
  double meanWidth() const {
    constexpr int parts = 16;
    double sum = 0;
    for (int part = 1; part < parts; ++part) {
      const auto at = [&](double place) {
        return int(lower_bound(work, place / parts * allWork) - work.begin());
      };
      const int first = std::max(0, at(part - 0.5) - 1);
      const int last = std::min(int(work.size()), at(part + 0.5) + 1);
      sum += *std::min_element(width.begin() + first, width.begin() + std::max(last, first + 1));
    }
    return sum / (parts - 1);
  }
};

/// A boundary between two stages of a plan, and how the time of a micro-batch would change there.
struct Boundary {
  double work = 0, width = 0;                   // seconds of the units before it, bytes across it
  double balanced = 0;                          // work if the stages computed equally long
  double secondsOfWork = 0, secondsOfBytes = 0; // of a stage, for a second of work; of a byte

  /// Seconds that are lost by a cut behind so much work and of this width.
  double lost(double before, double across) const {
    return std::abs(before - balanced) * secondsOfWork + across * secondsOfBytes;
  }
};

/// The boundaries of `plan`, whose stages have the layers of `layers` in any order.
std::vector<Boundary> boundariesOf(const Plan &plan, const UnitGraph &graph,
                                   const LayerGraph &layers) {
  const int stages = static_cast<int>(plan.stages.size());
  StringMap<int> stageByLayer;
  for (int s = 0; s < stages; ++s)
    for (const std::string &layer : plan.stages[s].layers)
      stageByLayer[layer] = s;
  std::vector<int> stageOf; // by unit
  std::vector<double> work(stages), speed(stages);
  double allWork = 0, allSpeed = 0;
  for (const Unit &unit : graph.units) {
    stageOf.push_back(stageByLayer.lookup(layers.layers[unit.begin].name));
    work[stageOf.back()] += unit.work;
    allWork += unit.work;
  }
  for (int s = 0; s < stages; ++s)
    allSpeed += speed[s] = work[s] / std::max(plan.stages[s].computing().value(), 1e-12);
  std::vector<Boundary> boundaries(stages - 1);
  for (const UnitFlow &flow : graph.flows) {
    int last = 0;
    for (int consumer : flow.consumers)
      last = std::max(last, stageOf[consumer]);
    for (int b = stageOf[flow.producer]; b < last; ++b)
      boundaries[b].width += flow.bytes;
  }
  double before = 0, balanced = 0;
  for (int b = 0; b + 1 < stages; ++b) {
    Boundary &boundary = boundaries[b];
    boundary.work = before += work[b];
    boundary.balanced = balanced += allSpeed > 0 ? allWork * speed[b] / allSpeed : 0;
    const double slower = std::min(speed[b], speed[b + 1]);
    boundary.secondsOfWork = slower > 0 ? 1 / slower : 0;
    const Seconds sent = plan.stages[b + 1].receive + plan.stages[b].receiveGradient;
    boundary.secondsOfBytes = boundary.width > 0 ? sent.value() / boundary.width : 0;
  }
  return boundaries;
}

/// Seconds that the best cut of `cuts` for each boundary loses.
double lostBy(const OrderCuts &cuts, ArrayRef<Boundary> boundaries) {
  double sum = 0;
  for (const Boundary &boundary : boundaries) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t cut = 0; cut < cuts.work.size(); ++cut)
      least = std::min(least, boundary.lost(cuts.work[cut], cuts.width[cut]));
    sum += least;
  }
  return sum;
}

/// A depth-first order: what a unit reads comes directly before it, branch by branch. `pick`
/// changes the order of the branches.
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

LayerOrders::LayerOrders(const Problem &problem) : problem(problem) {
  const std::vector<double> work = workOf(problem);
  if (work.empty())
    return;
  graph = std::make_unique<UnitGraph>(problem, work);
  std::vector<int> &given = orders.emplace_back(graph->size());
  std::iota(given.begin(), given.end(), 0);
  if (graph->isChain())
    return;
  orders.push_back(BeamSearch(*graph).run());
  constexpr int depthFirstOrders = 256;
  std::mt19937_64 random(1);
  for (int i = 0; i < depthFirstOrders; ++i)
    orders.push_back(depthFirst(*graph, [&](std::vector<int> &branches) {
      for (size_t left = branches.size(); i > 0 && left > 1; --left)
        std::swap(branches[left - 1], branches[random() % left]);
    }));
}

LayerOrders::~LayerOrders() = default;

std::vector<int> LayerOrders::layersOf(ArrayRef<int> order) const {
  std::vector<int> layers;
  for (int unit : order)
    for (int layer = graph->units[unit].begin; layer < graph->units[unit].end; ++layer)
      layers.push_back(layer);
  return layers;
}

std::optional<std::vector<int>> LayerOrders::narrowest() const {
  size_t best = 0;
  double least = 0;
  for (size_t i = 0; i < orders.size() && orders.size() > 1; ++i)
    if (double width = OrderCuts(*graph, orders[i]).meanWidth(); i == 0 || width < least) {
      best = i;
      least = width;
    }
  return best == 0 ? std::nullopt : std::optional(layersOf(orders[best]));
}

std::optional<std::vector<int>> LayerOrders::fitting(const Plan &plan) const {
  if (orders.size() < 2 || plan.stages.size() < 2)
    return std::nullopt;
  const std::vector<Boundary> boundaries = boundariesOf(plan, *graph, problem.graph);
  double least = 0;
  for (const Boundary &boundary : boundaries)
    least += boundary.lost(boundary.work, boundary.width);
  const std::vector<int> *best = nullptr;
  for (const std::vector<int> &order : orders)
    if (double lost = lostBy(OrderCuts(*graph, order), boundaries); lost < least * (1 - 1e-6)) {
      best = &order;
      least = lost;
    }
  return best ? std::optional(layersOf(*best)) : std::nullopt;
}

} // namespace heterplan
