// A placement that somebody else made: read from a short YAML file or taken from a plan, so that it
// can be evaluated beside those that are searched.
#pragma once

#include "search/placement/Evaluator.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace heterplan {

/// The placement that `text` states for the model and the cluster of `problem`:
///
///   microBatches: 8
///   stages:
///     - {layers: [conv1, pool4], devices: {a100: 2, v100: 4}, shares: [64, 64, 32, 32, 32, 32]}
///     - {layers: [fc1, fc3], devices: {a100: 1}}
///
/// `layers` are the first and the last one of the stage, or all of them; `shares` the samples of
/// each device, type by type as in `devices`, of the global batch or of one micro-batch; without
/// them they are those that take least. Located: Syntax, WrongType, UnknownField, MissingField,
/// UnknownLayer, UnknownDevice, OutOfRange (stages that do not follow each other, shares that do
/// not add up).
llvm::Expected<Placement> parsePlacement(llvm::StringRef text, llvm::StringRef path,
                                         const Problem &problem);

/// The placement of `plan`. InvalidPlan where its stages are not layers of the model in their
/// order, NotSupported for replicas of several devices and for devices of several stages.
llvm::Expected<Placement> placementOf(const Plan &plan, const Problem &problem);

} // namespace heterplan
