// Integers that number the rows of the samples, as torch.arange(batch) makes them. A replica counts
// its own samples from zero, so that such numbers may only pick rows of the same samples.
#pragma once

#include "ir/onnx/batch/SampleRules.h"

namespace heterplan {

/// The step of the result of a Range whose length grows with the batch; see SampleLayout.
int64_t stepOfRange(const SampleNode &node);

/// Sets the steps of the layout `made` of a result, of which each sample is computed by itself.
void followNumbers(const SampleNode &node, SampleLayout &made);

/// Whether an operand that depends on the numbers of the samples makes data of the layout `made`
/// otherwise than as an index.
bool computesWithNumbers(const SampleNode &node, const SampleLayout &made);

} // namespace heterplan
