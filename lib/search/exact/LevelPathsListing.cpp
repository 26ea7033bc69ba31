// The lists that shortest paths with levels look at: kept limits, junctions, stages and transfers.
#include "search/exact/LevelPaths.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The states for which junctions that know neighbours have to leave room to come first.
constexpr size_t fewStates = 16;
/// The states that are examined without neighbours are this part of mostStates at first, and then
/// more: they are simpler.
constexpr double firstPart = 4.0 / 3, secondPart = 16.0 / 3;
/// Levels have to count so many times as much as those before.
constexpr double worthMore = 1.02, worthNeighbours = 0.95;
/// A type that is kept is worth at least this part of what all devices cost.
constexpr double worthOfKept = 0.05;
/// How often an interval is sharpened at most.
constexpr int mostSharpened = 8;

/// The option of all stages that lie apart from what is on one side, if neighbours are not known.
constexpr int anyOption = -2;
/// A face as junctions have it.
SearchSpace::Face faceAs(bool knowNeighbours, SearchSpace::Face face) {
  const bool isKnown = knowNeighbours || face.chain > 0 || face.option < 0;
  return isKnown ? face : SearchSpace::Face{anyOption, 0};
}

ArrayRef<RankedArc> rankedAt(const Interval &interval, int end) {
  return ArrayRef<RankedArc>(interval.ranked)
      .slice(interval.firstRanked[end], interval.firstRanked[end + 1] - interval.firstRanked[end]);
}

void makeSet(std::vector<SearchSpace::Face> &faces) {
  llvm::sort(faces);
  faces.erase(std::unique(faces.begin(), faces.end()), faces.end());
}
} // namespace

bool LevelPaths::keepsAll(const LagrangianBounds &bounds) const {
  for (int type = 0; type < int(space.available.size()); ++type)
    if (bounds.multipliers[type] > 0 && !bounds.levels.keeps(type))
      return false;
  return true;
}

/// The types that stages pay for, or that are kept, with the stages that are ranked.
std::vector<LimitedType> LevelPaths::scarceTypes(const Interval &interval,
                                                 ArrayRef<StageArc> choices) const {
  std::vector<LimitedType> scarce;
  const std::vector<double> &multipliers = interval.time.multipliers;
  const double all = std::accumulate(multipliers.begin(), multipliers.end(), 0.0);
  for (int type = 0; type < int(space.available.size()); ++type) {
    const int slots = space.available[type];
    const double least = interval.time.levels.keeps(type) ? all * worthOfKept : 0;
    const double worth = std::max(multipliers[type], least);
    if (!(worth > 0) || slots == 0)
      continue;
    std::vector<size_t> stages(size_t(slots) + 1, 0);
    for (const RankedArc &ranked : interval.ranked)
      if (const int use = space.options[choices[ranked.choice].option].slots[type]; use <= slots)
        ++stages[size_t(use)];
    LimitedType &of = scarce.emplace_back();
    of = {type, slots, worth};
    for (int use = 1; use <= slots; ++use)
      if (stages[size_t(use)] > 0)
        of.uses.push_back({use, stages[size_t(use)]});
  }
  return scarce;
}

SearchSpace::Face LevelPaths::faceBefore(const Junctions &junctions, int option, int chain) const {
  return faceAs(junctions.knowNeighbours, space.faceBefore(option, chain));
}

SearchSpace::Face LevelPaths::faceBehind(const Junctions &junctions, int option, int chain) const {
  return faceAs(junctions.knowNeighbours, space.faceBehind(option, chain));
}

/// Neighbours alone come first if they leave room: a solve without levels takes little then, and
/// drops many stages. Else levels come first, without neighbours.
size_t LevelPaths::keepMore(Interval &interval, ArrayRef<StageArc> choices) {
  if (interval.sharpened == mostSharpened)
    return 0;
  const Junctions &junctions = interval.time.junctions;
  const bool first =
      junctions.empty() ? mayKnowNeighbours(interval, choices) : junctions.knowNeighbours;
  const bool keepsBoth = junctions.knowNeighbours && !interval.time.levels.types.empty();
  size_t work = keep(interval, choices, first);
  if (work == 0 && !keepsBoth)
    work = keep(interval, choices, !first);
  interval.sharpened += work > 0;
  return work;
}

/// Whether neighbours, which are not listed yet, leave room for a few states.
bool LevelPaths::mayKnowNeighbours(const Interval &interval, ArrayRef<StageArc> choices) const {
  const Junctions junctions = junctionsOf(interval, choices, /*knowNeighbours=*/true);
  size_t work = 0;
  for (int end = 1; end < positions; ++end)
    work += endingsOf(rankedAt(interval, end), choices, junctions).size() *
            (junctions.first[end + 1] - junctions.first[end]) * junctions.depths(end);
  return work * fewStates <= size_t(tuning.mostStates);
}

