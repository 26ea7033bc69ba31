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

void StatesOfInterest::listSegments(int begin, int end, int option,
                                    std::vector<Segment> &segments) const {
  segments.clear();
  if (count(begin) == states->size() && count(end) == states->size()) {
    for (auto [first, length] : states->runs(option))
      segments.push_back({first - states->taken(option), first, length});
    return;
  }
  const Position &from = positions[begin];
  const size_t length = states->rowLength(), taken = states->taken(option);
  const size_t rowsTaken = taken / length, inRow = taken % length;
  for (const Run &behind : positions[end].runs) {
    if (!states->holds(option, behind.row) || from.runOf[behind.row - rowsTaken] < 0)
      continue;
    const Run &before = from.runs[from.runOf[behind.row - rowsTaken]];
    const size_t first = std::max(behind.first, before.first + inRow);
    const size_t last = std::min(behind.last, before.last + inRow);
    if (first >= last)
      continue;
    const Segment segment{before.place + first - inRow - before.first,
                          behind.place + first - behind.first, last - first};
    if (!segments.empty() && segments.back().leadsTo(segment))
      segments.back().count += segment.count;
    else
      segments.push_back(segment);
  }
}

} // namespace heterplan
