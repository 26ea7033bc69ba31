#include "DegreePlanning.h"

#include "search/Degrees.h"
#include "search/placement/SearchMemory.h"
#include "support/Progress.h"

#include <mutex>

using namespace llvm;

namespace heterplan {

namespace {

/// The inputs of one degree, with what its searches know.
struct OfDegree {
  CompileOptions options;
  PlanningInputs inputs;
  SearchMemory memory;
  std::optional<LayerGraph> layers; // in the order of the best plan, if it is another one
};

Expected<OfDegree> ofDegree(CompileOptions options, const PlanningSources &sources, int degree) {
  options.tensorParallel = degree == anyDegree ? "" : std::to_string(degree);
  Expected<PlanningInputs> inputs = planningInputsOf(options, sources);
  if (!inputs)
    return inputs.takeError();
  return OfDegree{std::move(options), std::move(*inputs), {}, std::nullopt};
}

class DegreePlanning {
public:
  DegreePlanning(const CompileOptions &options, PlanningSources sources,
                 const std::vector<int> &degrees, OrderChoice order, const std::atomic<bool> &stop)
      : options(options), sources(std::move(sources)), degrees(degrees), order(order), stop(stop),
        tried(degrees.size()), notes(degrees.size()) {}

  Expected<DegreePlan> run() {
    Expected<OfDegree> known = ofDegree(options, sources, degrees.front());
    if (!known)
      return known.takeError();
    const SearchOptions &searching = known->inputs.searching;
    const Deadline deadline = deadlineOfSearches(searching.deadline, known->inputs.problem);
    const DegreeLimits limits{sources.request.objective, deadline, &stop, searching.threads};
    tried.front() = std::move(*known);
    auto searchOne = [&](size_t degree, const DegreeEffort &effort) {
      return planOne(degree, effort);
    };
    Expected<BestDegree> best = bestOfDegrees(degrees.size(), beginsWithAny(), limits, searchOne);
    progress.clear();
    for (const std::string &note : notes)
      errs() << note;
    if (!best)
      return best.takeError();
    OfDegree &own = *tried[best->index];
    own.inputs.searching.deadline = deadline;
    if (own.layers)
      own.inputs.problem.graph = std::move(*own.layers);
    return DegreePlan{std::move(own.options), std::move(own.inputs), std::move(best->outcome)};
  }

private:
  /// The share of the work for one degree after a search of all degrees.
  static constexpr double shareOfOne = 0.25;

  bool beginsWithAny() const { return degrees.front() == anyDegree; }

  Expected<std::optional<SearchOutcome>> planOne(size_t index, const DegreeEffort &effort) {
    if (!tried[index] && !mayHave(index))
      return std::nullopt;
    OfDegree &own = *tried[index];
    SearchOptions searching = own.inputs.searching;
    searching.stop = &stop;
    searching.deadline = effort.deadline;
    searching.toBeat = effort.toBeat;
    searching.firstLook = effort.firstLook;
    searching.threads = effort.threads;
    searching.memory = &own.memory;
    searching.progress = [&](double done, double value) {
      std::lock_guard lock(ofProgress);
      progress.update(done, bestText(own.inputs.problem.request, value));
    };
    if (beginsWithAny() && degrees[index] != anyDegree)
      searching.workLimit = int64_t(double(searching.workLimit) * shareOfOne);
    return degrees[index] == 1 && order == OrderChoice::Auto ? searchedInOrders(own, searching)
                                                             : searched(own, searching);
  }

  static Expected<std::optional<SearchOutcome>> searched(OfDegree &own,
                                                         const SearchOptions &searching) {
    Expected<SearchOutcome> outcome = search(own.inputs.problem, own.options.strategy, searching);
    if (!outcome)
      return outcome.takeError();
    return std::optional(std::move(*outcome));
  }

  /// Looks at the given order, or searches several.
  static Expected<std::optional<SearchOutcome>> searchedInOrders(OfDegree &own,
                                                                 const SearchOptions &searching) {
    if (searching.firstLook) {
      auto outcome = searched(own, searching);
      if (outcome && *outcome)
        (*outcome)->isFirstLook |=
            mayReorder(own.inputs.problem) && inNarrowOrder(own.inputs.problem);
      return outcome;
    }
    Expected<BestOrder> best = searchOrders(own.inputs.problem, own.options.strategy, searching);
    if (!best)
      return best.takeError();
    own.layers = std::move(best->layers);
    return std::optional(std::move(best->outcome));
  }

  /// Reads the inputs with a degree. Notes why, and returns false, if it has no plans.
  bool mayHave(size_t index) {
    Expected<OfDegree> next = ofDegree(options, sources, degrees[index]);
    if (next) {
      tried[index] = std::move(*next);
      return true;
    }
    notes[index] = "note: no plans of " + std::to_string(degrees[index]) +
                   " devices that share layers: " + toText(next.takeError()) + "\n";
    return false;
  }

  const CompileOptions &options;
  const PlanningSources sources;
  const std::vector<int> &degrees;
  const OrderChoice order;
  const std::atomic<bool> &stop;
  std::vector<std::optional<OfDegree>> tried; // by degree
  std::vector<std::string> notes;             // by degree
  std::mutex ofProgress;
  Progress progress = Progress::onStandardError("planning");
};

} // namespace

Expected<DegreePlan> planDegrees(const CompileOptions &options, PlanningSources sources,
                                 const std::vector<int> &degrees, OrderChoice order,
                                 const std::atomic<bool> &stop) {
  return DegreePlanning(options, std::move(sources), degrees, order, stop).run();
}

} // namespace heterplan
