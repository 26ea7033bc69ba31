#include "search/exact/Bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rounding must not make a bound exceed the true value.
constexpr double safety = 1 - 1e-12;
} // namespace

Bounds::Bounds(const Evaluator &evaluator, const StageTable &table, bool wholeModelGroups,
               Lagrangian::Memory &memory)
    : evaluator(evaluator), table(table), wholeModelGroups(wholeModelGroups),
      microBatches(table.microBatches),
      positions(static_cast<int>(evaluator.space.positions.size())),
      lagrangian(evaluator, table, wholeModelGroups, memory) {
  const Problem &problem = evaluator.problem;
  cheapest = infinity;
  for (size_t type = 0; type < problem.cluster.types.size(); ++type)
    if (evaluator.space.available[type] > 0)
      cheapest = std::min(cheapest, problem.cluster.types[type].price.value());
}

const SurrogateBounds &Bounds::bySurrogate() const {
  if (!surrogate) {
    surrogate = std::make_unique<SurrogateBounds>(evaluator, table, wholeModelGroups);
    if (iterations)
      surrogate->refine(*iterations);
  }
  return *surrogate;
}

/// Whether one limit in place of all is worth asking: of all layers multipliers tell more.
bool Bounds::asksSurrogate(const PartialPlacement &partial) const {
  const bool isRoot = partial.option < 0;
  return partial.position > 0 && !(isRoot && lagrangian.isTight());
}

double Bounds::time(const PartialPlacement &partial) const {
  const double weight = evaluator.rules.fillWeight();
  if (partial.position == 0)
    return partial.fill + weight * partial.exposed + (microBatches - weight) * partial.slowest;
  const double least = lagrangian.time(partial);
  return asksSurrogate(partial) ? std::max(least, bySurrogate().time(partial)) : least;
}

double Bounds::objective(const PartialPlacement &partial, double timeLimit) const {
  const Request &request = evaluator.problem.request;
  double least = time(partial);
  if (!(least <= timeLimit))
    return infinity;
  double paid = 0;
  if (asksSurrogate(partial))
    paid = bySurrogate().paid(partial);
  double price = partial.price + (partial.position > 0 ? cheapest : 0);
  if (request.maxCostPerHour > DollarsPerHour(0)) {
    double priceByWork = std::isfinite(timeLimit) ? partial.price + paid / timeLimit : 0;
    if (std::max(price, priceByWork) > request.maxCostPerHour.value() * (1 + 1e-9))
      return infinity;
  }
  bool maximise = request.objective == Objective::Throughput;
  double cost = std::max(price * least, partial.price * least + paid);
  if (!maximise)
    cost = std::max(cost, lagrangian.cost(partial));
  if (cost * safety > request.highestCost().value() * 3600 * (1 + 1e-9))
    return infinity;
  if (maximise)
    return least;
  return cost / 3600 / double(request.globalBatch.value()) * 1e6 * safety;
}

void Bounds::tighten(double timeLimit, double best, bool isFinal) {
  if (evaluator.rules.slowestDecides()) // no fill to bound
    return;
  lagrangian.tighten(timeLimit, costOf(best), /*splits=*/isFinal);
  if (!isFinal || root() >= best)
    return;
  iterations = timeLimit;
  if (surrogate)
    surrogate->refine(timeLimit);
}

double Bounds::paidFor(const Request &request, double objective) {
  if (request.objective == Objective::Throughput)
    return infinity;
  return objective * 3600 * double(request.globalBatch.value()) / 1e6;
}

bool Bounds::listExtensions(const PartialPlacement &partial, double timeLimit, double best,
                            SmallVectorImpl<Lagrangian::Extension> &found) {
  if (!lagrangian.isTight())
    return false;
  lagrangian.listExtensions(partial, timeLimit, costOf(best), found);
  return true;
}

/// All layers open; `none` becomes the devices that are used.
PartialPlacement Bounds::rootPlacement(std::vector<int> &none) const {
  PartialPlacement open;
  open.position = positions - 1;
  none.assign(evaluator.space.available.size(), 0);
  open.used = none;
  return open;
}

double Bounds::rootTime() const {
  std::vector<int> none;
  return time(rootPlacement(none));
}

double Bounds::root() const {
  double limit = evaluator.problem.request.longestIteration().value() * (1 + 1e-9);
  std::vector<int> none;
  return objective(rootPlacement(none), limit);
}

} // namespace heterplan
