#include "search/exact/StatesOfInterest.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

StatesOfInterest StatesOfInterest::all(std::shared_ptr<const DeviceStates> states, int positions) {
  const std::vector<char> each(states->size(), true);
  StatesOfInterest all(std::move(states));
  for (int position = 0; position < positions; ++position)
    all.addPosition(each);
  return all;
}

void StatesOfInterest::addPosition(ArrayRef<char> areOfInterest) {
  Position &here = positions.emplace_back();
  const size_t length = states->rowLength(), rows = states->size() / length;
  here.runOf.assign(rows, -1);
  for (size_t row = 0; row < rows; ++row) {
    ArrayRef<char> own = areOfInterest.slice(row * length, length);
    const size_t first = std::find(own.begin(), own.end(), char(true)) - own.begin();
    if (first == length)
      continue;
    size_t last = length;
    while (!own[last - 1])
      --last;
    here.runOf[row] = int(here.runs.size());
    here.runs.push_back({row, first, last, here.count});
    here.count += last - first;
  }
}

void StatesOfInterest::addPositionOf(const StatesOfInterest &others, ArrayRef<char> areOfInterest) {
  std::vector<char> ofAll(states->size(), false);
  for (const Run &run : others.positions[positions.size()].runs)
    std::copy_n(areOfInterest.begin() + run.place, run.last - run.first,
                ofAll.begin() + run.row * states->rowLength() + run.first);
  addPosition(ofAll);
}

size_t StatesOfInterest::placeOf(int position, size_t state) const {
  const Position &here = positions[position];
  const int index = here.runOf[state / states->rowLength()];
  if (index < 0)
    return none;
  const Run &run = here.runs[index];
  const size_t inRow = state % states->rowLength();
  return inRow < run.first || inRow >= run.last ? none : run.place + inRow - run.first;
}

ArrayRef<StatesOfInterest::Segment> StatesOfInterest::segments(int begin, int end, int option,
                                                               Memory &memory) const {
  if (count(begin) == states->size() && count(end) == states->size())
    return states->segments(option);
  if (memory.begin == begin && memory.end == end && memory.option == option)
    return memory.segments;
  memory.begin = begin;
  memory.end = end;
  memory.option = option;
  memory.segments.clear();
  const Position &from = positions[begin];
  for (const Run &behind : positions[end].runs) {
    const size_t row = states->rowBefore(option, behind.row);
    if (row == none || from.runOf[row] < 0)
      continue;
    const Run &before = from.runs[from.runOf[row]];
    for (const Segment &of : states->segmentsOfRow(option))
      addSegment(of, before, behind, memory.segments);
  }
  return memory.segments;
}

/// Adds the part of `segment`, in a row, that leads from `before` to `behind`.
void StatesOfInterest::addSegment(Segment segment, const Run &before, const Run &behind,
                                  std::vector<Segment> &segments) {
  const size_t skip = std::max(behind.first - std::min(behind.first, segment.behind),
                               before.first - std::min(before.first, segment.before));
  const size_t endBehind =
      std::min(segment.count, behind.last - std::min(behind.last, segment.behind));
  const size_t endBefore =
      std::min(segment.count, before.last - std::min(before.last, segment.before));
  const size_t last = std::min(endBehind, endBefore);
  if (skip >= last)
    return;
  Segment{before.place + segment.before + skip - before.first,
          behind.place + segment.behind + skip - behind.first, last - skip}
      .appendTo(segments);
}

} // namespace heterplan
