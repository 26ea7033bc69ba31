// Measures a layer by the kernels of its operators: the native engine of `heterplan profile`, on
// any device.
#pragma once

#include "cost/kernels/Engine.h"

#include "ir/Graph.h"
#include "ir/LayerGraph.h"
#include "ir/Profile.h"

#include "llvm/Support/Error.h"

namespace heterplan::kernels {

/// When a visit is long enough: after `least` repetitions, once the spread is at most `spread` or
/// `seconds` have passed; never after more than `most`.
struct Effort {
  int least = 3, most = 200;
  Seconds seconds{0.4}, settle{0.1};
  double spread = 0.01;
};

/// Times of `layer` of `graph` at `samples` on the device of `engine`. Several copies of the layer,
/// more than a cache or a model of `footprint` holds, are used in turn, each warmed up once.
/// NoProfile, naming the operator, where one of its operators has no kernel, and where the device
/// fails.
llvm::Expected<MeasurementSession> measure(Engine &engine, const Graph &graph, const Layer &layer,
                                           Samples samples, Optimizer optimizer, Bytes footprint,
                                           const Effort &effort);

/// Approximate bytes that a pass over the model touches: before a layer runs again, the rest of the
/// model has had the cache.
Bytes footprintOf(const LayerGraph &model, Samples samples);

/// Why `layer` has no native time; empty when it has.
std::string whyNot(Engine &engine, const Graph &graph, const Layer &layer);

} // namespace heterplan::kernels
