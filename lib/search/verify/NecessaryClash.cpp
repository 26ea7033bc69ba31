#include "search/verify/NecessaryClash.h"

#include "cost/Memory.h"
#include "search/verify/Solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9;
constexpr double mostPrices = 500'000;

/// `value` with few digits, at most (at least) as large: the conditions become a little weaker and
/// Z3's rational numbers much shorter.
double weakened(double value, bool up = false) {
  constexpr int bits = 20;
  if (!std::isfinite(value))
    return value;
  int exponent = 0;
  double mantissa = std::ldexp(std::frexp(value, &exponent), bits);
  return std::ldexp(up ? std::ceil(mantissa) : std::floor(mantissa), exponent - bits);
}

/// Layers that the conditions need not tell apart: of one signature and one size.
struct LayerClass {
  int layer = 0; // one of them
  int64_t count = 0;
  std::string pinned;                // type, or ""
  std::vector<double> timePerSample; // least, by type
};

std::string pinOf(const WishedPlan &wished, const std::string &layer) {
  for (const Pin &pin : wished.pins)
    if (pin.layer == layer)
      return pin.type;
  return "";
}

/// A pinned layer is a class of its own, so that its pin can be named.
std::vector<LayerClass> classesOf(const WishedPlan &wished) {
  std::map<std::tuple<std::string, Bytes, Bytes, Bytes, Bytes>, size_t> classOf;
  std::vector<LayerClass> classes;
  for (int i = 0; i < wished.graph.size(); ++i) {
    const Layer &layer = wished.graph.layers[i];
    std::string pinned = pinOf(wished, layer.name);
    std::tuple key(pinned.empty() ? layer.signature : "pinned " + layer.name, layer.parameterBytes,
                   layer.bufferBytes, layer.activationBytes, layer.workspaceBytes);
    auto [entry, isNew] = classOf.try_emplace(std::move(key), classes.size());
    if (isNew)
      classes.push_back({i, 0, std::move(pinned), {}});
    ++classes[entry->second].count;
  }
  return classes;
}

Expected<double> leastTime(const WishedPlan &wished, const Layer &layer, const DeviceType &type) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t samples = 1; samples <= wished.globalBatch.value(); ++samples) {
    Expected<LayerCost> cost = wished.costs.price(layer, type, Samples(samples));
    if (!cost)
      return cost.takeError();
    least = std::min(least, (cost->forward + cost->backward).value() / double(samples));
  }
  return least;
}

class Conditions {
public:
  Conditions(const WishedPlan &wished, std::vector<LayerClass> layerClasses)
      : wished(wished), classes(std::move(layerClasses)) {
    for (size_t t = 0; t < wished.cluster.types.size(); ++t)
      devices.push_back(
          Formula::count("devices of " + std::to_string(t), wished.cluster.deviceCount(int(t))));
    for (size_t c = 0; c < classes.size(); ++c)
      for (size_t t = 0; t < devices.size(); ++t)
        shares.push_back(Formula::real("share " + std::to_string(c) + " " + std::to_string(t)));
  }

  std::vector<Formula> facts() const;
  Formula floor() const;
  Formula budget() const;
  Formula memory() const;
  Formula pin(const Pin &pin) const;

private:
  const Formula &share(size_t layerClass, size_t type) const {
    return shares[layerClass * devices.size() + type];
  }
  /// Σ over classes of perLayer(class) · layers of the class on `type` ≤ devices of it · each.
  template <typename PerLayer>
  Formula loadAtMost(size_t type, PerLayer perLayer, double each) const;
  bool fitsAlone(const LayerClass &layerClass, const DeviceType &type) const;

  const WishedPlan &wished;
  std::vector<LayerClass> classes;
  std::vector<Formula> devices; // n_t
  std::vector<Formula> shares;  // count · z, by class and type
};

std::vector<Formula> Conditions::facts() const {
  std::vector<Formula> result;
  for (size_t c = 0; c < classes.size(); ++c) {
    Formula count = Formula::integer(classes[c].count);
    std::vector<Formula> onTypes;
    for (size_t t = 0; t < devices.size(); ++t) {
      onTypes.push_back(share(c, t));
      result.push_back(Formula::atMost(share(c, t), Formula::product(count, devices[t])));
    }
    result.push_back(Formula::equal(Formula::sum(std::move(onTypes)), count));
  }
  return result;
}

