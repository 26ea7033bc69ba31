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
               const SearchOptions &options)
    : evaluator(evaluator), microBatches(table.microBatches),
      positions(static_cast<int>(evaluator.space.positions.size())),
      lagrangian(evaluator, table, wholeModelGroups, options) {
  if (evaluator.rules.slowestDecides())
    steady.emplace(evaluator, table, wholeModelGroups, options.tuning);
  const Problem &problem = evaluator.problem;
  cheapest = infinity;
  for (size_t type = 0; type < problem.cluster.types.size(); ++type)
    if (evaluator.space.available[type] > 0)
      cheapest = std::min(cheapest, problem.cluster.types[type].price.value());
}

double Bounds::time(const PartialPlacement &partial) const {
  const double weight = evaluator.rules.fillWeight();
  if (partial.position == 0)
    return partial.fill + weight * partial.exposed + (microBatches - weight) * partial.slowest;
  return steady ? steady->time(partial) : lagrangian.time(partial);
}

double Bounds::objective(const PartialPlacement &partial, double timeLimit) const {
  const Request &request = evaluator.problem.request;
  double least = time(partial);
  if (!(least <= timeLimit))
    return infinity;
  const double paid = steady && partial.position > 0 ? steady->paid(partial) : 0;
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

void Bounds::tighten(double timeLimit, double best) {
  if (!steady)
    lagrangian.tighten(timeLimit, costOf(best));
}

double Bounds::paidFor(const Request &request, double objective) {
  if (request.objective == Objective::Throughput)
    return infinity;
  return objective * 3600 * double(request.globalBatch.value()) / 1e6;
}

bool Bounds::listExtensions(const PartialPlacement &partial, double timeLimit, double best,
                            SmallVectorImpl<StageSpan> &found) {
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

double Bounds::root() const {
  double limit = evaluator.problem.request.longestIteration().value() * (1 + 1e-9);
  std::vector<int> none;
  return objective(rootPlacement(none), limit);
}

} // namespace heterplan
