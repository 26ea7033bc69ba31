#include "AlternativePlanning.h"

#include "search/Alternatives.h"
#include "support/Progress.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
/// Alternatives are for comparison: nobody waits for the last percent of theirs.
constexpr int64_t mostWork = 400'000;
constexpr double closeEnough = 0.01;
} // namespace

Expected<std::vector<AlternativePlan>> findAlternatives(const Plan &plan,
                                                        const PlanningInputs &inputs,
                                                        const CompileOptions &options,
                                                        const std::atomic<bool> &interrupted) {
  Expected<int> most = readAlternativeCount(options);
  if (!most)
    return most.takeError();
  if (*most == 0)
    return std::vector<AlternativePlan>();
  Progress progress = Progress::onStandardError("planning alternatives");
  auto run = [&](const Problem &problem) {
    SearchOptions searching = inputs.searching;
    searching.stop = &interrupted;
    searching.workLimit = std::min(searching.workLimit, mostWork);
    searching.gap = std::max(searching.gap, closeEnough);
    searching.started = std::chrono::steady_clock::now();
    return search(problem, options.strategy, searching);
  };
  AlternativeOptions comparing;
  comparing.most = size_t(*most);
  comparing.stop = [&] { return interrupted.load(); };
  comparing.progress = [&](int done, int all) {
    progress.update(double(done) / all,
                    "search " + std::to_string(done + 1) + " of " + std::to_string(all));
  };
  return alternativesTo(inputs.problem, plan, run, comparing);
}

} // namespace heterplan
