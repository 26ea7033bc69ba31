#include "search/verify/NecessaryClash.h"

#include "search/verify/Conditions.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9;
constexpr double mostPrices = 500'000;

/// Least time of a sample of `layer` on `type`, whatever the share.
Expected<double> leastTime(const WishedPlan &wished, const Layer &layer, const DeviceType &type) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t samples = 1; samples <= wished.request.globalBatch.value(); ++samples) {
    Expected<LayerCost> cost = wished.costs.price(layer, type, Samples(samples));
    if (!cost)
      return cost.takeError();
    least = std::min(least, (cost->forward + cost->backward).value() / double(samples));
  }
  return least;
}

/// The floor by our own prices; none where there are too many to ask for.
Expected<std::optional<Formula>> ownFloor(const WishedPlan &wished, const Conditions &conditions) {
  size_t types = wished.cluster.types.size();
  double prices = double(conditions.classes.size()) * double(types);
  if (prices * double(wished.request.globalBatch.value()) > mostPrices)
    return std::nullopt;
  std::map<std::pair<int, int>, double> least; // by layer and type
  for (const LayerClass &each : conditions.classes)
    for (size_t t = 0; t < types; ++t) {
      if (wished.cluster.deviceCount(int(t)) == 0)
        continue; // it need not have a price
      Expected<double> time =
          leastTime(wished, wished.graph.layers[each.layer], wished.cluster.types[t]);
      if (!time)
        return time.takeError();
      least[{each.layer, int(t)}] = *time * wished.request.minThroughput.value();
    }
  return conditions.loadsAtMost(
      [&](const LayerClass &each, int type) {
        return least[{each.layer, type}];
      },
      1);
}

/// The floor by HeterPS's prices of `microBatches` micro-batches.
Expected<Formula> floorOfHeterPs(const WishedPlan &wished, const Conditions &conditions,
                                 int microBatches) {
  Expected<HeterPsModel> model = heterPsModelOf(wished, microBatches);
  if (!model)
    return model.takeError();
  double batch = double(wished.request.globalBatch.value());
  double pace = batch / (wished.request.minThroughput.value() * microBatches) * (1 + rounding);
  auto has = [&](int type) { return wished.cluster.deviceCount(type) > 0; };
  auto computing = [&](const LayerClass &each, int type) {
    return has(type) ? model->layer(each.layer, type).compute.original() : 0;
  };
  auto sending = [&](const LayerClass &each, int type) {
    return has(type) ? model->layer(each.layer, type).transfer.original() : 0;
  };
  auto units = [&](const LayerClass &each, int type) -> double {
    return has(type) ? model->leastUnits(each.layer, type, pace) : 0;
  };
  return Formula::all({conditions.loadsAtMost(computing, pace),
                       conditions.loadsAtMost(sending, pace), conditions.devicesAtLeast(units)});
}

Expected<std::optional<Formula>> floorOf(const WishedPlan &wished, const Conditions &conditions) {
  if (!isSteady(wished.request.pricing))
    return ownFloor(wished, conditions);
  Expected<Formula> usual = floorOfHeterPs(wished, conditions, wished.usualMicroBatches);
  if (!usual)
    return usual.takeError();
  if (wished.request.microBatches == 0)
    return std::optional(*usual);
  Expected<Formula> asked = floorOfHeterPs(wished, conditions, wished.request.microBatches);
  if (!asked)
    return asked.takeError();
  Formula hasAsked = Conditions::hasWishedMicroBatches();
  return std::optional(Formula::all(
      {Formula::any({Formula::negation(hasAsked), *asked}), Formula::any({hasAsked, *usual})}));
}
} // namespace

Expected<std::optional<std::vector<std::string>>> necessaryClash(const WishedPlan &wished) {
  Conditions conditions(wished, classesOf(wished));
  std::vector<Part> parts = conditions.wishes();
  if (wished.request.minThroughput > SamplesPerSecond(0)) {
    Expected<std::optional<Formula>> floor = floorOf(wished, conditions);
    if (!floor)
      return floor.takeError();
    if (*floor)
      parts.push_back({"throughput-floor", std::move(**floor)});
  }
  return contradiction(conditions.facts(), parts);
}

} // namespace heterplan
