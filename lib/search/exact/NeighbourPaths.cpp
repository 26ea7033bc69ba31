// Paths that know the transfers between the groups of neighbours.
#include "search/exact/NeighbourPaths.h"

#include "search/exact/StateLoops.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();
} // namespace

NeighbourPaths::NeighbourPaths(const Evaluator &evaluator, const StatesOfInterest &interest,
                               PathTable &paths, int64_t batch, ArrayRef<StageArc> stages,
                               Memory &memory)
    : evaluator(evaluator), interest(interest), paths(paths), batch(batch),
      positions(evaluator.space.positions.size() + 1), memory(memory) {
  listChains(stages);
  listPositions();
}

/// Each stage with every chain that it may belong to.
void NeighbourPaths::listChains(ArrayRef<StageArc> stages) {
  const SearchSpace &space = evaluator.space;
  for (size_t i = 0; i < stages.size(); ++i) {
    const int option = stages[i].option;
    for (int chain : space.chainsOf(option))
      chained.push_back(
          {stages[i], space.faceBefore(option, chain), space.faceBehind(option, chain), int(i)});
  }
}

NeighbourPaths::Boundary NeighbourPaths::boundaryOf(int position, SearchSpace::Face before,
                                                    SearchSpace::Face after) const {
  if (!evaluator.space.mayMeet(before, after))
    return {infinity, infinity};
  if (after.option < 0)
    return {};
  TransferTimes times =
      transferTimes(evaluator, paths, batch, position, before.option, after.option);
  return {times.receive, times.gradient};
}

size_t NeighbourPaths::indexOf(const std::vector<Side> &sides, SearchSpace::Face face) {
  return lower_bound(sides, face,
                     [](const Side &side, SearchSpace::Face face) { return side.face < face; }) -
         sides.begin();
}

void NeighbourPaths::listPositions() {
  const int last = int(positions.size()) - 2;
  std::vector<std::set<SearchSpace::Face>> begins(positions.size()), ends(positions.size());
  for (const Chained &of : chained) {
    begins[of.stage.begin].insert(of.before);
    ends[of.stage.end].insert(of.behind);
    ++positions[of.stage.end + 1].firstStage;
  }
  begins[last].insert(SearchSpace::Face());
  for (int position = 0; position <= last; ++position) {
    Position &here = positions[position];
    positions[position + 1].firstStage += here.firstStage;
    for (SearchSpace::Face face : ends[position])
      here.ending.push_back({face, {}});
    for (SearchSpace::Face face : begins[position])
      here.behind.push_back({face, {}});
    setBoundaries(position);
    for (Side &side : here.ending) {
      side.first = here.endingStates;
      here.endingStates += side.times.size() * interest.count(position);
    }
    for (Side &side : here.behind) {
      side.first = statesBehind;
      statesBehind += side.times.size() * interest.count(position);
    }
  }
}

void NeighbourPaths::setBoundaries(int position) {
  Position &here = positions[position];
  if (position == 0)
    for (Side &side : here.behind)
      side.times = {0};
  for (Side &before : here.ending)
    for (Side &after : here.behind) {
      here.boundaries.push_back(boundaryOf(position, before.face, after.face));
      before.times.push_back(here.boundaries.back().gradient);
      after.times.push_back(here.boundaries.back().receive);
    }
  auto sortEach = [](std::vector<Side> &sides) {
    for (Side &side : sides) {
      std::sort(side.times.begin(), side.times.end());
      side.times.erase(std::unique(side.times.begin(), side.times.end()), side.times.end());
    }
  };
  sortEach(here.ending);
  sortEach(here.behind);
  Boundary *boundary = here.boundaries.data();
  for (const Side &before : here.ending)
    for (const Side &after : here.behind) {
      boundary->gradientClass =
          int(lower_bound(before.times, boundary->gradient) - before.times.begin());
      boundary->receiveClass =
          int(lower_bound(after.times, boundary->receive) - after.times.begin());
      ++boundary;
    }
}

size_t NeighbourPaths::additions(const SearchSpace &space, const StatesOfInterest &interest,
                                 ArrayRef<StageArc> stages) {
  std::map<int, std::pair<std::set<SearchSpace::Face>, std::set<SearchSpace::Face>>> faces;
  size_t sum = 0;
  for (const StageArc &stage : stages) {
    sum += space.chainsOf(stage.option).size() * interest.count(stage.end);
    for (int chain : space.chainsOf(stage.option)) {
      faces[stage.end].first.insert(space.faceBehind(stage.option, chain));
      faces[stage.begin].second.insert(space.faceBefore(stage.option, chain));
    }
  }
  for (const auto &[position, here] : faces)
    for (SearchSpace::Face before : here.first)
      sum += interest.count(position) * count_if(here.second, [&](SearchSpace::Face behind) {
               return space.mayMeet(before, behind);
             });
  return sum;
}

const NeighbourPaths::Side &NeighbourPaths::sideOf(const Chained &of) const {
  const std::vector<Side> &sides = positions[of.stage.begin].behind;
  return sides[indexOf(sides, of.before)];
}

size_t NeighbourPaths::allowed(const StageArc &stage, const Side &side, double gradient) const {
  const double most = below - stage.ownTime() - gradient;
  return lower_bound(side.times, most) - side.times.begin();
}

void NeighbourPaths::solve(double newBelow) {
  below = newBelow;
  memory.fills.assign(statesBehind, infinity);
  memory.forwards.assign(statesBehind, infinity);
  memory.segments.forget();
  for (const Side &side : positions[0].behind) {
    std::fill_n(memory.fills.begin() + side.first, interest.count(0), 0);
    std::fill_n(memory.forwards.begin() + side.first, interest.count(0), 0);
  }
  for (int end = 1; end + 1 < int(positions.size()); ++end) {
    addStages(end);
    addTransfers(end);
  }
}

