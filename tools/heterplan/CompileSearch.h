// How a search runs for the options of `heterplan compile`: its limits, what is left out for
// measurements, and what is planned beside the plan.
#pragma once

#include "CompileOptions.h"

#include "search/Search.h"
#include "search/problem/Problem.h"

namespace heterplan {

/// The options of a search for plans of `request`.
llvm::Expected<SearchOptions> readSearchOptions(const CompileOptions &options,
                                                const Request &request);
/// The end of all searches of a command that has to end at `command`: the plan is still to be
/// written.
Deadline deadlineOfSearches(const Deadline &command, const Problem &problem);
/// The text of `best`, an objective so far. Strategies state throughput as the time of an
/// iteration.
std::string bestText(const Request &request, double best);
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
