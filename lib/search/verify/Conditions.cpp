#include "search/verify/Conditions.h"

#include "cost/Memory.h"
#include "search/verify/IterationFacts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9;

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

Formula whole(size_t value) { return Formula::integer(int64_t(value)); }
} // namespace

std::vector<AlikeLayers> classesOf(const RequestedPlan &requested) {
  std::set<int> apart; // layers that a constraint is about
  for (const Pin &pin : requested.request.pins)
    apart.insert(requested.graph.find(pin.layer));
  for (const LayerSet &set : requested.request.colocations) {
    auto [first, last] = extentOf(requested.graph, set);
    for (int layer = first; layer <= last; ++layer)
      apart.insert(layer);
  }
  std::map<std::tuple<std::string, Bytes, Bytes, Bytes, Bytes, Bytes>, size_t> classOf;
  std::vector<AlikeLayers> classes;
  for (int i = 0; i < requested.graph.size(); ++i) {
    const Layer &layer = requested.graph.layers[i];
    std::tuple key(apart.count(i) ? "layer " + layer.name : "like " + layer.signature,
                   layer.parameterBytes, layer.tableBytes(), layer.bufferBytes,
                   layer.activationBytes, layer.workspaceBytes);
    auto [entry, isNew] = classOf.try_emplace(std::move(key), classes.size());
    if (isNew)
      classes.push_back({i, 0});
    ++classes[entry->second].count;
  }
  return classes;
}

Conditions::Conditions(const RequestedPlan &requested, std::vector<AlikeLayers> layerClasses)
    : classes(std::move(layerClasses)), requested(requested) {
  for (size_t t = 0; t < requested.cluster.types.size(); ++t)
    devices.push_back(
        Formula::count("devices of " + std::to_string(t), requested.cluster.deviceCount(int(t))));
  for (size_t c = 0; c < classes.size(); ++c)
    for (size_t t = 0; t < devices.size(); ++t)
      for (auto [kind, held] : {std::pair("share ", &shares), std::pair("rows ", &rowShares)})
        held->push_back(Formula::real(kind + std::to_string(c) + " " + std::to_string(t)));
  for (size_t i = 0; i < requested.request.colocations.size(); ++i) {
    auto [first, last] = extentOf(requested.graph, requested.request.colocations[i]);
    ranges.push_back({{ConstraintKind::Colocation, i}, first, last + 1});
  }
  if (requested.request.schedule == ScheduleChoice::DataParallel)
    ranges.push_back({{ConstraintKind::Schedule}, 0, requested.graph.size()});
}

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
    if (!layerOf(c).tables.empty() || mayDivide())
      addRowFacts(c, result);
  }
  return result;
}

void Conditions::addRowFacts(size_t layerClass, std::vector<Formula> &facts) const {
  Formula batch = Formula::integer(requested.request.globalBatch.value());
  std::vector<Formula> onTypes;
  for (size_t t = 0; t < devices.size(); ++t) {
    onTypes.push_back(rowShare(layerClass, t));
    facts.push_back(Formula::atMost(onTypes.back(), Formula::product(batch, share(layerClass, t))));
  }
  facts.push_back(Formula::equal(Formula::sum(std::move(onTypes)),
                                 Formula::integer(classes[layerClass].count)));
}

std::vector<Part> Conditions::constraints() const {
  constexpr decltype(&Conditions::requirePin) hooks[] = {
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices) &Conditions::require##enumerator,
#include "ir/Constraints.def"
  };
  std::vector<Part> parts;
  for (Constraint each : constraintsOf(requested.request))
    if (auto formula = (this->*hooks[static_cast<int>(each.kind)])(each.index))
      parts.push_back({nameOf(requested.request, each), std::move(*formula)});
  return parts;
}

Formula Conditions::loadsAtMost(const Demand &demand, double each) const {
  std::vector<Formula> result;
  for (size_t t = 0; t < devices.size(); ++t) {
    std::vector<Formula> loads;
    for (size_t c = 0; c < classes.size(); ++c)
      loads.push_back(
          Formula::product(Formula::number(weakened(demand(classes[c], int(t)))), share(c, t)));
    result.push_back(Formula::atMost(
        Formula::sum(std::move(loads)),
        Formula::product(Formula::number(weakened(each * (1 + rounding), /*up=*/true)),
                         devices[t])));
  }
  return Formula::all(std::move(result));
}

