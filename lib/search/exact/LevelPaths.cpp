#include "search/exact/LevelPaths.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Whether each level of `state` is at least that of `other`, for states of these types.
template <typename Types> bool isAtLeast(const Types &types, size_t state, size_t other) {
  for (size_t i = types.size(); i-- > 0;) {
    size_t count = size_t(types[i].count) + 1;
    if (state % count < other % count)
      return false;
    state /= count;
    other /= count;
  }
  return true;
}
} // namespace

LevelPaths::LevelPaths(const Evaluator &evaluator, const Resources &resources, int64_t batch,
                       const Depths &depths, const Tuning &tuning)
    : evaluator(evaluator), space(evaluator.space), resources(resources), paths(evaluator),
      tuning(tuning), batch(batch), depths(depths),
      positions(static_cast<int>(space.positions.size())) {}

/// Null where no placement of interest has these neighbours.
const LevelPaths::ListedTransfer *LevelPaths::transferBetween(int position, int ending,
                                                              size_t junction) const {
  const std::vector<ListedTransfer> &transfers = listed[position].transfers;
  const auto found =
      lower_bound(transfers, std::pair(junction, ending), [](const ListedTransfer &a, auto b) {
        return std::pair(a.junction, a.ending) < b;
      });
  const bool isThere =
      found != transfers.end() && found->junction == junction && found->ending == ending;
  return isThere ? &*found : nullptr;
}

double LevelPaths::solve(ArrayRef<StageArc> choices, Pays pays, LagrangianBounds &bounds) const {
  const size_t states = bounds.levels.states();
  const Junctions &junctions = bounds.junctions;
  const bool endsOnly = !junctions.knowNeighbours;
  bounds.atJunctions.reset(junctions.allRows() * states, endsOnly);
  bounds.atJunctions.setStart(0, junctions.rows[1] * states);
  MixtureTable reached;
  for (int end = 1; end < positions; ++end) {
    const size_t rows = junctions.depths(end) * states;
    reached.reset(listed[end].endings.size() * rows, endsOnly);
    for (const ListedStage &stage : listed[end].stages) {
      const StageArc &choice = choices[stage.choice];
      addStage(stage, choice, pays(choice), bounds, reached);
    }
    for (const ListedTransfer &of : listed[end].transfers)
      bounds.atJunctions.addTransfer(
          of.receive, of.gradient, reached, of.ending * rows,
          junctions.row(end, of.junction, junctions.windows.of[end].fewest) * states, rows);
  }
  return bounds.atJunctions.fill().back();
}

/// Adds a stage, which `pays` for its own, to what is before it at each depth and in each state
/// that has room for it.
void LevelPaths::addStage(const ListedStage &stage, const StageArc &choice, double pays,
                          const LagrangianBounds &bounds, MixtureTable &reached) const {
  const Junctions &junctions = bounds.junctions;
  const size_t states = bounds.levels.states();
  const Addition added =
      junctions.knowNeighbours
          ? Addition{pays + choice.ownTime(), pays + choice.ownForwardTime(), choice.syncTime()}
          : Addition{pays + choice.time(), pays + choice.forwardTime(), choice.syncTime()};
  const int first = junctions.windows.of[choice.end].fewest;
  const size_t ending = size_t(stage.ending) * junctions.depths(choice.end);
  int behind = stage.behind.fewest;
  auto add = [&](size_t count) {
    const size_t before =
        junctions.row(choice.begin, stage.junction, depths.of(behind + 1)) * states;
    const size_t own = (ending + size_t(behind - first)) * states;
    if (states == 1)
      reached.addStage(added, bounds.atJunctions, before, own, count);
    else
      addStates(added, stage, bounds, before, own, reached);
    behind += int(count);
  };
  if (const int most = std::min(stage.behind.most, depths.most - 1);
      states == 1 && behind <= most) // side by side
    add(size_t(most - behind) + 1);
  while (behind <= stage.behind.most)
    add(1);
}

