// Rules of operators that move elements, for the table of SampleRules.cpp.
#pragma once

#include "ir/onnx/batch/SampleRules.h"

namespace heterplan::samples {

SampleResult reorders(const SampleNode &node);       // Reshape and the like
SampleResult transposes(const SampleNode &node);     // Transpose
SampleResult joins(const SampleNode &node);          // Concat
SampleResult stacks(const SampleNode &node);         // ConcatFromSequence
SampleResult cuts(const SampleNode &node);           // Split, Slice
SampleResult tiles(const SampleNode &node);          // Tile
SampleResult gathers(const SampleNode &node);        // Gather
SampleResult gathersPoints(const SampleNode &node);  // GatherND
SampleResult scattersPoints(const SampleNode &node); // ScatterND
SampleResult pads(const SampleNode &node);           // Pad

} // namespace heterplan::samples
