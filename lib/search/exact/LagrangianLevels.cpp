// Where few stages are left: paths that know the neighbours of their stages, so that transfers are
// as they are, and that keep the limits of the scarcest types exactly. The relaxation then mixes
// only paths that do (successive sublimation; Ibaraki, 1987).
#include "search/exact/Lagrangian.h"
#include "search/exact/StateLoops.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
/// Of the first type, and the least of others for which they are worth it.
constexpr size_t mostLevels = 64, fewestLevels = 8;
/// Additions of one solve by states, and junctions by states, which are kept.
constexpr size_t mostStates = 3'000'000, mostPlaces = 150'000;
constexpr int stepsOfLevels = 12;
/// A sum of shares is not below a level by rounding.
constexpr double rounding = 1e-9;

/// Of states of these types: whether each level of `state` is at least that of `other`.
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
} // namespace

int64_t Lagrangian::sharpen(double newTimeLimit) {
  if (costMatters || !std::isfinite(newTimeLimit))
    return 0;
  timeLimit = newTimeLimit;
  dropSolved();
  while (true) {
    Interval *least = nullptr;
    for (Interval &interval : intervals)
      if (!interval.isSharp && (!least || interval.time.bound < least->time.bound))
        least = &interval;
    if (!least)
      return 0;
    rankChoices(*least); // fewer than before, where the limit is shorter
    if (keepMore(*least)) {
      int64_t work = improveByLevels(*least);
      dropSolved();
      return work;
    }
    least->isSharp = true;
  }
}

/// The one that stages pay most for and that is not kept; −1: there is none.
int Lagrangian::scarcestType(const LagrangianBounds &relaxation) const {
  const std::vector<double> &multipliers = relaxation.multipliers;
  int scarcest = -1;
  for (int type = 0; type < types; ++type)
    if (multipliers[type] > 0 && !relaxation.levels.keeps(type) &&
        (scarcest < 0 || multipliers[type] > multipliers[scarcest]))
      scarcest = type;
  return scarcest;
}

/// Neighbours, and the limit of one more type; false where both are kept, or none is scarce, or too
/// much is left to look at.
bool Lagrangian::keepMore(Interval &interval) const {
  LagrangianBounds &relaxation = interval.time;
  Junctions junctions = junctionsOf(interval);
  const size_t work = additions(interval, junctions), places = junctions.faces.size();
  if (std::max(work / mostStates, places / mostPlaces) > 0)
    return false;
  bool isNew = relaxation.junctions.empty();
  size_t most = std::min(mostStates / work, mostPlaces / places) / relaxation.levels.states();
  if (int type = scarcestType(relaxation); type >= 0 && most > 1) {
    size_t all(limits[type]), count = std::min({all, mostLevels, most - 1});
    if (count >= std::min(all, fewestLevels)) {
      relaxation.levels.types.push_back({type, static_cast<int>(count)});
      isNew = true;
    }
  }
  if (isNew)
    relaxation.junctions = std::move(junctions);
  return isNew;
}

/// What one solve with one state takes.
size_t Lagrangian::additions(const Interval &interval, const Junctions &junctions) const {
  const SearchSpace &space = evaluator.space;
  size_t sum = 1;
  for (int position = 1; position < positions; ++position) {
    std::set<SearchSpace::Face> ending;
    for (size_t i = interval.firstRanked[position]; i < interval.firstRanked[position + 1]; ++i) {
      const int option = choices[interval.ranked[i].choice].option;
      sum += space.chainsOf(option).size();
      for (int chain : space.chainsOf(option))
        ending.insert(space.faceBehind(option, chain));
    }
    for (size_t here = junctions.first[position]; here < junctions.first[position + 1]; ++here)
      sum += count_if(ending, [&](SearchSpace::Face before) {
        return space.mayMeet(before, junctions.faces[here]);
      });
  }
  return sum;
}

/// Stages that no placement of interest has are left out, so that the bound is not above
/// `timeLimit`. Returns the work that it took.
int64_t Lagrangian::improveByLevels(Interval &interval) {
  const double before = interval.time.bound;
  size_t work = choices.size() + additions(interval, interval.time.junctions) *
                                     interval.time.levels.states() * stepsOfLevels;
  listLevelSteps(interval);
  improveTime(interval, stepsOfLevels);
  interval.time.atJunctions.compress();
  interval.time.bound = std::max(before, std::min(interval.time.bound, timeLimit));
  rankChoices(interval);
  return static_cast<int64_t>(work);
}

/// How much further down a path stands behind a stage on `option`.
size_t Lagrangian::statesTaken(const Levels &levels, int option) const {
  return stateOf(levels.types, [&](int type) { return use[option * limits.size() + type]; });
}