template <typename PerLayer>
Formula Conditions::loadAtMost(size_t type, PerLayer perLayer, double each) const {
  std::vector<Formula> loads;
  for (size_t c = 0; c < classes.size(); ++c)
    loads.push_back(
        Formula::product(Formula::number(weakened(perLayer(classes[c]))), share(c, type)));
  return Formula::atMost(
      Formula::sum(std::move(loads)),
      Formula::product(Formula::number(weakened(each * (1 + rounding), /*up=*/true)),
                       devices[type]));
}

Formula Conditions::floor() const {
  std::vector<Formula> result;
  double samplesPerSecond = wished.minThroughput.value();
  for (size_t t = 0; t < devices.size(); ++t)
    result.push_back(loadAtMost(
        t, [&](const LayerClass &c) { return c.timePerSample[t] * samplesPerSecond; }, 1));
  return Formula::all(std::move(result));
}

Formula Conditions::budget() const {
  std::vector<Formula> prices;
  for (size_t t = 0; t < devices.size(); ++t)
    prices.push_back(Formula::product(
        Formula::number(weakened(wished.cluster.types[t].price.value())), devices[t]));
  return Formula::atMost(
      Formula::sum(std::move(prices)),
      Formula::number(weakened(wished.maxCostPerHour.value() * (1 + rounding), /*up=*/true)));
}

bool Conditions::fitsAlone(const LayerClass &layerClass, const DeviceType &type) const {
  Bytes need = deviceMemory(wished.graph, layerClass.layer, layerClass.layer + 1, Cut(),
                            wished.optimizer, Samples(1), 1);
  return need <= type.memory * (1 + rounding);
}

Formula Conditions::memory() const {
  std::vector<Formula> result;
  double copies = parameterCopies(wished.optimizer);
  for (size_t t = 0; t < devices.size(); ++t) {
    const DeviceType &type = wished.cluster.types[t];
    auto parameters = [&](const LayerClass &c) {
      return copies * wished.graph.layers[c.layer].parameterBytes.value();
    };
    result.push_back(loadAtMost(t, parameters, type.memory.value()));
    for (size_t c = 0; c < classes.size(); ++c)
      if (!fitsAlone(classes[c], type))
        result.push_back(Formula::atMost(share(c, t), Formula::integer(0)));
  }
  return Formula::all(std::move(result));
}

Formula Conditions::pin(const Pin &pin) const {
  std::vector<Formula> result;
  for (size_t c = 0; c < classes.size(); ++c)
    for (size_t t = 0; t < devices.size(); ++t)
      if (wished.graph.layers[classes[c].layer].name == pin.layer &&
          wished.cluster.types[t].name != pin.type)
        result.push_back(Formula::atMost(share(c, t), Formula::integer(0)));
  return Formula::all(std::move(result));
}
} // namespace

Expected<std::optional<std::vector<std::string>>> necessaryClash(const WishedPlan &wished) {
  std::vector<LayerClass> classes = classesOf(wished);
  bool hasFloor = wished.minThroughput > SamplesPerSecond(0);
  size_t types = wished.cluster.types.size();
  if (hasFloor &&
      double(classes.size()) * double(types) * double(wished.globalBatch.value()) > mostPrices)
    return std::nullopt;
  for (LayerClass &layerClass : classes)
    for (const DeviceType &type : wished.cluster.types) {
      Expected<double> time =
          hasFloor ? leastTime(wished, wished.graph.layers[layerClass.layer], type) : 0.0;
      if (!time)
        return time.takeError();
      layerClass.timePerSample.push_back(*time);
    }
  Conditions conditions(wished, std::move(classes));
  std::vector<Part> parts;
  for (const Pin &pin : wished.pins)
    parts.push_back({"pin " + pin.layer + "=" + pin.type, conditions.pin(pin)});
  if (!wished.ignoreMemory)
    parts.push_back({"memory", conditions.memory()});
  if (wished.maxCostPerHour > DollarsPerHour(0))
    parts.push_back({"budget", conditions.budget()});
  if (hasFloor)
    parts.push_back({"throughput-floor", conditions.floor()});
  return contradiction(conditions.facts(), parts);
}

} // namespace heterplan
