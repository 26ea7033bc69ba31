// Sums for the search for widths, computed once for a limit on the amplification: each run of
// layers on each width, and each change of width.
#pragma once

#include "search/burst/BurstSearch.h"

#include <vector>

namespace heterplan {

/// Time of stages, or the least time that they add to the stages behind them, in seconds.
struct BurstSums {
  double time = 0, deviceTime = 0; // time: passes, updates and moves
  double open = 0;                 // of sums of gradients, when the backward passes are done
  BurstSums operator+(const BurstSums &other) const {
    return {time + other.time, deviceTime + other.deviceTime, open + other.open};
  }
};

/// A run of layers on one width as a stage, seconds; moves at its ends not counted.
struct BurstRun {
  double time = -1; // passes and update; negative: not allowed
  double backward = 0, sum = 0;
};

/// A change of width, seconds.
struct BurstMove {
  double forward = -1; // negative: not allowed
  double backward = 0;
};

class BurstTable {
public:
  BurstTable(BurstCosts &costs, llvm::ArrayRef<int> positions, const BurstGoal &goal);

  int cuts() const { return static_cast<int>(positions.size()) - 1; } // and the beginning
  int widths() const { return static_cast<int>(counts.size()); }
  int width(int index) const { return counts[index]; }
  llvm::ArrayRef<int> allWidths() const { return counts; }
  LayerRange layers(int begin, int end) const { return {positions[begin], positions[end]}; }

  /// Layers between two cuts, on the width-th number of devices.
  const BurstRun &run(int begin, int end, int width) const {
    return runs[place(begin, end, width)];
  }
  /// Works out needs().
  void fillMemory(BurstCosts &costs);
  /// The memory need in bytes, by type of the pool. It is the need of the first device of the type,
  /// which takes part in every stage of the type and has the most samples; 0 if that device has no
  /// part.
  llvm::ArrayRef<double> needs(int begin, int end, int width) const {
    return llvm::ArrayRef<double>(memory).slice(place(begin, end, width) * rooms.size(),
                                                rooms.size());
  }
  /// The available memory.
  const std::vector<double> &memories() const { return rooms; }
  const BurstMove &move(int cut, int before, int after) const {
    return moves[(size_t(cut) * counts.size() + size_t(before)) * counts.size() + size_t(after)];
  }

  /// The sums of a run on the width-th number of devices and of a change of width.
  BurstSums sumsOf(const BurstRun &run, int width) const {
    return {run.time, counts[size_t(width)] * (run.time + run.sum), run.sum - run.backward};
  }
  BurstSums sumsOf(const BurstMove &move, int before, int after) const {
    return {move.forward + move.backward,
            counts[size_t(after)] * move.forward + counts[size_t(before)] * move.backward,
            -move.backward};
  }

private:
  size_t place(int begin, int end, int width) const {
    return (size_t(begin) * positions.size() + size_t(end)) * counts.size() + size_t(width);
  }
  void fillRuns(BurstCosts &costs, int end, int width);
  void fillMoves(BurstCosts &costs, int cut);
  bool keepsLimit(double amplification) const;

  std::vector<int> positions, counts;
  double limit;
  std::vector<int> farthestEnd;           // by layer: where a stage from there has to end
  std::vector<std::vector<bool>> allowed; // by layer and width, no move counted
  std::vector<BurstRun> runs;
  std::vector<double> memory, rooms;
  std::vector<BurstMove> moves;
};

} // namespace heterplan
