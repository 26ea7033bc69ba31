// Local moves on runs by the figures of a RunTable. A move only looks up numbers of devices, so
// that thousands of moves cost less than sizing one assignment does.
#pragma once

#include "search/rl/RunTable.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace heterplan {

class RunDescent {
public:
  /// The table and the evaluator outlive this.
  RunDescent(const RunTable &table, const Evaluator &evaluator);

  /// `runs`, which cover all blocks, after moves that each lower the price of the devices or the
  /// number of devices that are missing: boundaries move, runs change or exchange their types, join
  /// a neighbour, and are divided. Ends where no move helps, or with the work.
  std::vector<Run> improve(llvm::ArrayRef<Run> runs);
  /// Table entries looked at so far.
  int64_t lookups() const { return looked; }

private:
  using Runs = llvm::ArrayRef<Run>;
  void begin(Runs runs);
  void descend();
  bool improvePair(size_t index);
  bool divide(size_t index);
  bool exchange(size_t index);
  bool tryInstead(size_t begin, size_t end, Runs others);
  double changeOf(Runs from, Runs to);
  void add(Runs of, int sign);
  double lackOf(int type) const;
  bool isFeasible() const;
  void touch(size_t begin, size_t end);

  const RunTable &table;
  const Evaluator &evaluator;
  const bool merges;          // neighbours are on different types
  std::vector<double> prices; // by type
  double impossible = 0;      // price of a run that no number of devices keeps within the limit
  double lackScale = 1;       // of the price of devices that are missing
  std::vector<Run> current;
  std::vector<char> pending; // by run: whether moves of it may help
  std::vector<int> used;     // by type
  std::vector<int> changed;  // types that a move touches
  int64_t looked = 0, most = 0;
};

} // namespace heterplan
