// Which states of the devices paths of interest may have at each cut: a few of a hundred, where all
// that is before and behind them is bounded. Recursions that keep only those take less time and
// memory.
#pragma once

#include "search/exact/DeviceStates.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>
#include <utility>
#include <vector>

namespace heterplan {

/// By position, from the first one on. States are numbered among those of their position, their
/// places.
class StatesOfInterest {
public:
  static constexpr size_t none = DeviceStates::none;
  /// No position has any before it is added.
  explicit StatesOfInterest(std::shared_ptr<const DeviceStates> states)
      : states(std::move(states)) {}
  /// All states at so many positions.
  static StatesOfInterest all(std::shared_ptr<const DeviceStates> states, int positions);
  /// The next position: of the states those that are of interest, and some between them.
  void addPosition(llvm::ArrayRef<char> areOfInterest);
  /// Adds a position of `others`; `areOfInterest` marks the states to keep by their place among
  /// those that `others` has at the position.
  void addPositionOf(const StatesOfInterest &others, llvm::ArrayRef<char> areOfInterest);

  const std::shared_ptr<const DeviceStates> &all() const { return states; }

  size_t count(int position) const { return positions[position].count; }
  /// `none` where the state is of no interest.
  size_t placeOf(int position, size_t state) const;

  using Segment = DeviceStates::Segment; // of places at two positions
  /// The cached answer for the stage of the last query, if any.
  struct Memory {
    int begin = -1, end = -1, option = -1;
    std::vector<Segment> segments;
    /// Before it is of another object.
    void forget() { begin = -1; }
  };
  /// Segments to which a stage on `option` leads from position `begin` to `end`: all that do not
  /// cost too much, maybe others. They are of the states, or in `memory`, which is of this object.
  llvm::ArrayRef<Segment> segments(int begin, int end, int option, Memory &memory) const;

private:
  /// A run of states of one row.
  struct Run {
    size_t row, first, last; // states [first, last) of the row
    size_t place;            // of the first one
  };
  static void addSegment(Segment segment, const Run &before, const Run &behind,
                         std::vector<Segment> &segments);
  struct Position {
    std::vector<Run> runs;
    std::vector<int> runOf; // by row; −1: none
    size_t count = 0;
  };

  std::shared_ptr<const DeviceStates> states;
  std::vector<Position> positions;
};

} // namespace heterplan
