#include "search/verify/NecessaryConflict.h"

#include "search/verify/Conditions.h"
#include "search/verify/IterationFacts.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9;
constexpr double mostPrices = 500'000;

/// Least time of a sample of `layer` on `type`, whatever the share.
Expected<double> leastTime(const RequestedPlan &requested, const Layer &layer,
                           const DeviceType &type) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t samples = 1; samples <= requested.request.globalBatch.value(); ++samples) {
    Expected<LayerCost> cost = requested.costs.price(layer, type, Samples(samples));
    if (!cost)
      return cost.takeError();
    least = std::min(least, (cost->forward + cost->backward).value() / double(samples));
  }
  return least;
}

/// The floor synchronous; none where there are too many to ask for.
Expected<std::optional<Formula>> ownFloor(const RequestedPlan &requested,
                                          const Conditions &conditions) {
  size_t types = requested.cluster.types.size();
  double prices = double(conditions.classes.size()) * double(types);
  if (prices * double(requested.request.globalBatch.value()) > mostPrices)
    return std::nullopt;
  std::map<std::pair<int, int>, double> least; // by layer and type
  for (const AlikeLayers &each : conditions.classes)
    for (size_t t = 0; t < types; ++t) {
      if (requested.cluster.deviceCount(int(t)) == 0)
        continue; // it need not have a price
      Expected<double> time =
          leastTime(requested, requested.graph.layers[each.layer], requested.cluster.types[t]);
      if (!time)
        return time.takeError();
      least[{each.layer, int(t)}] = *time * requested.request.minThroughput.value();
    }
  return conditions.loadsAtMost(
      [&](const AlikeLayers &each, int type) {
        return least[{each.layer, type}];
      },
      1);
}

/// The floor by HeterPS's prices of `microBatches` micro-batches.
Expected<Formula> floorOfHeterPs(const RequestedPlan &requested, const Conditions &conditions,
                                 int microBatches) {
  Expected<HeterPsModel> model = heterPsModelOf(requested, microBatches);
  if (!model)
    return model.takeError();
  double batch = double(requested.request.globalBatch.value());
  double longest =
      batch / (requested.request.minThroughput.value() * microBatches) * (1 + rounding);
  auto has = [&](int type) { return requested.cluster.deviceCount(type) > 0; };
  auto computing = [&](const AlikeLayers &each, int type) {
    return has(type) ? model->layer(each.layer, type).compute.original() : 0;
  };
  auto sending = [&](const AlikeLayers &each, int type) {
    return has(type) ? model->layer(each.layer, type).transfer.original() : 0;
  };
  auto units = [&](const AlikeLayers &each, int type) -> double {
    return has(type) ? model->leastUnits(each.layer, type, longest) : 0;
  };
  return Formula::all({conditions.loadsAtMost(computing, longest),
                       conditions.loadsAtMost(sending, longest), conditions.devicesAtLeast(units)});
}

Expected<std::optional<Formula>> floorOf(const RequestedPlan &requested,
                                         const Conditions &conditions) {
  if (!factsOf(requested.request.iterationModel).fitted)
    return ownFloor(requested, conditions);
  Expected<Formula> usual = floorOfHeterPs(requested, conditions, requested.usualMicroBatches);
  if (!usual)
    return usual.takeError();
  if (requested.request.microBatches == 0)
    return std::optional(*usual);
  Expected<Formula> asked = floorOfHeterPs(requested, conditions, requested.request.microBatches);
  if (!asked)
    return asked.takeError();
  Formula hasAsked = Conditions::hasRequestedMicroBatches();
  return std::optional(Formula::all(
      {Formula::any({Formula::negation(hasAsked), *asked}), Formula::any({hasAsked, *usual})}));
}
} // namespace

Expected<std::optional<std::vector<std::string>>>
necessaryConflict(const RequestedPlan &requested) {
  Conditions conditions(requested, classesOf(requested));
  std::vector<Part> parts = conditions.constraints();
  if (requested.request.minThroughput > SamplesPerSecond(0)) {
    Expected<std::optional<Formula>> floor = floorOf(requested, conditions);
    if (!floor)
      return floor.takeError();
    if (*floor)
      parts.push_back({nameOf(requested.request, {ConstraintKind::Floor}), std::move(**floor)});
  }
  return contradiction(conditions.facts(), parts, requested.deadline);
}

} // namespace heterplan