size_t Lagrangian::stateLeft(const Levels &levels, ArrayRef<int> used) const {
  return stateOf(levels.types,
                 [&](int type) { return std::max(0.0, 1 - used[type] / limits[type]); });
}

/// Of the stages that are ranked.
Junctions Lagrangian::junctionsOf(const Interval &interval) const {
  std::vector<std::set<SearchSpace::Face>> faces(positions);
  for (const RankedArc &ranked : interval.ranked) {
    const StageArc &choice = choices[ranked.choice];
    for (int chain : evaluator.space.chainsOf(choice.option))
      faces[choice.begin].insert(evaluator.space.faceBefore(choice.option, chain));
  }
  faces.back().insert(SearchSpace::Face());
  Junctions junctions{{0}, {}};
  for (const std::set<SearchSpace::Face> &here : faces) {
    junctions.faces.insert(junctions.faces.end(), here.begin(), here.end());
    junctions.first.push_back(junctions.faces.size());
  }
  return junctions;
}

/// Least where the time that a boundary takes counts once.
TransferTimes Lagrangian::boundary(int position, SearchSpace::Face before,
                                   SearchSpace::Face behind) {
  if (!evaluator.space.mayMeet(before, behind))
    return {infinity, infinity};
  if (behind.option < 0 || evaluator.rules.transfersArePartOfStages())
    return {};
  return transferTimes(evaluator, paths, batch, position, before.option, behind.option);
}

/// As `solve`, over what was ranked.
void Lagrangian::solveLevels(const Interval &interval, const Charges &charges,
                             LagrangianBounds &relaxation) {
  const size_t states = relaxation.levels.states();
  const Junctions &junctions = relaxation.junctions;
  relaxation.atJunctions.reset(junctions.faces.size() * states);
  relaxation.atJunctions.setStart(0, junctions.first[1] * states);
  MixtureTable reached;
  for (int end = 1; end < positions; ++end) {
    addStages(interval, charges, relaxation, end, reached);
    addTransfers(end, reached, relaxation);
  }
  traceLevels(interval, charges, relaxation);
  const std::vector<double> &multipliers = relaxation.multipliers;
  double least = relaxation.atJunctions.fill().back();
  double paid = std::accumulate(multipliers.begin(), multipliers.end(), 0.0);
  relaxation.bound = std::isfinite(least) ? least - paid - 1e-12 * (least + paid) : infinity;
}

/// Makes `levelSteps` those of `interval`, as it is ranked.
void Lagrangian::listLevelSteps(const Interval &interval) {
  const Junctions &junctions = interval.time.junctions;
  levelSteps.positions.assign(positions, {});
  std::vector<SearchSpace::Face> endings;
  for (int end = 1; end < positions; ++end) {
    LevelSteps::Position &here = levelSteps.positions[end];
    endings.clear();
    for (size_t i = interval.firstRanked[end]; i < interval.firstRanked[end + 1]; ++i) {
      const int index = interval.ranked[i].choice, option = choices[index].option;
      const size_t taken = statesTaken(interval.time.levels, option);
      for (int chain : evaluator.space.chainsOf(option)) {
        const SearchSpace::Face face = evaluator.space.faceBehind(option, chain);
        const size_t ending = find(endings, face) - endings.begin();
        if (ending == endings.size())
          endings.push_back(face);
        const int junction =
            junctions.find(choices[index].begin, evaluator.space.faceBefore(option, chain));
        here.stages.push_back({index, int(ending), size_t(junction), taken});
      }
    }
    here.endings = int(endings.size());
    listLevelTransfers(end, junctions, endings);
  }
}

void Lagrangian::listLevelTransfers(int position, const Junctions &junctions,
                                    ArrayRef<SearchSpace::Face> endings) {
  for (size_t here = junctions.first[position]; here < junctions.first[position + 1]; ++here)
    for (size_t i = 0; i < endings.size(); ++i) {
      const TransferTimes times = boundary(position, endings[i], junctions.faces[here]);
      if (std::isfinite(times.receive))
        levelSteps.positions[position].transfers.push_back(
            {int(i), here, times.receive, times.gradient});
    }
}

/// Makes `reached` what the ranked stages that end at `end` add to what is before them.
void Lagrangian::addStages(const Interval &interval, const Charges &charges,
                           const LagrangianBounds &relaxation, int end,
                           MixtureTable &reached) const {
  const LevelSteps::Position &here = levelSteps.positions[end];
  reached.reset(here.endings * relaxation.levels.states());
  for (const LevelSteps::Stage &stage : here.stages)
    addStage(stage, ownCharge(choices[stage.choice], interval, charges), relaxation, reached);
}

