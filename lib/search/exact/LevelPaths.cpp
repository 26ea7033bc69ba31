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
/// A sum of shares is not below a level by rounding.
constexpr double rounding = 1e-9;

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

/// `shareOf`: of what there is of a type.
template <typename Types, typename ShareOf> size_t stateOf(const Types &types, ShareOf shareOf) {
  size_t state = 0;
  for (const auto &kept : types)
    state = state * (size_t(kept.count) + 1) + size_t(shareOf(kept.type) * kept.count + rounding);
  return state;
}

void makeSet(std::vector<SearchSpace::Face> &faces) {
  llvm::sort(faces);
  faces.erase(std::unique(faces.begin(), faces.end()), faces.end());
}
} // namespace

LevelPaths::LevelPaths(const Evaluator &evaluator, const Resources &resources, int64_t batch,
                       const Depths &depths, const Tuning &tuning)
    : evaluator(evaluator), space(evaluator.space), resources(resources), paths(evaluator),
      tuning(tuning), batch(batch), depths(depths),
      positions(static_cast<int>(space.positions.size())) {}

/// The type that stages pay most for and that is not kept; −1: there is none.
int LevelPaths::scarcestType(const LagrangianBounds &bounds) const {
  const std::vector<double> &multipliers = bounds.multipliers;
  int scarcest = -1;
  for (int type = 0; type < int(space.available.size()); ++type)
    if (multipliers[type] > 0 && !bounds.levels.keeps(type) &&
        (scarcest < 0 || multipliers[type] > multipliers[scarcest]))
      scarcest = type;
  return scarcest;
}

/// Neighbours alone come first: without levels a solve takes little, and drops many stages.
size_t LevelPaths::keepMore(Interval &interval, const std::vector<StageArc> &choices) {
  LagrangianBounds &bounds = interval.time;
  Junctions junctions = junctionsOf(interval, choices);
  const size_t work = list(interval, choices, junctions), places = junctions.allRows();
  const size_t states = std::min(tuning.mostStates / work, tuning.mostPlaces / places);
  if (states == 0)
    return 0;
  if (!bounds.junctions.empty()) {
    const int type = scarcestType(bounds);
    const size_t most = states / bounds.levels.states();
    if (type < 0 || most <= 1)
      return 0;
    const size_t count = std::min(size_t(resources.limit(type)), most - 1);
    bounds.levels.types.push_back({type, static_cast<int>(count)});
  }
  bounds.junctions = std::move(junctions);
  for (Position &position : listed)
    for (ListedStage &stage : position.stages)
      stage.taken = statesTaken(bounds.levels, choices[stage.choice].option);
  return work * bounds.levels.states();
}

size_t LevelPaths::statesTaken(const Levels &levels, int option) const {
  return stateOf(levels.types, [&](int type) { return resources.use(option, size_t(type)); });
}

size_t LevelPaths::stateLeft(const Levels &levels, ArrayRef<int> used) const {
  return stateOf(levels.types,
                 [&](int type) { return std::max(0.0, 1 - used[type] / resources.limit(type)); });
}

/// The junctions of the stages that are ranked.
Junctions LevelPaths::junctionsOf(const Interval &interval,
                                  const std::vector<StageArc> &choices) const {
  std::vector<std::vector<SearchSpace::Face>> faces(positions);
  for (const RankedArc &ranked : interval.ranked) {
    const StageArc &choice = choices[ranked.choice];
    for (int chain : space.chainsOf(choice.option))
      faces[choice.begin].push_back(space.faceBefore(choice.option, chain));
  }
  faces.back().push_back(SearchSpace::Face());
  Junctions junctions{
      {0}, {}, {0}, DepthWindows::along(interval.ranked, choices, positions, depths)};
  for (int position = 0; position < positions; ++position) {
    std::vector<SearchSpace::Face> &here = faces[position];
    makeSet(here);
    junctions.faces.insert(junctions.faces.end(), here.begin(), here.end());
    junctions.first.push_back(junctions.faces.size());
    junctions.rows.push_back(junctions.rows.back() + here.size() * junctions.depths(position));
  }
  return junctions;
}

/// The transfers of a boundary: the least where its time counts once, infinite where the faces do
/// not meet.
TransferTimes LevelPaths::boundary(int position, SearchSpace::Face before,
                                   SearchSpace::Face behind) {
  if (!space.mayMeet(before, behind))
    return {infinity, infinity};
  if (behind.option < 0 || evaluator.rules.transfersArePartOfStages())
    return {};
  return transferTimes(evaluator, paths, batch, position, before.option, behind.option);
}

/// By junction.
std::vector<LevelPaths::Side> LevelPaths::beginningsOf(const Interval &interval,
                                                       ArrayRef<StageArc> choices,
                                                       const Junctions &junctions) const {
  std::vector<Side> sides;
  for (SearchSpace::Face face : junctions.faces)
    sides.push_back({face, infinity, 0});
  for (const RankedArc &each : interval.ranked) {
    const StageArc &choice = choices[each.choice];
    for (int chain : space.chainsOf(choice.option)) {
      Side &side = sides[junctions.find(choice.begin, space.faceBefore(choice.option, chain))];
      side.add(each.rest, choice.receive);
    }
  }
  sides.back().time = 0; // no stage
  return sides;
}