/// Adds a stage to what is before it in each state that has room for it: side by side where only
/// the types that count fastest differ, from the last one on of which the stage takes any.
void LevelPaths::addStates(const Addition &added, const ListedStage &stage,
                           const LagrangianBounds &bounds, size_t before, size_t own,
                           MixtureTable &reached) const {
  ArrayRef<KeptType> outer = bounds.levels.types;
  const size_t states = bounds.levels.states();
  size_t inner = 1;
  while (!outer.empty() && (inner == 1 || stage.taken % inner == 0)) {
    inner *= size_t(outer.back().count) + 1;
    outer = outer.drop_back();
  }
  const size_t least = stage.taken % inner;
  for (size_t row = stage.taken / inner; row < states / inner; ++row) {
    if (!isAtLeast(outer, row, stage.taken / inner))
      continue;
    const size_t state = row * inner + least;
    reached.addStage(added, bounds.atJunctions, before + state - stage.taken, own + state,
                     inner - least);
  }
}

/// The stage that ends at `position` on the shortest path which has `depth` stages behind it and
/// `state` there, with the mixture of the layers before it.
LevelPaths::Traced LevelPaths::traced(ArrayRef<StageArc> choices, Pays pays,
                                      const LagrangianBounds &bounds, int position, int depth,
                                      size_t state, int mixture, SearchSpace::Face behind) const {
  Traced best{infinity};
  const int junction = bounds.junctions.find(position, behind);
  for (const ListedStage &stage : listed[position].stages) {
    const StageArc &choice = choices[stage.choice];
    if (!stage.behind.has(depth) || stage.chain != space.ownChain(choice.option) + behind.chain ||
        !isAtLeast(bounds.levels.types, state, stage.taken)) // no room
      continue;
    const ListedTransfer *transfer = transferBetween(position, stage.ending, size_t(junction));
    if (!transfer)
      continue;
    const LeastMixtures before = leastBefore(bounds, choice.begin, depth + 1, choice.option,
                                             stage.chain, choice.receive, state - stage.taken);
    const double paid = pays(choice) + transfer->receive;
    const double gradient =
        bounds.junctions.knowNeighbours ? transfer->gradient - choice.gradient : 0;
    const Addition added{paid + choice.time() + gradient, paid + choice.forwardTime(),
                         choice.syncTime()};
    int ofBefore = mixture;
    const double time = leastWith(added, before, ofBefore);
    if (time < best.time)
      best = {time, stage.choice, stage.chain, ofBefore, stage.taken};
  }
  return best;
}

ArcPath LevelPaths::path(ArrayRef<StageArc> choices, Pays pays,
                         const LagrangianBounds &bounds) const {
  ArcPath path;
  size_t state = bounds.levels.states() - 1;
  int mixture = fillOnly, depth = 0;
  SearchSpace::Face behind;
  const bool isFinite = std::isfinite(bounds.atJunctions.fill().back());
  for (int position = positions - 1; position > 0 && isFinite;) {
    const Traced best = traced(choices, pays, bounds, position, depth, state, mixture, behind);
    if (best.choice < 0)
      return {};
    const StageArc &choice = choices[best.choice];
    path.push_back({best.choice, choice.time()});
    state -= best.taken;
    depth = depths.of(depth + 1);
    position = choice.begin;
    behind = faceBefore(bounds.junctions, choice.option, best.chain);
    mixture = best.mixture;
  }
  return path;
}

LeastMixtures LevelPaths::leastBefore(const LagrangianBounds &bounds, int position, int behind,
                                      int option, int chain, double receive, size_t state) const {
  const Junctions &junctions = bounds.junctions;
  const int junction = junctions.find(position, option < 0 ? SearchSpace::Face()
                                                           : faceBefore(junctions, option, chain));
  const int depth = depths.of(behind);
  if (junction < 0 ||
      !junctions.windows.of[position].has(depth)) // no placement of interest has the stage
    return LeastMixtures::none();
  LeastMixtures least = bounds.atJunctions.at(
      junctions.row(position, size_t(junction), depth) * bounds.levels.states() + state);
  if (junctions.knowNeighbours)
    for (double &each : least.of)
      each -= receive;
  return least;
}

} // namespace heterplan
