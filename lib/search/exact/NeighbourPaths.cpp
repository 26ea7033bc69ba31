// Paths that know the transfers between the groups of neighbours.
#include "search/exact/StatePaths.h"

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

NeighbourPaths::NeighbourPaths(const Evaluator &evaluator, const DeviceStates &states,
                               PathTable &paths, int64_t batch, ArrayRef<StateStage> stages,
                               Memory &memory)
    : evaluator(evaluator), states(states), paths(paths), batch(batch),
      positions(evaluator.space.positions.size() + 1), memory(memory) {
  listChains(stages);
  listPositions();
}

/// Each stage with every chain that it may belong to.
void NeighbourPaths::listChains(ArrayRef<StateStage> stages) {
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
      side.first = here.endingPlaces;
      here.endingPlaces += side.times.size();
    }
    for (Side &side : here.behind) {
      side.first = places;
      places += side.times.size();
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

size_t NeighbourPaths::additions(const SearchSpace &space, ArrayRef<StateStage> stages) {
  std::map<int, std::pair<std::set<SearchSpace::Face>, std::set<SearchSpace::Face>>> faces;
  size_t sum = 0;
  for (const StateStage &stage : stages) {
    sum += space.chainsOf(stage.option).size();
    for (int chain : space.chainsOf(stage.option)) {
      faces[stage.end].first.insert(space.faceBehind(stage.option, chain));
      faces[stage.begin].second.insert(space.faceBefore(stage.option, chain));
    }
  }
  for (const auto &[position, here] : faces)
    for (SearchSpace::Face before : here.first)
      sum += count_if(here.second,
                      [&](SearchSpace::Face behind) { return space.mayMeet(before, behind); });
  return sum;
}

const NeighbourPaths::Side &NeighbourPaths::sideOf(const Chained &of) const {
  const std::vector<Side> &sides = positions[of.stage.begin].behind;
  return sides[indexOf(sides, of.before)];
}

size_t NeighbourPaths::allowed(const StateStage &stage, const Side &side, double gradient) const {
  const double most = below - coreOf(stage) - gradient;
  return lower_bound(side.times, most) - side.times.begin();
}

void NeighbourPaths::solve(double newBelow) {
  below = newBelow;
  const size_t count = states.size();
  memory.fills.assign(places * count, infinity);
  memory.forwards.assign(places * count, infinity);
  for (const Side &side : positions[0].behind) {
    std::fill_n(memory.fills.begin() + side.first * count, count, 0);
    std::fill_n(memory.forwards.begin() + side.first * count, count, 0);
  }
  for (int end = 1; end + 1 < int(positions.size()); ++end) {
    addStages(end);
    addTransfers(end);
  }
}

/// A stage that may receive a longer gradient may receive a shorter one.
void NeighbourPaths::addStages(int end) {
  const Position &here = positions[end];
  const size_t count = states.size();
  memory.endingFills.assign(here.endingPlaces * count, infinity);
  memory.endingForwards.assign(here.endingPlaces * count, infinity);
  for (size_t i = here.firstStage; i < positions[end + 1].firstStage; ++i) {
    const StateStage &stage = chained[i].stage;
    const Side *own = &here.ending[indexOf(here.ending, chained[i].behind)];
    const Side &before = sideOf(chained[i]);
    const size_t taken = states.taken(stage.option);
    size_t known = 0;
    for (size_t gradient = own->times.size(); gradient-- > 0;) {
      size_t most = allowed(stage, before, own->times[gradient]);
      if (most == known)
        continue;
      known = most;
      for (auto [first, length] : states.runs(stage.option)) {
        size_t from = (before.first + most - 1) * count + first - taken;
        size_t to = (own->first + gradient) * count + first;
        addStage({coreOf(stage), stage.forward - stage.receive, stage.sync}, &memory.fills[from],
                 &memory.forwards[from], &memory.endingFills[to], &memory.endingForwards[to],
                 length);
        looked += int64_t(length);
      }
    }
  }
  for (const Side &side : here.ending)
    for (size_t longer = side.times.size(); longer-- > 1;) {
      size_t to = (side.first + longer - 1) * count;
      addTime(0, &memory.endingFills[to + count], &memory.endingFills[to], count);
      addTime(0, &memory.endingForwards[to + count], &memory.endingForwards[to], count);
    }
}

void NeighbourPaths::addTransfers(int end) {
  const Position &here = positions[end];
  const size_t count = states.size();
  for (size_t after = 0; after < here.behind.size(); ++after) {
    const Side &side = here.behind[after];
    for (size_t before = 0; before < here.ending.size(); ++before) {
      const Boundary &transfers = here.boundary(before, after);
      if (std::isinf(transfers.receive)) // they cannot be neighbours
        continue;
      size_t from = (here.ending[before].first + transfers.gradientClass) * count;
      size_t to = (side.first + transfers.receiveClass) * count;
      addTime(transfers.receive + transfers.gradient, &memory.endingFills[from], &memory.fills[to],
              count);
      addTime(transfers.receive, &memory.endingForwards[from], &memory.forwards[to], count);
      looked += int64_t(count);
    }
    for (size_t receive = 1; receive < side.times.size(); ++receive) {
      size_t to = (side.first + receive) * count;
      addTime(0, &memory.fills[to - count], &memory.fills[to], count);
      addTime(0, &memory.forwards[to - count], &memory.forwards[to], count);
    }
  }
}

double NeighbourPaths::fill(size_t state) const {
  const Side &end = positions[positions.size() - 2].behind.front();
  return end.times.empty() ? infinity : memory.fills[end.first * states.size() + state];
}

std::vector<int> NeighbourPaths::path(size_t state) const {
  const size_t count = states.size();
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
      const StateStage &stage = chained[i].stage;
      if (none_of(states.runs(stage.option), [&](const DeviceStates::Run &run) {
            return state >= run.first && state < run.first + run.count;
          }))
        continue;
      size_t from = indexOf(here.ending, chained[i].behind);
      const Boundary &transfers = here.boundary(from, after);
      if (std::isinf(transfers.receive))
        continue;
      const Side &side = sideOf(chained[i]);
      size_t most = allowed(stage, side, transfers.gradient);
      if (most == 0 || transfers.receive > mostReceived)
        continue;
      size_t before = (side.first + most - 1) * count + state - states.taken(stage.option);
      double sync = stage.sync + memory.forwards[before];
      double time = transfers.receive;
      time += forwardOnly
                  ? stage.forward - stage.receive + memory.forwards[before]
                  : coreOf(stage) + transfers.gradient + std::max(memory.fills[before], sync);
      if (time >= least)
        continue;
      least = time;
      best = int(i);
      isBehindSync = sync > memory.fills[before];
      mayReceive = side.times[most - 1];
    }
    if (best < 0)
      return {};
    path.push_back(chained[best].index);
    const StateStage &stage = chained[best].stage;
    state -= states.taken(stage.option);
    position = stage.begin;
    after = &sideOf(chained[best]) - positions[position].behind.data();
    mostReceived = mayReceive;
    forwardOnly |= isBehindSync;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

} // namespace heterplan
