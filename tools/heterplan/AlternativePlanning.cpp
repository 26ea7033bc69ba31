#include "AlternativePlanning.h"
#include "CompileSearch.h"

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
    return search(problem, options.strategy, searching);
  };
  auto draw = [&](const Problem &problem, const Plan &chosen, IsNew isNew) {
    SearchOptions drawing = inputs.searching;
    drawing.stop = &interrupted;
    drawing.workLimit = std::min(drawing.workLimit, mostWork);
    return drawPlans(problem, chosen, drawing, isNew);
  };
  int begun = 0, searches = 0;
  bool isCut = false;
  AlternativeOptions comparing;
  comparing.most = size_t(*most);
  comparing.draw = draw;
  comparing.stop = [&] {
    bool isOver = inputs.searching.deadline.passed();
    isCut |= isOver;
    return isOver || interrupted.load();
  };
  comparing.progress = [&](int done, int all) {
    begun = done + 1;
    searches = all;
    progress.update(double(done) / all,
                    "search " + std::to_string(done + 1) + " of " + std::to_string(all));
  };
  Expected<std::vector<AlternativePlan>> found =
      alternativesTo(inputs.problem, plan, run, comparing);
  if (isCut && begun == 0)
    errs() << "note: the time limit left no time to search for alternatives\n";
  else if (isCut)
    errs() << "note: the time limit ended the search for alternatives after " << begun << " of "
           << searches << " searches\n";
  return found;
}

} // namespace heterplan
