// How a search runs for the options of `heterplan compile`: its limits, what is left out for
// measurements, and what is planned beside the plan.
#pragma once

#include "CompileOptions.h"

#include "search/Search.h"

namespace heterplan {

/// The options of a search for plans of `request`.
llvm::Expected<SearchOptions> readSearchOptions(const CompileOptions &options,
                                                const Request &request);
/// How --background is planned.
struct BackgroundOptions {
  Samples batch{};
  double maxSlowdown = 0; // share of the plan's iteration
};
llvm::Expected<BackgroundOptions> readBackgroundOptions(const CompileOptions &options);
/// The number of alternatives (--alternatives); 0: none are searched.
llvm::Expected<int> readAlternativeCount(const CompileOptions &options);
/// Floors of --pareto.
llvm::Expected<int> readParetoPoints(const CompileOptions &options);

} // namespace heterplan
