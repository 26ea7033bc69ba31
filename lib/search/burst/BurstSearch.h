// How many devices each layer of a burst plan has: dynamic programming over cuts and widths. A
// label is the stages from some cut to the end of the model; of two labels at one cut with one
// width in front, the one that does as well in every completion is kept.
#pragma once

#include "search/burst/BurstCosts.h"
#include "search/placement/SearchBudget.h"

#include <vector>

namespace heterplan {

/// Layers on `width` devices of the pool.
struct BurstStage {
  LayerRange layers;
  int width = 1;
  int first = 0;  // of the devices
  int block = -1; // stages of one block, one behind another, lie side by side; -1: after the others
  bool passes = false; // what is before the block is read behind it as well

  DeviceRun devices() const { return {first, width}; }
};

/// The objective and the limits of the search.
struct BurstGoal {
  bool deviceTime = false;       // to be least, instead of the time of an iteration
  Seconds longest{};             // of an iteration; may be infinite
  double amplificationLimit = 0; // of each layer; 0: none
  int mostDevices = 1;
  Seconds atMost{}; // what is to be least; may be infinite
};

struct BurstChoice {
  std::vector<BurstStage> stages; // empty: none was found
  Seconds iteration{}, deviceTime{};
  /// Nothing that keeps the goal is better; without stages: nothing keeps it.
  bool proven = false;
  Seconds bound{}; // on what is to be least
};

/// Stages that keep `goal`, neighbours in turn of unequal width, branches in turn or side by side
/// (Branches.h), with the least iteration time or
/// device-time. `positions`: where the model may be cut, ascending, both ends included. An
/// iteration takes what IterationModel::Burst says. Fails where the cost model does. Ended early by
/// `budget`, or where labels are too many to keep, the choice is not proven; nor where stages side
/// by side are possible and the best ones do not fit into memory: then those in turn are searched.
llvm::Expected<BurstChoice> searchWidths(BurstCosts &costs, llvm::ArrayRef<int> positions,
                                         const BurstGoal &goal, SearchBudget &budget);

} // namespace heterplan
