#include "search/exact/ArcPaths.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

void ArcPaths::list(const std::vector<StageArc> &choices, ArrayRef<OpenArc> listed, Depths asked,
                    int count, function_ref<double(const StageArc &)> money) {
  depths = asked;
  positions = count;
  const DepthWindows windows = DepthWindows::along(listed, choices, positions, depths);
  arcs.clear();
  arcs.reserve(listed.size());
  firstArc.assign(1, 0);
  for (const OpenArc &open : listed) {
    const StageArc &choice = choices[open.choice];
    const StagesBehind behind = windows.within(open.behind, choice.end);
    if (behind.fewest > behind.most)
      continue;
    while (int(firstArc.size()) <= choice.end)
      firstArc.push_back(arcs.size());
    const double paid = money(choice);
    places.overStage(choice, [&](size_t before, size_t after) {
      arcs.push_back({choice.time(), choice.forwardTime(), choice.syncTime(), paid, open.choice,
                      choice.option, behind.fewest, behind.most - behind.fewest + 1,
                      unsigned(before), unsigned(after)});
    });
  }
  firstArc.resize(size_t(positions) + 1, arcs.size());
}

double ArcPaths::solve(const Charges &charges, LagrangianBounds &bounds) {
  bounds.rowOf.clear();
  bounds.fill.assign(places.size() * depths.rows(), infinity);
  bounds.forward.assign(places.size() * depths.rows(), infinity);
  std::fill_n(bounds.fill.begin(), depths.rows(), 0);
  std::fill_n(bounds.forward.begin(), depths.rows(), 0);
  for (int position = 1; position < positions; ++position) {
    for (size_t i = firstArc[position]; i < firstArc[position + 1]; ++i) {
      const Arc &arc = arcs[i];
      const Added of = added(arc, charges);
      const size_t before = arc.before * depths.rows() + arc.fewest + 1;
      const size_t behind = arc.behind * depths.rows() + arc.fewest;
      const double *fills = &bounds.fill[before], *forwards = &bounds.forward[before];
      double *leastFills = &bounds.fill[behind], *leastForwards = &bounds.forward[behind];
      for (int each = 0; each < arc.count; ++each) {
        const double forward = of.forward + forwards[each];
        leastForwards[each] = std::min(leastForwards[each], forward);
        const double fill = of.fill + std::max(fills[each], of.exposed + forwards[each]);
        leastFills[each] = std::min(leastFills[each], fill);
      }
    }
    finish(position, bounds);
  }
  return bounds.fill[depths.at(places.at(positions - 1), 0)];
}

/// A chain that may have more devices may have fewer.
void ArcPaths::finish(int position, LagrangianBounds &bounds) const {
  for (std::vector<double> *table : {&bounds.fill, &bounds.forward}) {
    places.overChains(position, [&](size_t fewer, size_t more) {
      for (int behind = 0; behind <= depths.most; ++behind) {
        double &least = (*table)[depths.at(more, behind)];
        least = std::min(least, (*table)[depths.at(fewer, behind)]);
      }
    });
    for (size_t place = places.at(position); place < places.at(position + 1); ++place)
      (*table)[(place + 1) * depths.rows() - 1] = (*table)[depths.at(place, depths.most)];
  }
}

/// The arc by which a path reaches a state; null where that is by a chain with fewer devices.
const ArcPaths::Arc *ArcPaths::arcInto(const State &state, int position, const Charges &charges,
                                       const LagrangianBounds &bounds) const {
  const Arc *best = nullptr;
  double least = infinity;
  for (size_t i = firstArc[position]; i < firstArc[position + 1]; ++i) {
    const Arc &arc = arcs[i];
    if (arc.behind != state.place || state.behind < arc.fewest ||
        state.behind >= arc.fewest + arc.count)
      continue;
    const Added of = added(arc, charges);
    const size_t before = depths.at(arc.before, state.behind + 1);
    const double forward = bounds.forward[before];
    const double figure = state.forwardOnly
                              ? of.forward + forward
                              : of.fill + std::max(bounds.fill[before], of.exposed + forward);
    if (figure < least) {
      least = figure;
      best = &arc;
    }
  }
  const bool isFewer = fewerAt(state, position, bounds) != state.place;
  return isFewer && least > figure(state, bounds) ? nullptr : best;
}

/// The place whose chain has fewer devices from which a state may have its figure.
size_t ArcPaths::fewerAt(const State &state, int position, const LagrangianBounds &bounds) const {
  size_t found = state.place;
  places.overChains(position, [&](size_t fewer, size_t more) {
    const State other{fewer, state.behind, state.forwardOnly};
    if (more == state.place && figure(other, bounds) <= figure(state, bounds))
      found = fewer;
  });
  return found;
}

ArcPath ArcPaths::path(ArrayRef<StageArc> choices, const Charges &charges,
                       const LagrangianBounds &bounds) const {
  ArcPath path;
  State state{places.at(positions - 1)};
  for (int position = positions - 1; position > 0;) {
    const Arc *arc = arcInto(state, position, charges, bounds);
    if (!arc) { // by a chain with fewer devices
      state.place = fewerAt(state, position, bounds);
      continue;
    }
    const StageArc &choice = choices[arc->choice];
    double seconds = state.forwardOnly ? choice.forwardTime() : choice.time();
    state.behind = depths.of(state.behind + 1);
    const size_t before = depths.at(arc->before, state.behind);
    if (!state.forwardOnly &&
        charges.second * arc->sync + bounds.forward[before] > bounds.fill[before]) {
      seconds += choice.syncTime();
      state.forwardOnly = true;
    }
    path.push_back({arc->choice, seconds});
    state.place = arc->before;
    position = choice.begin;
  }
  return path;
}

} // namespace heterplan