/// Lists what solves with these junctions look at. Returns the work of one with one state.
size_t LevelPaths::list(const Interval &interval, ArrayRef<StageArc> choices,
                        const Junctions &junctions) {
  listed.assign(positions, {});
  const std::vector<Side> beginnings = beginningsOf(interval, choices, junctions);
  size_t work = 1;
  for (int end = 1; end < positions; ++end) {
    const auto ranked = ArrayRef<RankedArc>(interval.ranked)
                            .slice(interval.firstRanked[end],
                                   interval.firstRanked[end + 1] - interval.firstRanked[end]);
    listStages(end, ranked, choices, junctions);
    listTransfers(end, interval.mostTime, junctions, beginnings);
    work += listed[end].transfers.size() * junctions.depths(end);
    for (const ListedStage &stage : listed[end].stages)
      work += size_t(stage.behind.most - stage.behind.fewest) + 1;
  }
  return work;
}

/// The sides of these stages towards those behind them, without their figures.
std::vector<LevelPaths::Side> LevelPaths::endingsOf(ArrayRef<RankedArc> ranked,
                                                    ArrayRef<StageArc> choices) const {
  std::vector<SearchSpace::Face> faces;
  for (const RankedArc &each : ranked)
    for (int chain : space.chainsOf(choices[each.choice].option))
      faces.push_back(space.faceBehind(choices[each.choice].option, chain));
  makeSet(faces);
  std::vector<Side> sides;
  for (SearchSpace::Face face : faces)
    sides.push_back({face, infinity, 0});
  return sides;
}

/// The stages `ranked` that end at `position`; what they take is not known yet.
void LevelPaths::listStages(int position, ArrayRef<RankedArc> ranked, ArrayRef<StageArc> choices,
                            const Junctions &junctions) {
  Position &here = listed[position];
  here.endings = endingsOf(ranked, choices);
  auto endingOf = [&](SearchSpace::Face face) {
    return lower_bound(here.endings, face,
                       [](const Side &side, SearchSpace::Face than) { return side.face < than; });
  };
  for (const RankedArc &each : ranked) {
    const StageArc &choice = choices[each.choice];
    const StagesBehind behind = junctions.windows.within(each.behind, position);
    if (behind.fewest > behind.most)
      continue;
    for (int chain : space.chainsOf(choice.option)) {
      const auto ending = endingOf(space.faceBehind(choice.option, chain));
      ending->add(each.time, choice.gradient);
      const int junction = junctions.find(choice.begin, space.faceBefore(choice.option, chain));
      here.stages.push_back({each.choice, chain, int(ending - here.endings.begin()),
                             size_t(junction), /*taken=*/0, behind});
    }
  }
}

/// Lists the neighbours that a placement of interest may have.
void LevelPaths::listTransfers(int position, double most, const Junctions &junctions,
                               ArrayRef<Side> beginnings) {
  Position &of = listed[position];
  for (size_t here = junctions.first[position]; here < junctions.first[position + 1]; ++here)
    for (size_t i = 0; i < of.endings.size(); ++i) {
      const Side &before = of.endings[i], &behind = beginnings[here];
      if (before.time + behind.time > most)
        continue;
      const TransferTimes times = boundary(position, before.face, behind.face);
      const double more =
          times.receive + times.gradient - (before.transfer + behind.transfer) / StageArc::safety;
      if (std::isfinite(times.receive) && before.time + behind.time + more <= most)
        of.transfers.push_back({int(i), here, times.receive, times.gradient});
    }
}

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
  bounds.atJunctions.reset(junctions.allRows() * states);
  bounds.atJunctions.setStart(0, junctions.rows[1] * states);
  MixtureTable reached;
  for (int end = 1; end < positions; ++end) {
    const size_t rows = junctions.depths(end) * states;
    reached.reset(listed[end].endings.size() * rows);
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
  const Addition added{pays + choice.ownTime(), pays + choice.ownForwardTime(), choice.syncTime()};
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

/// Adds a stage to what is before it in each state that has room for it.
void LevelPaths::addStates(const Addition &added, const ListedStage &stage,
                           const LagrangianBounds &bounds, size_t before, size_t own,
                           MixtureTable &reached) const {
  const ArrayRef<Levels::Kept> kept = bounds.levels.types;
  const ArrayRef<Levels::Kept> outer = kept.drop_back();
  const size_t states = bounds.levels.states(), inner = size_t(kept.back().count) + 1;
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
    const Addition added{paid + choice.time() - choice.gradient + transfer->gradient,
                         paid + choice.forwardTime(), choice.syncTime()};
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
    behind = space.faceBefore(choice.option, best.chain);
    mixture = best.mixture;
  }
  return path;
}

LeastMixtures LevelPaths::leastBefore(const LagrangianBounds &bounds, int position, int behind,
                                      int option, int chain, double receive, size_t state) const {
  const Junctions &junctions = bounds.junctions;
  const int junction =
      junctions.find(position, option < 0 ? SearchSpace::Face() : space.faceBefore(option, chain));
  const int depth = depths.of(behind);
  if (junction < 0 ||
      !junctions.windows.of[position].has(depth)) // no placement of interest has the stage
    return LeastMixtures::none();
  LeastMixtures least = bounds.atJunctions.at(
      junctions.row(position, size_t(junction), depth) * bounds.levels.states() + state);
  for (double &each : least.of)
    each -= receive;
  return least;
}

} // namespace heterplan