/// Keeps levels that count more than those before, or neighbours. Returns the work of a solve, or
/// 0.
size_t LevelPaths::keep(Interval &interval, ArrayRef<StageArc> choices, bool knowNeighbours) {
  LagrangianBounds &bounds = interval.time;
  const bool isFirst = bounds.junctions.empty();
  Junctions junctions = junctionsOf(interval, choices, knowNeighbours);
  const size_t work = list(interval, choices, junctions), places = junctions.allRows();
  const double part = knowNeighbours ? 1 : interval.sharpened == 0 ? firstPart : secondPart;
  const size_t room =
      std::min(size_t(part * double(tuning.mostStates)) / work, size_t(tuning.mostPlaces) / places);
  if (room == 0)
    return 0;
  Levels levels;
  if (!isFirst || !knowNeighbours) {
    const std::vector<LimitedType> limited = scarceTypes(interval, choices);
    const bool adds = knowNeighbours && bounds.junctions.knowNeighbours;
    levels = adds ? bounds.levels.withOneMore(room, limited) : Levels::within(room, limited);
    const double now = levels.counted(limited), before = bounds.levels.counted(limited);
    if (adds ? levels.types.size() == bounds.levels.types.size()
             : now <= before * (knowNeighbours ? worthNeighbours : worthMore))
      return 0;
  }
  use(bounds, std::move(levels), std::move(junctions), choices);
  return work * bounds.levels.states();
}

size_t LevelPaths::keepNeighboursAlone(Interval &interval, ArrayRef<StageArc> choices) {
  Junctions junctions = junctionsOf(interval, choices, /*knowNeighbours=*/true);
  const size_t work = list(interval, choices, junctions);
  if (work > size_t(tuning.mostStates) || junctions.allRows() > size_t(tuning.mostPlaces))
    return 0;
  use(interval.time, {}, std::move(junctions), choices);
  ++interval.sharpened;
  return work;
}

/// The bounds keep these, which are listed.
void LevelPaths::use(LagrangianBounds &bounds, Levels &&levels, Junctions &&junctions,
                     ArrayRef<StageArc> choices) {
  bounds.levels = std::move(levels);
  bounds.junctions = std::move(junctions);
  for (Position &position : listed)
    for (ListedStage &stage : position.stages)
      stage.taken = bounds.levels.statesTaken(space.options[choices[stage.choice].option].slots);
}

/// The junctions of the stages that are ranked.
Junctions LevelPaths::junctionsOf(const Interval &interval, ArrayRef<StageArc> choices,
                                  bool knowNeighbours) const {
  std::vector<std::vector<SearchSpace::Face>> faces(positions);
  for (const RankedArc &ranked : interval.ranked) {
    const StageArc &choice = choices[ranked.choice];
    for (int chain : space.chainsOf(choice.option))
      faces[choice.begin].push_back(faceAs(knowNeighbours, space.faceBefore(choice.option, chain)));
  }
  faces.back().push_back(SearchSpace::Face());
  Junctions junctions{{0},
                      {},
                      {0},
                      DepthWindows::along(interval.ranked, choices, positions, depths),
                      knowNeighbours};
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
/// not meet. Without neighbours stages contain them.
TransferTimes LevelPaths::boundary(bool knowNeighbours, int position, SearchSpace::Face before,
                                   SearchSpace::Face behind) {
  const bool isAny = before.option == anyOption;
  if (isAny ? behind.option != anyOption && behind.option >= 0
            : behind.option == anyOption || !space.mayMeet(before, behind))
    return {infinity, infinity};
  if (behind.option < 0 || !knowNeighbours || evaluator.rules.transfersArePartOfStages())
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
      Side &side = sides[junctions.find(choice.begin, faceBefore(junctions, choice.option, chain))];
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
    const auto ranked = rankedAt(interval, end);
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
                                                    ArrayRef<StageArc> choices,
                                                    const Junctions &junctions) const {
  std::vector<SearchSpace::Face> faces;
  for (const RankedArc &each : ranked)
    for (int chain : space.chainsOf(choices[each.choice].option))
      faces.push_back(faceBehind(junctions, choices[each.choice].option, chain));
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
  here.endings = endingsOf(ranked, choices, junctions);
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
      const auto ending = endingOf(faceBehind(junctions, choice.option, chain));
      ending->add(each.time, choice.gradient);
      const int junction =
          junctions.find(choice.begin, faceBefore(junctions, choice.option, chain));
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
      const TransferTimes times =
          boundary(junctions.knowNeighbours, position, before.face, behind.face);
      double more = times.receive + times.gradient;
      if (junctions.knowNeighbours) // in place of the least transfers
        more -= (before.transfer + behind.transfer) / StageArc::safety;
      if (std::isfinite(times.receive) && before.time + behind.time + more <= most)
        of.transfers.push_back({int(i), here, times.receive, times.gradient});
    }
}

} // namespace heterplan