/// A stage that may receive a longer gradient may receive a shorter one.
void NeighbourPaths::addStages(int end) {
  const Position &here = positions[end];
  const size_t count = interest.count(end);
  memory.endingFills.assign(here.endingStates, infinity);
  memory.endingForwards.assign(here.endingStates, infinity);
  for (size_t i = here.firstStage; i < positions[end + 1].firstStage; ++i)
    addStage(chained[i]);
  for (const Side &side : here.ending)
    for (size_t longer = side.times.size(); longer-- > 1;) {
      size_t to = side.first + (longer - 1) * count;
      addTime(0, &memory.endingFills[to + count], &memory.endingFills[to], count);
      addTime(0, &memory.endingForwards[to + count], &memory.endingForwards[to], count);
    }
}

void NeighbourPaths::addStage(const Chained &of) {
  const StageArc &stage = of.stage;
  const std::vector<Side> &ending = positions[stage.end].ending;
  const Side &own = ending[indexOf(ending, of.behind)], &before = sideOf(of);
  const ArrayRef<StatesOfInterest::Segment> segments =
      interest.segments(stage.begin, stage.end, stage.option, memory.segments);
  const Addition<double> added{stage.ownTime(), stage.ownForwardTime(), stage.syncTime()};
  size_t known = 0;
  for (size_t gradient = own.times.size(); gradient-- > 0;) {
    size_t most = allowed(stage, before, own.times[gradient]);
    if (most == known)
      continue;
    known = most;
    const size_t from = before.first + (most - 1) * interest.count(stage.begin);
    const size_t to = own.first + gradient * interest.count(stage.end);
    heterplan::addStage(added, segments, &memory.fills[from], &memory.forwards[from],
                        &memory.endingFills[to], &memory.endingForwards[to]);
    for (const StatesOfInterest::Segment &segment : segments)
      looked += int64_t(segment.count);
  }
}

void NeighbourPaths::addTransfers(int end) {
  const Position &here = positions[end];
  const size_t count = interest.count(end);
  for (size_t after = 0; after < here.behind.size(); ++after) {
    const Side &side = here.behind[after];
    for (size_t before = 0; before < here.ending.size(); ++before) {
      const Boundary &transfers = here.boundary(before, after);
      if (std::isinf(transfers.receive)) // they cannot be neighbours
        continue;
      size_t from = here.ending[before].first + transfers.gradientClass * count;
      size_t to = side.first + transfers.receiveClass * count;
      addTime(transfers.receive + transfers.gradient, &memory.endingFills[from], &memory.fills[to],
              count);
      addTime(transfers.receive, &memory.endingForwards[from], &memory.forwards[to], count);
      looked += int64_t(count);
    }
    for (size_t receive = 1; receive < side.times.size(); ++receive) {
      size_t to = side.first + receive * count;
      addTime(0, &memory.fills[to - count], &memory.fills[to], count);
      addTime(0, &memory.forwards[to - count], &memory.forwards[to], count);
    }
  }
}

double NeighbourPaths::fill(size_t state) const {
  const int last = int(positions.size()) - 2;
  const Side &end = positions[last].behind.front();
  const size_t place = interest.placeOf(last, state);
  return end.times.empty() || place == StatesOfInterest::none ? infinity
                                                              : memory.fills[end.first + place];
}

/// The part of `least` before a stage that ends in `state`; `first`: where its side begins.
double NeighbourPaths::before(const std::vector<double> &least, const StageArc &stage, size_t first,
                              size_t state) const {
  const size_t place = interest.placeOf(stage.begin, interest.all()->before(state, stage.option));
  return place == StatesOfInterest::none ? infinity : least[first + place];
}

std::vector<int> NeighbourPaths::path(size_t state) const {
  std::vector<int> path;
  bool forwardOnly = false;
  size_t after = 0;
  double mostReceived = infinity; // by the stage behind the position
  for (int position = int(positions.size()) - 2; position > 0;) {
    const Position &here = positions[position];
    double least = infinity, mayReceive = 0;
    int best = -1;
    bool isBehindSync = false;
    for (size_t i = here.firstStage; i < positions[position + 1].firstStage; ++i) {
      const StageArc &stage = chained[i].stage;
      if (interest.all()->before(state, stage.option) == DeviceStates::none)
        continue;
      size_t from = indexOf(here.ending, chained[i].behind);
      const Boundary &transfers = here.boundary(from, after);
      if (std::isinf(transfers.receive))
        continue;
      const Side &side = sideOf(chained[i]);
      size_t most = allowed(stage, side, transfers.gradient);
      if (most == 0 || transfers.receive > mostReceived)
        continue;
      const size_t first = side.first + (most - 1) * interest.count(stage.begin);
      const double fill = before(memory.fills, stage, first, state);
      const double forward = before(memory.forwards, stage, first, state);
      double sync = stage.syncTime() + forward;
      double time = transfers.receive;
      time += forwardOnly ? stage.ownForwardTime() + forward
                          : stage.ownTime() + transfers.gradient + std::max(fill, sync);
      if (time >= least)
        continue;
      least = time;
      best = int(i);
      isBehindSync = sync > fill;
      mayReceive = side.times[most - 1];
    }
    if (best < 0)
      return {};
    path.push_back(chained[best].index);
    const StageArc &stage = chained[best].stage;
    state = interest.all()->before(state, stage.option);
    position = stage.begin;
    after = &sideOf(chained[best]) - positions[position].behind.data();
    mostReceived = mayReceive;
    forwardOnly |= isBehindSync;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

} // namespace heterplan
