#include "search/problem/LayerOrders.h"

#include "search/problem/TopologicalOrders.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace llvm;

namespace heterplan {

namespace {
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
  orders.push_back(beamSearch(*graph));
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
