// The whole trade-off instead of one plan: the Pareto front of money, or device-seconds, against
// speed.
#pragma once

#include "search/Search.h"

#include "llvm/ADT/STLExtras.h"

#include <functional>
#include <vector>

namespace heterplan {

struct ParetoFront {
  /// In ascending throughput and cost per sample (or device-seconds of an iteration); none is as
  /// cheap and as fast as another. Each is the cheapest found for a floor on the throughput, which
  /// it states as its minThroughput: its bound is on the cost of every plan that reaches that
  /// floor.
  std::vector<Plan> plans;
  Objective spent = Objective::Cost; // or DeviceSeconds: what "cost" is here
  /// The plan farthest below the chord from the cheapest to the fastest; a knee of the Pareto
  /// front.
  size_t knee = 0;
  /// Without plans: it is proven that there are none.
  bool proven = false;
  /// How many of the floors were not swept because ParetoOptions::stop ended the sweep.
  int notReached = 0;
};

struct ParetoOptions {
  int points = 12; // floors that are swept, at least 2
  /// Called before each search with how many of how many are done.
  std::function<void(int done, int all)> progress;
  /// Whether to end with the points so far.
  std::function<bool()> stop;
};

/// Runs a strategy on a problem; `searchesLeft` including this one, for whoever divides time.
using SearchFor =
    llvm::function_ref<llvm::Expected<SearchOutcome>(const Problem &problem, int searchesLeft)>;

/// Sweeps floors (the epsilon-constraint method; Haimes et al., 1971): the least cost under floors
/// from the throughput of the cheapest plan to the highest there is, in equal ratios, within the
/// floor and the budget of `problem`. The cost is that of samples, or the device-seconds of an
/// iteration where these are the objective of `problem`. A floor that the cheapest
/// plan of a lower one reaches too needs no search. Fails when a search does. Deterministic as they
/// are.
llvm::Expected<ParetoFront> paretoFront(const Problem &problem, SearchFor search,
                                        const ParetoOptions &options);

} // namespace heterplan
