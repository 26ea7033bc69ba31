#include "search/exact/PathMixtures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

float roundedDown(double value) {
  const float nearest = float(value);
  return double(nearest) <= value
             ? nearest
             : std::nextafter(nearest, -std::numeric_limits<float>::infinity());
}

/// The share of a stage itself in a mixture.
double mixed(double time, double forward, int mixture) {
  return (mixture * time + (fillOnly - mixture) * forward) / fillOnly;
}

PerMixture<double> allMixed(double time, double forward) {
  PerMixture<double> times;
  for (int mixture = 0; mixture <= fillOnly; ++mixture)
    times[mixture] = mixed(time, forward, mixture);
  return times;
}
} // namespace

LeastMixtures LeastMixtures::none() {
  LeastMixtures least;
  least.of.fill(infinity);
  return least;
}

LeastMixtures LeastMixtures::ofBoth(double fill, double forward) {
  LeastMixtures least;
  least.of.fill(-infinity);
  least.of[0] = forward;
  least.of[fillOnly] = fill;
  return least;
}

double LeastMixtures::withExposed(double exposed) const {
  double most = of[0];
  for (int mixture = 1; mixture <= fillOnly; ++mixture)
    most = std::max(of[mixture], most + exposed / fillOnly);
  return most;
}

double leastWith(const Addition<double> &added, const LeastMixtures &before, int &mixture) {
  const int own = mixture;
  double most = -infinity;
  for (int of = 0; of <= own; ++of) {
    const double time = before.of[of] + (own - of) * added.sync / fillOnly;
    if (time >= most) {
      most = time;
      mixture = of;
    }
  }
  return mixed(added.time, added.forward, own) + most;
}

void MixtureTable::reset(size_t places) {
  compressed.clear();
  for (std::vector<double> &each : least)
    each.assign(places, infinity);
}

void MixtureTable::setStart(size_t place, size_t count) {
  for (std::vector<double> &each : least)
    std::fill_n(each.begin() + place, count, 0);
}

LeastMixtures MixtureTable::at(size_t place) const {
  LeastMixtures result;
  for (int mixture = 0; mixture <= fillOnly; ++mixture)
    result.of[mixture] =
        compressed.empty() ? least[mixture][place] : double(compressed[place][mixture]);
  return result;
}

void MixtureTable::compress() {
  compressed.resize(least[0].size());
  for (int mixture = 0; mixture <= fillOnly; ++mixture) {
    std::vector<double> exact = std::exchange(least[mixture], {});
    for (size_t place = 0; place < exact.size(); ++place)
      compressed[place][mixture] = roundedDown(exact[place]);
  }
}

MixtureTable::Rows MixtureTable::rowsFrom(const MixtureTable &before, size_t place, size_t own) {
  Rows rows;
  for (int mixture = 0; mixture <= fillOnly; ++mixture) {
    rows.before[mixture] = &before.least[mixture][place];
    rows.own[mixture] = &least[mixture][own];
  }
  return rows;
}

void MixtureTable::addStage(const Addition<double> &added, const MixtureTable &before, size_t place,
                            size_t own, size_t count) {
  const Rows rows = rowsFrom(before, place, own);
  addStageToMixtures(allMixed(added.time, added.forward), added.sync / fillOnly, rows.before,
                     rows.own, count);
}

void MixtureTable::addTransfer(double receive, double gradient, const MixtureTable &before,
                               size_t place, size_t own, size_t count) {
  const Rows rows = rowsFrom(before, place, own);
  addTimesToMixtures(allMixed(receive + gradient, receive), rows.before, rows.own, count);
}

} // namespace heterplan
