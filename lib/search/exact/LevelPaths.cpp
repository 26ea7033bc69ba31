#include "search/exact/LevelPaths.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

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
                       const Tuning &tuning)
    : evaluator(evaluator), space(evaluator.space), resources(resources), paths(evaluator),
      tuning(tuning), batch(batch), positions(static_cast<int>(space.positions.size())) {}

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
size_t LevelPaths::keepMore(Interval &interval, ArrayRef<StageArc> choices) {
  LagrangianBounds &bounds = interval.time;
  Junctions junctions = junctionsOf(interval, choices);
  const size_t work = list(interval, choices, junctions), places = junctions.faces.size();
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
Junctions LevelPaths::junctionsOf(const Interval &interval, ArrayRef<StageArc> choices) const {
  std::vector<std::vector<SearchSpace::Face>> faces(positions);
  for (const RankedArc &ranked : interval.ranked) {
    const StageArc &choice = choices[ranked.choice];
    for (int chain : space.chainsOf(choice.option))
      faces[choice.begin].push_back(space.faceBefore(choice.option, chain));
  }
  faces.back().push_back(SearchSpace::Face());
  Junctions junctions{{0}, {}};
  for (std::vector<SearchSpace::Face> &here : faces) {
    makeSet(here);
    junctions.faces.insert(junctions.faces.end(), here.begin(), here.end());
    junctions.first.push_back(junctions.faces.size());
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

/// Lists what solves with these junctions look at. Returns the work of one with one state.
size_t LevelPaths::list(const Interval &interval, ArrayRef<StageArc> choices,
                        const Junctions &junctions) {
  listed.assign(positions, {});
  std::vector<SearchSpace::Face> endings;
  size_t work = 1;
  for (int end = 1; end < positions; ++end) {
    const auto ranked = ArrayRef(interval.ranked)
                            .slice(interval.firstRanked[end],
                                   interval.firstRanked[end + 1] - interval.firstRanked[end]);
    endings.clear();
    for (const RankedArc &each : ranked)
      for (int chain : space.chainsOf(choices[each.choice].option))
        endings.push_back(space.faceBehind(choices[each.choice].option, chain));
    makeSet(endings);
    listStages(end, ranked, choices, junctions, endings);
    listTransfers(end, junctions, endings);
    work += listed[end].stages.size() + listed[end].transfers.size();
  }
  return work;
}

/// The stages `ranked` that end at `position`; what they take is not known yet.
void LevelPaths::listStages(int position, ArrayRef<RankedArc> ranked, ArrayRef<StageArc> choices,
                            const Junctions &junctions, ArrayRef<SearchSpace::Face> endings) {
  Position &here = listed[position];
  here.endings = int(endings.size());
  for (const RankedArc &each : ranked) {
    const StageArc &choice = choices[each.choice];
    for (int chain : space.chainsOf(choice.option)) {
      const auto ending = lower_bound(endings, space.faceBehind(choice.option, chain));
      const int junction = junctions.find(choice.begin, space.faceBefore(choice.option, chain));
      here.stages.push_back(
          {each.choice, int(ending - endings.begin()), size_t(junction), /*taken=*/0});
    }
  }
}

void LevelPaths::listTransfers(int position, const Junctions &junctions,
                               ArrayRef<SearchSpace::Face> endings) {
  for (size_t here = junctions.first[position]; here < junctions.first[position + 1]; ++here)
    for (size_t i = 0; i < endings.size(); ++i) {
      const TransferTimes times = boundary(position, endings[i], junctions.faces[here]);
      if (std::isfinite(times.receive))
        listed[position].transfers.push_back({int(i), here, times.receive, times.gradient});
    }
}

double LevelPaths::solve(ArrayRef<StageArc> choices, Pays pays, LagrangianBounds &bounds) const {
  const size_t states = bounds.levels.states();
  bounds.atJunctions.reset(bounds.junctions.faces.size() * states);
  bounds.atJunctions.setStart(0, bounds.junctions.first[1] * states);
  MixtureTable reached;
  for (int end = 1; end < positions; ++end) {
    reached.reset(listed[end].endings * states);
    for (const ListedStage &stage : listed[end].stages) {
      const StageArc &choice = choices[stage.choice];
      addStage(stage, choice, pays(choice), bounds, reached);
    }
    for (const ListedTransfer &of : listed[end].transfers)
      bounds.atJunctions.addTransfer(of.receive, of.gradient, reached, of.ending * states,
                                     of.junction * states, states);
  }
  return bounds.atJunctions.fill().back();
}

/// Adds a stage, which `pays` for its own, to what is before it in each state that has room for it.
void LevelPaths::addStage(const ListedStage &stage, const StageArc &choice, double pays,
                          const LagrangianBounds &bounds, MixtureTable &reached) const {
  const ArrayRef<Levels::Kept> kept = bounds.levels.types;
  const ArrayRef<Levels::Kept> outer = kept.empty() ? kept : kept.drop_back();
  const size_t states = bounds.levels.states();
  const size_t inner = kept.empty() ? 1 : size_t(kept.back().count) + 1;
  const Addition added{pays + choice.ownTime(), pays + choice.ownForwardTime(), choice.syncTime()};
  const size_t least = stage.taken % inner;
  for (size_t row = stage.taken / inner; row < states / inner; ++row) {
    if (!isAtLeast(outer, row, stage.taken / inner))
      continue;
    size_t state = row * inner + least, before = stage.junction * states + state - stage.taken;
    size_t own = stage.ending * states + state;
    reached.addStage(added, bounds.atJunctions, before, own, inner - least);
  }
}

/// The stage that ends at `position` on the shortest path which has `state` there, with the mixture
/// of the layers before it.
LevelPaths::Traced LevelPaths::traced(const Interval &interval, ArrayRef<StageArc> choices,
                                      Pays pays, const LagrangianBounds &bounds, int position,
                                      size_t state, int mixture, SearchSpace::Face behind) {
  Traced best{infinity};
  for (size_t i = interval.firstRanked[position]; i < interval.firstRanked[position + 1]; ++i) {
    const int index = interval.ranked[i].choice;
    const StageArc &choice = choices[index];
    const size_t takes = statesTaken(bounds.levels, choice.option);
    const int chain = space.ownChain(choice.option) + behind.chain;
    if (!isAtLeast(bounds.levels.types, state, takes) ||
        !is_contained(space.chainsOf(choice.option), chain)) // no room
      continue;
    const TransferTimes transfers =
        boundary(position, space.faceBehind(choice.option, chain), behind);
    if (std::isinf(transfers.receive))
      continue;
    const LeastMixtures before =
        leastBefore(bounds, choice.begin, choice.option, chain, choice.receive, state - takes);
    const double paid = pays(choice) + transfers.receive;
    const Addition added{paid + choice.time() - choice.gradient + transfers.gradient,
                         paid + choice.forwardTime(), choice.syncTime()};
    int ofBefore = mixture;
    const double time = leastWith(added, before, ofBefore);
    if (time < best.time)
      best = {time, index, chain, ofBefore, takes};
  }
  return best;
}

ArcPath LevelPaths::path(const Interval &interval, ArrayRef<StageArc> choices, Pays pays,
                         const LagrangianBounds &bounds) {
  ArcPath path;
  size_t state = bounds.levels.states() - 1;
  int mixture = fillOnly;
  SearchSpace::Face behind;
  const bool isFinite = std::isfinite(bounds.atJunctions.fill().back());
  for (int position = positions - 1; position > 0 && isFinite;) {
    const Traced best = traced(interval, choices, pays, bounds, position, state, mixture, behind);
    if (best.choice < 0)
      return {};
    const StageArc &choice = choices[best.choice];
    path.push_back({best.choice, choice.time()});
    state -= best.taken;
    position = choice.begin;
    behind = space.faceBefore(choice.option, best.chain);
    mixture = best.mixture;
  }
  return path;
}

LeastMixtures LevelPaths::leastBefore(const LagrangianBounds &bounds, int position, int option,
                                      int chain, double receive, size_t state) const {
  const int junction = bounds.junctions.find(
      position, option < 0 ? SearchSpace::Face() : space.faceBefore(option, chain));
  if (junction < 0) // no placement of interest has the stage
    return LeastMixtures::none();
  LeastMixtures least = bounds.atJunctions.at(junction * bounds.levels.states() + state);
  for (double &each : least.of)
    each -= receive;
  return least;
}

} // namespace heterplan
