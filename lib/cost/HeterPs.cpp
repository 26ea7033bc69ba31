#include "cost/HeterPs.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
AmdahlFit sum(const AmdahlFit &a, const AmdahlFit &b) {
  return {a.serial + b.serial, a.parallel + b.parallel, 0};
}
AmdahlFit difference(const AmdahlFit &a, const AmdahlFit &b) {
  return {std::max(0.0, a.serial - b.serial), std::max(0.0, a.parallel - b.parallel), 0};
}

/// Sums of the normal equations of t ≈ serial + parallel/k, each point weighted by 1/t².
struct Normal {
  double ones = 0, inverse = 0, squares = 0, times = 0, inverseTimes = 0;

  void add(int units, double time) {
    double weight = 1 / (time * time), x = 1.0 / units;
    ones += weight;
    inverse += weight * x;
    squares += weight * x * x;
    times += weight * time;
    inverseTimes += weight * x * time;
  }
};

constexpr double mostUnits = 1e6;

/// Units with which `fit` is `limit`, as a real number.
double realUnits(const AmdahlFit &fit, double limit) {
  double room = limit - fit.serial;
  if (room > 0)
    return fit.parallel / room;
  return room == 0 && fit.parallel == 0 ? 0 : std::numeric_limits<double>::infinity();
}

/// Fewest units with which `fit` is at most `limit`; 0: none.
int leastUnits(const AmdahlFit &fit, double limit) {
  if (fit.serial + fit.parallel <= limit)
    return 1;
  double room = limit - fit.serial;
  if (room <= 0 || fit.parallel / room > mostUnits)
    return 0;
  return static_cast<int>(std::ceil(fit.parallel / room * (1 - 1e-12)));
}

int unitsForBoth(const AmdahlFit &compute, const AmdahlFit &transfer, double limit) {
  int computing = leastUnits(compute, limit), sending = leastUnits(transfer, limit);
  return computing == 0 || sending == 0 ? 0 : std::max(computing, sending);
}
} // namespace

AmdahlFit fitAmdahl(ArrayRef<std::pair<int, double>> points) {
  Normal normal;
  for (auto [units, time] : points)
    if (time > 0)
      normal.add(units, time);
  AmdahlFit fit;
  if (normal.ones == 0)
    return fit;
  double determinant = normal.ones * normal.squares - normal.inverse * normal.inverse;
  if (determinant > 1e-9 * normal.ones * normal.squares) {
    fit.serial =
        (normal.times * normal.squares - normal.inverseTimes * normal.inverse) / determinant;
    fit.parallel =
        (normal.ones * normal.inverseTimes - normal.inverse * normal.times) / determinant;
  } else { // one number of units only: nothing tells what is serial
    fit.parallel = normal.inverseTimes / normal.squares;
  }
  if (fit.serial < 0)
    fit = {0, normal.inverseTimes / normal.squares, 0};
  if (fit.parallel < 0)
    fit = {normal.times / normal.ones, 0, 0};
  for (auto [units, time] : points)
    if (time > 0)
      fit.residual = std::max(fit.residual, std::abs(fit.at(units) - time) / time);
  return fit;
}

HeterPsModel::HeterPsModel(const LayerGraph &graph, const Cluster &cluster, Samples batch,
                           int microBatches, Price price)
    : batch(batch), microBatches(microBatches), fits(cluster.types.size()),
      sums(cluster.types.size()) {
  for (int type = 0; type < static_cast<int>(cluster.types.size()); ++type) {
    if (cluster.deviceCount(type) == 0)
      continue;
    fitType(graph, cluster, type, price);
    fitCuts(graph, cluster, type);
  }
}

std::vector<HeterPsModel::Unit> HeterPsModel::unitsToFit(const Cluster &cluster, int type) const {
  int most = static_cast<int>(std::min<int64_t>(cluster.deviceCount(type), batch.value()));
  std::vector<Unit> units;
  auto add = [&](int count) {
    const DeviceGroup group{{{type, count}}};
    units.push_back({count, Samples((batch.value() + count - 1) / count),
                     FastestPath(cluster, group, /*inNode=*/false), allReduceCost(cluster, group)});
  };
  for (int k = 1; k < most; k *= 2)
    add(k);
  add(std::max(most, 1));
  return units;
}