/// One of them, which `pays` for its own.
void Lagrangian::addStage(const LevelSteps::Stage &stage, double pays,
                          const LagrangianBounds &relaxation, MixtureTable &reached) const {
  const Levels &levels = relaxation.levels;
  const ArrayRef<Levels::Kept> kept = levels.types;
  const ArrayRef<Levels::Kept> outer = kept.empty() ? kept : kept.drop_back();
  const size_t states = levels.states(), inner = kept.empty() ? 1 : size_t(kept.back().count) + 1;
  const StageArc &choice = choices[stage.choice];
  const Addition<double> added{pays + choice.ownTime(), pays + choice.ownForwardTime(),
                               choice.syncTime()};
  const size_t least = stage.taken % inner;
  for (size_t row = stage.taken / inner; row < states / inner; ++row) {
    if (!isAtLeast(outer, row, stage.taken / inner))
      continue;
    size_t state = row * inner + least, before = stage.junction * states + state - stage.taken;
    size_t own = stage.ending * states + state;
    reached.addStage(added, relaxation.atJunctions, before, own, inner - least);
  }
}

/// From the stages that end at `position` to those that may stand behind them.
void Lagrangian::addTransfers(int position, const MixtureTable &reached,
                              LagrangianBounds &relaxation) const {
  const size_t states = relaxation.levels.states();
  for (const LevelSteps::Transfer &of : levelSteps.positions[position].transfers)
    relaxation.atJunctions.addTransfer(of.receive, of.gradient, reached, of.ending * states,
                                       of.junction * states, states);
}

/// The steps of the path of the last solve.
void Lagrangian::traceLevels(const Interval &interval, const Charges &charges,
                             const LagrangianBounds &relaxation) {
  const Levels &levels = relaxation.levels;
  const size_t states = levels.states();
  steps.assign(places.size(), {});
  size_t state = states - 1;
  int mixture = fillOnly;
  SearchSpace::Face behindIt;
  const bool isFinite = std::isfinite(relaxation.atJunctions.fill().back());
  for (int position = positions - 1; position > 0 && isFinite;) {
    Step &step = steps[places.at(position)];
    double least = infinity;
    size_t taken = 0;
    int chainOfBest = 0, mixtureBefore = mixture;
    for (size_t i = interval.firstRanked[position]; i < interval.firstRanked[position + 1]; ++i) {
      const RankedArc &ranked = interval.ranked[i];
      const StageArc &choice = choices[ranked.choice];
      size_t takes = statesTaken(levels, choice.option);
      if (!isAtLeast(levels.types, state, takes))
        continue;
      const int chain = evaluator.space.ownChain(choice.option) + behindIt.chain;
      if (!is_contained(evaluator.space.chainsOf(choice.option), chain)) // no room
        continue;
      TransferTimes transfers =
          boundary(position, evaluator.space.faceBehind(choice.option, chain), behindIt);
      if (std::isinf(transfers.receive))
        continue;
      const LeastMixtures before = leastBefore(relaxation, choice.begin, choice.option, chain,
                                               choice.receive, state - takes);
      const double pays = ownCharge(choice, interval, charges) + transfers.receive;
      const Addition<double> added{pays + choice.time() - choice.gradient + transfers.gradient,
                                   pays + choice.forwardTime(), choice.syncTime()};
      int ofBefore = mixture;
      const double time = heterplan::leastWith(added, before, ofBefore);
      if (time >= least)
        continue;
      least = time;
      taken = takes;
      chainOfBest = chain;
      mixtureBefore = ofBefore;
      step = {ranked.choice, ranked.choice, unsigned(places.at(choice.begin)),
              unsigned(places.at(choice.begin)),
              /*behindSync=*/false};
    }
    state -= taken;
    position = choices[step.fillChoice].begin;
    behindIt = evaluator.space.faceBefore(choices[step.fillChoice].option, chainOfBest);
    mixture = mixtureBefore;
  }
}

LeastMixtures Lagrangian::leastBefore(const LagrangianBounds &relaxation, int position, int option,
                                      int chain, double receive, size_t state) const {
  if (relaxation.junctions.empty()) {
    size_t place = places.before(position, option, chain);
    return LeastMixtures::ofBoth(relaxation.fill[place], relaxation.forward[place]);
  }
  int junction = relaxation.junctions.find(
      position, option < 0 ? SearchSpace::Face() : evaluator.space.faceBefore(option, chain));
  if (junction < 0) // no placement of interest has the stage
    return LeastMixtures::none();
  LeastMixtures least = relaxation.atJunctions.at(junction * relaxation.levels.states() + state);
  for (double &each : least.of)
    each -= receive;
  return least;
}

} // namespace heterplan
