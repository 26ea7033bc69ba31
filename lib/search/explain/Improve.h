// The smallest change that makes a placement better: one layer to the neighbouring stage, one
// device more or less, another number of micro-batches, other shares.
#pragma once

#include "search/placement/Evaluator.h"

#include <optional>
#include <string>

namespace heterplan {

struct Improvement {
  std::string change;   // "layer 'conv5' to stage 1", "4 micro-batches instead of 8"
  double objective = 0; // Evaluation::objective with it
};

/// The best of the placements that are one change away from `placement` and keep all constraints;
/// none where no change makes it better than `objective`.
std::optional<Improvement> bestChange(Evaluator &evaluator, const Placement &placement,
                                      double objective);

} // namespace heterplan
