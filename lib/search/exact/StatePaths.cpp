#include "search/exact/StatePaths.h"

#include "search/exact/StateLoops.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();
} // namespace

StatePaths::StatePaths(const StatesOfInterest &interest, const LeastTransfers &transfers,
                       int positions, Memory &memory)
    : interest(interest), transfers(transfers), positions(positions), kinds(transfers.kinds()),
      memory(memory) {}

void StatePaths::Places::clear(int positions, int kindsOfPosition) {
  kinds = kindsOfPosition;
  first.assign(size_t(positions) * kinds, StatesOfInterest::none);
}

void StatePaths::Places::number(const StatesOfInterest &interest) {
  size = 0;
  for (size_t i = 0; i < first.size(); ++i)
    if (first[i] != StatesOfInterest::none) {
      first[i] = size;
      size += interest.count(int(i / kinds));
    }
}

void StatePaths::listPlaces(ArrayRef<StageArc> stages) {
  behind.clear(positions, kinds);
  ending.clear(positions, kinds);
  for (const StageArc &stage : stages) {
    behind.add(stage.begin, transfers.kindFromBefore(stage.option));
    ending.add(stage.end, transfers.kindFromBehind(stage.option));
  }
  behind.add(positions - 1, 0);
  behind.number(interest);
  ending.number(interest);
}

void StatePaths::solve(ArrayRef<StageArc> stages, double below) {
  listPlaces(stages);
  memory.fills.assign(behind.size, infinity);
  memory.forwards.assign(behind.size, infinity);
  memory.segments.forget();
  memory.endingFills.assign(ending.size, infinity);
  memory.endingForwards.assign(ending.size, infinity);
  for (int kind = 0; kind < kinds; ++kind)
    if (behind.has(0, kind)) {
      std::fill_n(memory.fills.begin() + behind.at(0, kind), interest.count(0), 0);
      std::fill_n(memory.forwards.begin() + behind.at(0, kind), interest.count(0), 0);
    }
  auto next = stages.begin();
  for (int end = 1; end < positions; ++end) {
    for (; next != stages.end() && next->end == end; ++next)
      if (next->time() < below)
        addStage(*next);
    addTransfers(end);
  }
}

void StatePaths::addStage(const StageArc &stage) {
  const size_t from = behind.at(stage.begin, transfers.kindFromBefore(stage.option));
  const size_t to = ending.at(stage.end, transfers.kindFromBehind(stage.option));
  const Addition<float> added{float(stage.ownTime()), float(stage.ownForwardTime()),
                              float(stage.syncTime())};
  const ArrayRef<StatesOfInterest::Segment> segments =
      interest.segments(stage.begin, stage.end, stage.option, memory.segments);
  heterplan::addStage(added, segments, &memory.fills[from], &memory.forwards[from],
                      &memory.endingFills[to], &memory.endingForwards[to]);
  for (const StatesOfInterest::Segment &segment : segments)
    looked += int64_t(segment.count);
}

/// Calls `visit(boundary, ending, behind)` with the places of stages that may be neighbours there.
template <typename Visit> void StatePaths::overTransfers(int position, Visit visit) {
  for (int before = 0; before < kinds; ++before)
    for (int after = 0; after < kinds; ++after) {
      if (!ending.has(position, before) || !behind.has(position, after))
        continue;
      const LeastTransfers::Boundary &times = transfers.at(position, before, after);
      if (std::isinf(times.receive)) // they cannot be neighbours
        continue;
      visit(times, ending.at(position, before), behind.at(position, after));
      looked += int64_t(interest.count(position));
    }
}

void StatePaths::addTransfers(int position) {
  const size_t count = interest.count(position);
  overTransfers(position, [&](const LeastTransfers::Boundary &times, size_t from, size_t to) {
    addTime(float(times.receive + times.gradient), &memory.endingFills[from], &memory.fills[to],
            count);
    addTime(float(times.receive), &memory.endingForwards[from], &memory.forwards[to], count);
  });
}

/// The time left behind a position, including the transfers across it.
void StatePaths::takeTransfers(int position) {
  const size_t count = interest.count(position);
  overTransfers(position, [&](const LeastTransfers::Boundary &times, size_t to, size_t from) {
    keepMost(float(times.receive + times.gradient), &memory.leftBehind[from], &memory.left[to],
             count);
  });
}

std::vector<StageArc> StatePaths::within(ArrayRef<StageArc> stages, double below,
                                         const std::vector<double> &limits) {
  memory.left.assign(ending.size, -infinity);
  memory.leftBehind.assign(behind.size, -infinity);
  for (size_t state = 0; state < limits.size(); ++state)
    if (size_t of = interest.placeOf(positions - 1, state); of != StatesOfInterest::none)
      memory.leftBehind[behind.at(positions - 1, 0) + of] =
          float(limits[state] * (1 + 2 * rounding()));
  std::vector<StageArc> kept;
  auto stage = stages.end();
  for (int end = positions - 1; end > 0; --end) {
    takeTransfers(end);
    for (; stage != stages.begin() && (stage - 1)->end == end; --stage)
      if (stage[-1].time() < below && takeStage(stage[-1]))
        kept.push_back(stage[-1]);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

/// Takes a stage from what is left behind it; false: no path of interest has it.
bool StatePaths::takeStage(const StageArc &stage) {
  const size_t from = behind.at(stage.begin, transfers.kindFromBefore(stage.option));
  const size_t to = ending.at(stage.end, transfers.kindFromBehind(stage.option));
  const float time = float(stage.ownTime());
  bool isKept = false;
  const ArrayRef<StatesOfInterest::Segment> segments =
      interest.segments(stage.begin, stage.end, stage.option, memory.segments);
  for (const StatesOfInterest::Segment &of : segments) {
    const float *left = &memory.left[to + of.behind];
    keepMost(time, left, &memory.leftBehind[from + of.before], of.count);
    isKept |= anyWithin(time, &memory.fills[from + of.before], left, of.count);
    looked += 2 * int64_t(of.count);
  }
  return isKept;
}

StatesOfInterest StatePaths::statesWithin() const {
  StatesOfInterest result(interest.all());
  std::vector<char> found;
  for (int position = 0; position < positions; ++position) {
    found.assign(interest.count(position), false);
    addWithin(position, found);
    result.addPositionOf(interest, found);
  }
  return result;
}

/// Adds to `found` the states of a position in which paths take no more than is left.
void StatePaths::addWithin(int position, std::vector<char> &found) const {
  for (int kind = 0; kind < kinds; ++kind) {
    if (!behind.has(position, kind))
      continue;
    const float *fill = &memory.fills[behind.at(position, kind)];
    const float *most = &memory.leftBehind[behind.at(position, kind)];
    for (size_t state = 0; state < found.size(); ++state)
      found[state] |= fill[state] <= most[state];
  }
}

} // namespace heterplan
