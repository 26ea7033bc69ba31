// Measures a layer by the kernels of its operators: the native engine of `heterplan profile`.
#pragma once

#include "ir/Graph.h"
#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "ir/Profile.h"

#include "llvm/Support/Error.h"

namespace heterplan::cpu {

/// When a measurement is good enough: after `least` repetitions, once the spread is at most
/// `spread` or `seconds` have passed; never after more than `most`.
struct Effort {
  int least = 7, most = 200;
  Seconds seconds{1}, settle{0.05};
  double spread = 0.01;
};

/// Times of `layer` of `graph` at `samples` on one core: an entry with its signature and
/// `deviceType`. Several copies of the layer, more than a cache holds, are used in turn, each
/// warmed up once. NoProfile, naming the operator, where one of its operators has no kernel.
llvm::Expected<ProfileEntry> measure(const Graph &graph, const Layer &layer, Samples samples,
                                     Optimizer optimizer, llvm::StringRef deviceType,
                                     const Effort &effort);

/// Why `layer` has no native time; empty when it has.
std::string whyNot(const Graph &graph, const Layer &layer);

/// oneDNN's version, "2.6.3".
std::string oneDnnVersion();

/// Everything runs on this thread from now on.
void useOneThread();

/// Relative half-width of the interval that holds the median of `values` with 95%, by order
/// statistics; with few values it is their whole range.
double spreadOf(std::vector<double> values);

} // namespace heterplan::cpu
