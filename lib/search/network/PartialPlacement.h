// A placement of the last layers, as bounds look at it.
#pragma once

#include "llvm/ADT/ArrayRef.h"

namespace heterplan {

/// A placement whose stages are chosen from some position to the end.
struct PartialPlacement {
  int position = 0;         // index into SearchSpace::positions; layers before it are open
  int option = -1;          // of the first chosen stage; −1: all layers are open
  double receive = 0;       // of its input, as `fill` has it
  double fill = 0;          // Σ τ of the chosen stages, seconds
  double slowest = 0;       // max τ of them
  double exposed = 0;       // synchronisation not hidden, R of the first chosen stage
  double price = 0;         // dollars per hour
  int depth = 0;            // number of chosen stages
  int chain = 0;            // in the node of the first chosen stage, see Label
  llvm::ArrayRef<int> used; // slots of each type
};

} // namespace heterplan
