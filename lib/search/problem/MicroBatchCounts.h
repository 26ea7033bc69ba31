// How many micro-batches an iteration may have.
#pragma once

#include "search/problem/Problem.h"

#include <vector>

namespace heterplan {

/// Micro-batches where costs are fitted to sizes and none are asked for: HeterPS measures layers at
/// a small batch, so one that leaves a sample or two for each device of a type. Of those the ones
/// that fill up the batch best.
int steadyMicroBatches(const Problem &problem);

/// The numbers of micro-batches that may be best, ascending: the fewest of each size, ⌈batch/b⌉ for
/// all b. About 2·√batch.
std::vector<int> usefulMicroBatches(Samples batch);
/// All of them where there are at most `most`. Else one of those from n up to, not including, 2·n
/// for n = 1 and on from there, the one whose micro-batches fill up best; 1 and `batch` are
/// included.
std::vector<int> microBatchChoices(Samples batch, size_t most);

} // namespace heterplan