Formula Conditions::devicesAtLeast(const Demand &demand) const {
  std::vector<Formula> result;
  for (size_t c = 0; c < classes.size(); ++c)
    for (size_t t = 0; t < devices.size(); ++t) {
      double least = demand(classes[c], int(t));
      result.push_back(
          least == 0
              ? noneOn(c, t)
              : Formula::atMost(Formula::product(Formula::number(least), share(c, t)),
                                Formula::product(Formula::integer(classes[c].count), devices[t])));
    }
  return Formula::all(std::move(result));
}

size_t Conditions::classOf(int layer) const {
  auto found = std::find_if(classes.begin(), classes.end(),
                            [&](const AlikeLayers &each) { return each.layer == layer; });
  return size_t(found - classes.begin());
}

Formula Conditions::noneOn(size_t layerClass, size_t type) const {
  return Formula::atMost(share(layerClass, type), Formula::integer(0));
}

Formula Conditions::sameShares(size_t a, size_t b) const {
  std::vector<Formula> result;
  for (size_t t = 0; t < devices.size(); ++t)
    result.push_back(
        Formula::equal(Formula::product(Formula::integer(classes[b].count), share(a, t)),
                       Formula::product(Formula::integer(classes[a].count), share(b, t))));
  return Formula::all(std::move(result));
}

/// Whatever is asked for, so that memory alone is blamed for what no plan has room for.
bool Conditions::mayRecompute() const { return !factsOf(requested.request.iterationModel).fitted; }

/// Whether replicas may divide parameters, gradients and the state of the optimizer. They do so as
/// they divide the rows of tables.
bool Conditions::mayDivide() const { return !factsOf(requested.request.iterationModel).fitted; }

/// Layers [begin, end) with one sample on one device of `type`, at least.
bool Conditions::fits(int begin, int end, size_t type) const {
  int all = 0; // devices that may share the tables and the state: one holds as much at least
  for (size_t each = 0; each < requested.cluster.types.size(); ++each)
    all += requested.cluster.deviceCount(int(each));
  Bytes activations{}, largest{}, workspace{}, gathered{}, need{};
  const double held =
      parameterCopies(requested.request.optimizer) / double(mayDivide() ? std::max(all, 1) : 1);
  for (int index = begin; index < end; ++index) {
    const Layer &layer = requested.graph.layers[index];
    need += layer.denseBytes() * held + layer.bufferBytes;
    gathered = std::max(gathered, layer.denseBytes());
    activations += layer.activationBytes;
    largest = std::max(largest, layer.activationBytes); // a segment has one layer at least
    workspace = std::max(workspace, layer.workspaceBytes);
  }
  Bytes kept = activations + workspaceBeyond(requested.graph, begin, end);
  need += mayRecompute() ? std::min(largest + workspace, kept) : kept;
  if (mayDivide() && all > 1) // a layer at a time; one that divides less holds as much at least
    need += gathered;
  for (int layer = begin; layer < end; ++layer)
    for (const SparseTable &table : requested.graph.layers[layer].tables)
      need += tableMemory(table, mostRows(table, std::max(all, 1)), requested.request.optimizer,
                          Samples(0));
  return need <= roomForTensors(requested, type) * (1 + rounding);
}

std::optional<Formula> Conditions::requireBudget(size_t) const {
  std::vector<Formula> prices;
  for (size_t t = 0; t < devices.size(); ++t)
    prices.push_back(Formula::product(
        Formula::number(weakened(requested.cluster.types[t].price.value())), devices[t]));
  return Formula::atMost(
      Formula::sum(std::move(prices)),
      Formula::number(
          weakened(requested.request.maxCostPerHour.value() * (1 + rounding), /*up=*/true)));
}

/// Adds the loads of the parameters of a class on the devices of a type.
void Conditions::addLoads(size_t layerClass, size_t type, std::vector<Formula> &loads) const {
  const Layer &layer = layerOf(layerClass);
  double copies = parameterCopies(requested.request.optimizer);
  auto add = [&](double bytes, const Formula &held) {
    loads.push_back(Formula::product(Formula::number(weakened(bytes)), held));
  };
  add(copies * layer.denseBytes().value(),
      mayDivide() ? rowShare(layerClass, type) : share(layerClass, type));
  if (!layer.tables.empty())
    add((copies - 1) * layer.tableBytes().value(), rowShare(layerClass, type));
}