void HeterPsModel::fitType(const LayerGraph &graph, const Cluster &cluster, int type, Price price) {
  const std::vector<Unit> units = unitsToFit(cluster, type);
  TypeSums &total = sums[type];
  total.compute.resize(graph.size() + 1);
  total.transfer.resize(graph.size() + 1);
  total.forward.resize(graph.size() + 1);
  for (int layer = 0; layer < graph.size(); ++layer) {
    std::vector<std::pair<int, double>> computing, syncing;
    LayerFit fit;
    Bytes pushed = graph.layers[layer].denseBytes() * 2;
    Bytes rows = graph.layers[layer].lookupBytes() * 2;
    for (const auto &[k, share, path, reduce] : units) {
      LayerCost cost = price(layer, type, share);
      Seconds inPasses = reduce.time(graph.layers[layer].inPassAllReduces,
                                     graph.layers[layer].inPassAllReduceBytes) *
                         2;
      double both = (cost.forward + cost.backward + inPasses).value();
      if (k == 1 && both > 0)
        fit.forwardShare = cost.forward.value() / both;
      computing.push_back({k, both});
      Seconds sync = path.leastTime(Samples(0), Bytes(0), pushed);
      Seconds lookup = path.leastTime(share, rows, Bytes(0));
      syncing.push_back({k, sync.value() / microBatches + lookup.value()});
    }
    fit.compute = fitAmdahl(computing);
    fit.transfer = fitAmdahl(syncing);
    total.compute[layer + 1] = sum(total.compute[layer], fit.compute);
    total.transfer[layer + 1] = sum(total.transfer[layer], fit.transfer);
    total.forward[layer + 1] = total.forward[layer] + fit.forwardShare * fit.compute.original();
    fits[type].push_back(fit);
  }
}

void HeterPsModel::fitCuts(const LayerGraph &graph, const Cluster &cluster, int type) {
  const std::vector<Unit> units = unitsToFit(cluster, type);
  auto fit = [&](Bytes perSample, Bytes fixed) {
    std::vector<std::pair<int, double>> points;
    points.reserve(units.size());
    for (const Unit &unit : units)
      points.push_back({unit.count, unit.path.leastTime(unit.share, perSample, fixed).value()});
    return fitAmdahl(points);
  };
  for (const Cut &cut : graph.cuts()) {
    sums[type].receive.push_back(fit(cut.forwardBytes, cut.fixedBytes));
    sums[type].gradients.push_back(fit(cut.backwardBytes, cut.fixedGradientBytes));
  }
}

AmdahlFit HeterPsModel::computeOf(int begin, int end, int type) const {
  return difference(sums[type].compute[end], sums[type].compute[begin]);
}

AmdahlFit HeterPsModel::transferOf(int begin, int end, int type) const {
  const TypeSums &of = sums[type];
  return sum(difference(of.transfer[end], of.transfer[begin]),
             sum(of.receive[begin], of.gradients[end]));
}

double HeterPsModel::stageTime(int begin, int end, int type, int units) const {
  return std::max(computeOf(begin, end, type).at(units), transferOf(begin, end, type).at(units));
}

double HeterPsModel::leastTime(int begin, int end, int type, int units) const {
  const TypeSums &of = sums[type];
  return std::max(computeOf(begin, end, type).at(units),
                  difference(of.transfer[end], of.transfer[begin]).at(units));
}

int HeterPsModel::unitsFor(int begin, int end, int type, double limit) const {
  return unitsForBoth(computeOf(begin, end, type), transferOf(begin, end, type), limit);
}

int HeterPsModel::leastUnits(int layer, int type, double limit) const {
  const LayerFit &fit = fits[type][layer];
  return unitsForBoth(fit.compute, fit.transfer, limit);
}

double HeterPsModel::realUnitsFor(int begin, int end, int type, double limit) const {
  return std::max(realUnits(computeOf(begin, end, type), limit),
                  realUnits(transferOf(begin, end, type), limit));
}

double HeterPsModel::forwardShare(int begin, int end, int type) const {
  double all = computeOf(begin, end, type).original();
  double forward = sums[type].forward[end] - sums[type].forward[begin];
  return all > 0 ? std::clamp(forward / all, 0.0, 1.0) : 0.5;
}

HeterPsModel::Residuals HeterPsModel::residuals(int type, AmdahlFit LayerFit::*part) const {
  constexpr double negligible = 1e-3;
  double all = 0;
  for (const LayerFit &fit : fits[type])
    all += (fit.*part).original();
  std::vector<std::pair<double, int>> found; // residual, layer
  for (size_t layer = 0; layer < fits[type].size(); ++layer)
    if (const AmdahlFit &fit = fits[type][layer].*part; fit.original() > negligible * all)
      found.push_back({fit.residual, int(layer)});
  if (found.empty())
    return {};
  std::sort(found.begin(), found.end());
  return {found[(found.size() - 1) / 2].first, found.back().first, found.back().second};
}

HeterPsModel::Residuals HeterPsModel::computeResiduals(int type) const {
  return residuals(type, &LayerFit::compute);
}

HeterPsModel::Residuals HeterPsModel::transferResiduals(int type) const {
  return residuals(type, &LayerFit::transfer);
}

} // namespace heterplan
