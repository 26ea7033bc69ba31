// How many micro-batches an iteration may have.
#pragma once

#include "search/problem/Problem.h"

#include <vector>

namespace heterplan {

/// The number of micro-batches if costs are fitted to sizes and none is requested. HeterPS measures
/// layers at a small batch, so candidates leave one or two samples for each device of a type; the
/// candidate that fills the batch best is chosen.
int steadyMicroBatches(const Problem &problem);

/// The numbers of micro-batches that may be best, ascending: the fewest of each size, ⌈batch/b⌉ for
/// all b. About 2·√batch.
std::vector<int> usefulMicroBatches(Samples batch);
/// All of them where there are at most `most`. Else one of those from n up to, not including, 2·n
/// for n = 1 and on from there, the one whose micro-batches fill up best; 1 and `batch` are
/// included.
std::vector<int> microBatchChoices(Samples batch, size_t most);

} // namespace heterplan
