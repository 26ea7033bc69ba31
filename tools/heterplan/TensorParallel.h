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

/// Whether a layer has sparse tables, so that devices cannot share it.
bool hasTables(const LayerGraph &layers);

/// Fails if `model` has no operators to divide.
llvm::Error checkOperators(const Model &model);

/// --tensor-parallel by-stage: the search chooses a degree for each stage.
constexpr const char *degreeByStage = "by-stage";

/// Gives `model` the layers of a shard, also after divideByDegree(). A layers file that has them
/// must have this degree.
llvm::Error divideLayers(Model &model, int degree, SequenceParallel sequence);

/// Gives `model` the layers of each of `degrees`, so that stages may have unequal ones. Degrees
/// that the model cannot be divided by are left out, with a note. A layers file has its own
/// degrees.
llvm::Error divideByDegree(Model &model, llvm::ArrayRef<int> degrees, SequenceParallel sequence);

/// The layers of `model`, which is not divided, with the figures of each of `degrees`. A layers
/// file has its own degrees.
llvm::Expected<LayerGraph> withDegrees(const Model &model, llvm::ArrayRef<int> degrees,
                                       SequenceParallel sequence);

/// A line that says how the devices of a plan share layers; "" if they do not.
std::string shardDegreeText(const Plan &plan);

} // namespace heterplan
