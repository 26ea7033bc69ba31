// Operators that move values without computing, as copies of boxes: transpose, concat, split,
// slice, pad, and those that move nothing.
#pragma once

#include "cost/kernels/Call.h"

#include <optional>

namespace heterplan::kernels {

/// The place of a box within a tensor, in elements.
struct Box {
  int64_t offset = 0;
  Dims strides;
};

/// A box of `sizes`, copied from an input to an output; gradients go the other way.
struct Move {
  size_t input = 0, output = 0;
  Dims sizes;
  Box from, to;
};

struct Moves {
  std::vector<Move> moves;
  bool clearsOutput = false;   // not all of output 0 is written
  bool clearsGradient = false; // not all of the gradient of input 0 gets something
};

/// The moves of a call of Transpose, Concat, Split, Slice, Pad or an operator that only changes the
/// shape; nothing where its settings are not told beforehand, or for values that are no floats.
std::optional<Moves> movesOf(const Call &call);

} // namespace heterplan::kernels
