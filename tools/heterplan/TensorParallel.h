// --tensor-parallel: the layers of one of several devices that share every layer take the place of
// those of the model.
#pragma once

#include "Inputs.h"

namespace heterplan {

/// The degree that `text` states; 1: it is empty.
llvm::Expected<int> readTensorParallel(const std::string &text);

/// The degrees that --tensor-parallel auto tries: 1, 2, 4, ... up to the devices of one type that a
/// node of `cluster` has.
std::vector<int> degreesOf(const Cluster &cluster);

/// Gives `model` the layers of a shard. A layers file that has them must have this degree.
llvm::Error divideLayers(Model &model, int degree);

/// A line that says how the devices of a plan share layers; "" if they do not.
std::string shardDegreeText(const Plan &plan);

} // namespace heterplan
