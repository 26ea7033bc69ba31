#include "search/burst/Pools.h"

#include "cost/StageCost.h"
#include "search/balance/Balance.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
/// The most types of a pool of several types; it bounds the work for all pairs of widths.
constexpr size_t mostTypes = 8;

/// How many devices of `type` a plan may have: those that pins, the budget and limits on the type
/// allow.
int devicesFor(const Problem &problem, int type) {
  const Request &request = problem.request;
  const DeviceType &of = problem.cluster.types[type];
  if (any_of(request.pins, [&](const Pin &pin) { return pin.type != of.stated(); }))
    return 0;
  double most = problem.availableDevices(type);
  if (request.maxCostPerHour > DollarsPerHour(0) && of.price > DollarsPerHour(0))
    most = std::min(most, std::floor(request.maxCostPerHour / of.price * (1 + 1e-9)));
  return static_cast<int>(most);
}

/// Types by how fast they are, and how the samples are divided among several of them.
class UnequalDevices {
public:
  explicit UnequalDevices(const Problem &problem)
      : problem(problem),
        costs(
            problem.graph, problem.cluster, *problem.costs, problem.request.optimizer,
            problem.request.globalBatch, [](int, int) { return true; }, problem.request.precision) {
  }

  void sort(std::vector<PoolClass> &classes) {
    auto keyOf = [&](const PoolClass &each) {
      return std::tuple(timeOf(each.type), problem.cluster.types[each.type].stated(), each.type);
    };
    llvm::sort(classes,
               [&](const PoolClass &a, const PoolClass &b) { return keyOf(a) < keyOf(b); });
  }

  std::vector<std::vector<int64_t>> divide(ArrayRef<PoolClass> classes, Samples batch) {
    auto timeOn = [&](int type) {
      return [this, type](int64_t samples) {
        return rounded(costs.computing(whole(), {}, type, samples, 1));
      };
    };
    std::vector<decltype(timeOn(0))> times;
    times.reserve(classes.size()); // EqualDevices refers to them
    std::vector<EqualDevices> devices;
    for (const PoolClass &each : classes) {
      times.push_back(timeOn(each.type));
      devices.push_back({each.count, batch.value(), times.back()});
    }
    return (mayFall(classes) ? balanceOneByOne : balance)(devices, batch.value());
  }

  Error takeError() { return costs.times.takeError(); }

private:
  /// Whether the time of any layer may fall as samples grow, as measured times do.
  bool mayFall(ArrayRef<PoolClass> classes) const {
    return any_of(classes, [&](const PoolClass &each) {
      return any_of(problem.graph.layers, [&](const Layer &layer) {
        return problem.costs->mayFall(layer, problem.cluster.types[each.type]);
      });
    });
  }

  LayerRange whole() const { return {0, problem.graph.size()}; }

  /// So that it does not matter in which order the layers are summed.
  static float rounded(Seconds time) { return static_cast<float>(time.value()); }

  float timeOf(int type) {
    const LayerTimes &times = costs.times.at(type, problem.request.globalBatch.value());
    Seconds time = times.forward(whole()) + times.backward(whole()) + times.update(whole());
    return rounded(time);
  }

  const Problem &problem;
  StageCosts costs;
};

/// At most as many of each class as limits on several of them together allow; none of no devices.
std::vector<PoolClass> within(const Problem &problem, std::vector<PoolClass> classes) {
  for (const Problem::SharedLimit &limit : problem.sharedLimits()) {
    int left = limit.most;
    for (PoolClass &each : classes)
      if (is_contained(limit.types, each.type))
        left -= each.count = std::min(each.count, left);
  }
  erase_if(classes, [](const PoolClass &each) { return each.count == 0; });
  return classes;
}
} // namespace

Expected<std::vector<Pool>> poolsOf(const Problem &problem) {
  const Request &request = problem.request;
  std::vector<PoolClass> classes;
  for (int type = 0; type < int(problem.cluster.types.size()); ++type)
    if (int most = devicesFor(problem, type); most > 0)
      classes.push_back({type, most});
  std::vector<Pool> pools;
  pools.reserve(classes.size());
  for (const PoolClass &each : classes)
    pools.emplace_back(problem.cluster, each.type, each.count, request.globalBatch, request.widths);
  if (classes.size() < 2)
    return pools;
  UnequalDevices devices(problem);
  devices.sort(classes);
  classes.resize(std::min(classes.size(), mostTypes));
  DollarsPerHour most(request.maxCostPerHour > DollarsPerHour(0)
                          ? request.maxCostPerHour.value()
                          : std::numeric_limits<double>::infinity());
  for (classes = within(problem, std::move(classes)); classes.size() > 1;) {
    pools.emplace_back(
        problem.cluster, classes, request.globalBatch, request.widths, most,
        [&](ArrayRef<PoolClass> some, Samples batch) { return devices.divide(some, batch); });
    for (PoolClass &each : classes)
      each.count /= 2;
    erase_if(classes, [](const PoolClass &each) { return each.count == 0; });
  }
  if (Error error = devices.takeError())
    return error;
  return pools;
}

} // namespace heterplan
