// LSTM and GRU as far as shapes and attributes say it.
#pragma once

#include "cost/kernels/Call.h"

#include <optional>

namespace heterplan::kernels {

struct Recurrence {
  int64_t steps = 0, samples = 0, width = 0, hidden = 0, directions = 1;
  bool reversed = false; // the only direction is from the last step to the first
};

/// The recurrence of a call of LSTM or GRU. Empty for sequences of several lengths, peepholes,
/// clipped or other functions, a forget gate tied to the input's, and samples on the first axis.
std::optional<Recurrence> recurrenceOf(const Call &call);

} // namespace heterplan::kernels