std::optional<Formula> Conditions::requireMemory(size_t) const {
  std::vector<Formula> result;
  for (size_t t = 0; t < devices.size(); ++t) {
    std::vector<Formula> parameters;
    for (size_t c = 0; c < classes.size(); ++c) {
      addLoads(c, t, parameters);
      if (!fits(classes[c].layer, classes[c].layer + 1, t))
        result.push_back(noneOn(c, t));
    }
    double each = roomForTensors(requested, t).value() * (1 + rounding);
    result.push_back(Formula::atMost(
        Formula::sum(std::move(parameters)),
        Formula::product(Formula::number(weakened(each, /*up=*/true)), devices[t])));
  }
  for (const Range &range : ranges)
    result.push_back(memoryTogether(range));
  return Formula::all(std::move(result));
}

/// The layers that `constraint` wants together are in one stage; of layers in one class one stands
/// for all.
Formula Conditions::together(Constraint constraint) const {
  auto [_, begin, end] =
      *find_if(ranges, [&](const Range &range) { return range.constraint == constraint; });
  std::vector<Formula> result{Formula::boolean(nameOf(requested.request, constraint))};
  bool isWhole = begin == 0 && end == requested.graph.size();
  size_t first = isWhole ? 0 : classOf(begin);
  for (size_t c = 0; c < classes.size(); ++c)
    if (c != first && (isWhole || (classes[c].layer >= begin && classes[c].layer < end)))
      result.push_back(sameShares(first, c));
  return Formula::all(std::move(result));
}

/// Memory where the constraint for one stage of these layers holds.
Formula Conditions::memoryTogether(const Range &range) const {
  auto [constraint, begin, end] = range;
  std::string name = nameOf(requested.request, constraint);
  std::vector<Formula> result;
  size_t first = begin == 0 && end == requested.graph.size() ? 0 : classOf(begin);
  for (size_t t = 0; t < devices.size(); ++t)
    if (!fits(begin, end, t))
      result.push_back(Formula::any({Formula::negation(Formula::boolean(name)), noneOn(first, t)}));
  return Formula::all(std::move(result));
}

Formula Conditions::atLeastDevices(size_t count) const {
  return Formula::atMost(whole(count), Formula::sum(devices));
}

std::optional<Formula> Conditions::requirePin(size_t index) const {
  const Pin &pin = requested.request.pins[index];
  std::vector<Formula> result;
  size_t layerClass = classOf(requested.graph.find(pin.layer));
  for (size_t t = 0; t < devices.size(); ++t)
    if (requested.cluster.types[t].stated() != pin.type)
      result.push_back(noneOn(layerClass, t));
  return Formula::all(std::move(result));
}

std::optional<Formula> Conditions::requireColocation(size_t index) const {
  return together({ConstraintKind::Colocation, index});
}

std::optional<Formula> Conditions::requireSeparation(size_t index) const {
  if (requested.request.schedule == ScheduleChoice::Burst) // its stages share devices
    return std::nullopt;
  return atLeastDevices(requested.request.separations[index].size());
}

/// Any stages will do.
std::optional<Formula> Conditions::requireAmplification(size_t) const { return std::nullopt; }

std::optional<Formula> Conditions::requireSchedule(size_t) const {
  if (requested.request.schedule == ScheduleChoice::Burst)
    return std::nullopt;
  return requested.request.schedule == ScheduleChoice::Pipeline
             ? atLeastDevices(2)
             : together({ConstraintKind::Schedule});
}

std::optional<Formula> Conditions::requireMicroBatches(size_t) const {
  return hasRequestedMicroBatches();
}

/// Only a search tells whether what is divided or computed again is enough.
std::optional<Formula> Conditions::requireRecompute(size_t) const { return std::nullopt; }
std::optional<Formula> Conditions::requireShardState(size_t) const { return std::nullopt; }

/// These ask for products of times and prices, or for times, which only a search knows.
std::optional<Formula> Conditions::requireSampleCost(size_t) const { return std::nullopt; }
std::optional<Formula> Conditions::requireIterationCost(size_t) const { return std::nullopt; }
std::optional<Formula> Conditions::requireIterationTime(size_t) const { return std::nullopt; }
/// The whole memory is asked for by requireMemory().
std::optional<Formula> Conditions::requireMemoryFraction(size_t) const { return std::nullopt; }

std::optional<Formula> Conditions::requireDeviceLimit(size_t index) const {
  const DeviceLimit &limit = requested.request.deviceLimits[index];
  std::vector<Formula> used;
  for (int type : requested.cluster.typesCalled(limit.type))
    used.push_back(devices[type]);
  return Formula::atMost(Formula::sum(std::move(used)), Formula::integer(limit.most));
}

std::optional<Formula> Conditions::requireFloor(size_t) const { return std::nullopt; }

} // namespace heterplan
