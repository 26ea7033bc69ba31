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

// The loops over places are most of what a proof takes. Results do not depend on the clone.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HETERPLAN_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HETERPLAN_VECTORISED
#endif

/// Adds a stage to `count` places: `times` by itself, and `quarterSync` to the mixtures before it
/// from one mixture to the next.
HETERPLAN_VECTORISED static void addStageToMixtures(const PerMixture<double> &times,
                                                    double quarterSync,
                                                    const PerMixture<const double *> &before,
                                                    const PerMixture<double *> &least,
                                                    size_t count) {
  const double *__restrict before0 = before[0], *__restrict before1 = before[1],
                           *__restrict before2 = before[2], *__restrict before3 = before[3],
                           *__restrict before4 = before[4];
  double *__restrict least0 = least[0], *__restrict least1 = least[1],
                     *__restrict least2 = least[2], *__restrict least3 = least[3],
                     *__restrict least4 = least[4];
  const double time0 = times[0], time1 = times[1], time2 = times[2], time3 = times[3],
               time4 = times[4];
  for (size_t i = 0; i < count; ++i) {
    double most = before0[i];
    least0[i] = time0 + most < least0[i] ? time0 + most : least0[i];
    most = before1[i] > most + quarterSync ? before1[i] : most + quarterSync;
    least1[i] = time1 + most < least1[i] ? time1 + most : least1[i];
    most = before2[i] > most + quarterSync ? before2[i] : most + quarterSync;
    least2[i] = time2 + most < least2[i] ? time2 + most : least2[i];
    most = before3[i] > most + quarterSync ? before3[i] : most + quarterSync;
    least3[i] = time3 + most < least3[i] ? time3 + most : least3[i];
    most = before4[i] > most + quarterSync ? before4[i] : most + quarterSync;
    least4[i] = time4 + most < least4[i] ? time4 + most : least4[i];
  }
}

/// Without the mixtures between.
HETERPLAN_VECTORISED static void addStageToEnds(double time, double forward, double sync,
                                                const PerMixture<const double *> &before,
                                                const PerMixture<double *> &least, size_t count) {
  const double *__restrict forwards = before[0], *__restrict fills = before[fillOnly];
  double *__restrict leastForwards = least[0], *__restrict leastFills = least[fillOnly];
  for (size_t i = 0; i < count; ++i) {
    const double through = forward + forwards[i], exposed = sync + forwards[i];
    leastForwards[i] = through < leastForwards[i] ? through : leastForwards[i];
    const double fill = time + (fills[i] > exposed ? fills[i] : exposed);
    leastFills[i] = fill < leastFills[i] ? fill : leastFills[i];
  }
}

/// Adds the transfers across a boundary to the mixtures.
HETERPLAN_VECTORISED static void addTimesToMixtures(const PerMixture<double> &times,
                                                    const PerMixture<const double *> &before,
                                                    const PerMixture<double *> &least,
                                                    size_t count) {
  for (size_t mixture = 0; mixture < times.size(); ++mixture) {
    const double time = times[mixture], *__restrict from = before[mixture];
    double *__restrict to = least[mixture];
    if (!to)
      continue;
    for (size_t i = 0; i < count; ++i)
      to[i] = time + from[i] < to[i] ? time + from[i] : to[i];
  }
}

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

double leastWith(const Addition &added, const LeastMixtures &before, int &mixture) {
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

void MixtureTable::reset(size_t places, bool onlyEnds) {
  endsOnly = onlyEnds;
  compressed.clear();
  for (int mixture = 0; mixture <= fillOnly; ++mixture)
    least[mixture].assign(hasMixture(mixture) ? places : 0, infinity);
}

void MixtureTable::setStart(size_t place, size_t count) {
  for (std::vector<double> &each : least)
    if (!each.empty())
      std::fill_n(each.begin() + place, count, 0);
}

LeastMixtures MixtureTable::at(size_t place) const {
  LeastMixtures result;
  for (int mixture = 0; mixture <= fillOnly; ++mixture)
    result.of[mixture] = !hasMixture(mixture) ? -infinity
                         : compressed.empty() ? least[mixture][place]
                                              : double(compressed[place][mixture]);
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
    rows.before[mixture] = hasMixture(mixture) ? &before.least[mixture][place] : nullptr;
    rows.own[mixture] = hasMixture(mixture) ? &least[mixture][own] : nullptr;
  }
  return rows;
}

void MixtureTable::addStage(const Addition &added, const MixtureTable &before, size_t place,
                            size_t own, size_t count) {
  const Rows rows = rowsFrom(before, place, own);
  if (endsOnly)
    return addStageToEnds(added.time, added.forward, added.sync, rows.before, rows.own, count);
  addStageToMixtures(allMixed(added.time, added.forward), added.sync / fillOnly, rows.before,
                     rows.own, count);
}

void MixtureTable::addTransfer(double receive, double gradient, const MixtureTable &before,
                               size_t place, size_t own, size_t count) {
  const Rows rows = rowsFrom(before, place, own);
  addTimesToMixtures(allMixed(receive + gradient, receive), rows.before, rows.own, count);
}

} // namespace heterplan
