#include "DegreePlanning.h"

#include "TensorParallel.h"

#include "support/Progress.h"

#include "llvm/ADT/STLExtras.h"

#include <mutex>

using namespace llvm;

namespace heterplan {

namespace {

/// The share of the work for one degree after a search of all degrees.
constexpr double shareOfOne = 0.25;

Expected<std::optional<SearchOutcome>> searched(DegreeInputs &own, const SearchOptions &searching) {
  Expected<SearchOutcome> outcome = search(own.inputs.problem, own.options.strategy, searching);
  if (!outcome)
    return outcome.takeError();
  return std::optional(std::move(*outcome));
}

/// Looks at the given order, or searches several.
Expected<std::optional<SearchOutcome>> searchedInOrders(DegreeInputs &own,
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

std::string nameOf(int degree) {
  if (degree == anyDegree)
    return "a degree for each stage";
  return degree == 1 ? "whole layers" : "layers that " + std::to_string(degree) + " devices share";
}

/// The layers that profiles know on `type`.
int64_t measuredLayers(const PlanningInputs &inputs, const DeviceType &type) {
  const LayerGraph &graph = inputs.problem.graph;
  return count_if(graph.layers, [&](const Layer &layer) {
    return inputs.costs.measured->find(layer, graph.model, type) != nullptr;
  });
}

} // namespace

std::vector<int> degreesFor(const LayerGraph &layers, const Cluster &cluster) {
  std::vector<int> ofCluster = degreesOf(cluster);
  if (layers.degrees().size() == 1)
    return ofCluster;
  std::vector<int> degrees{anyDegree};
  copy_if(layers.degrees(), std::back_inserter(degrees),
          [&](int degree) { return degree <= ofCluster.back(); });
  return degrees;
}

Expected<std::unique_ptr<DegreePlanner>> DegreePlanner::create(const CompileOptions &options,
                                                               PlanningSources sources,
                                                               std::vector<int> degrees,
                                                               OrderChoice order) {
  std::unique_ptr<DegreePlanner> planner(
      new DegreePlanner(options, std::move(sources), std::move(degrees), order));
  if (Error error = planner->read(0))
    return error;
  return planner;
}

/// Reads the inputs of a degree. Only plans of degree 1 may have another order than the given one.
Error DegreePlanner::read(size_t index) {
  const int degree = degrees[index];
  CompileOptions own = options;
  own.tensorParallel = degree == anyDegree ? "" : std::to_string(degree);
  if (degree != 1)
    own.ordered.reset();
  Expected<PlanningInputs> inputs = planningInputsOf(own, sources);
  if (!inputs)
    return inputs.takeError();
  tried[index].emplace(DegreeInputs{std::move(own), std::move(*inputs), {}, std::nullopt});
  return Error::success();
}

/// Whether as many layers of a degree were measured as of the first one, on each device type.
bool DegreePlanner::mayCompare(size_t index) const {
  if (is_contained(unmeasured, degrees[index]))
    return true;
  const PlanningInputs &first = tried.front()->inputs, &own = tried[index]->inputs;
  return all_of(own.costs.cluster.types, [&](const DeviceType &type) {
    return measuredLayers(own, type) >= measuredLayers(first, type);
  });
}

/// Reads the inputs of a degree. Notes why, and returns false, if it has no plans.
bool DegreePlanner::mayHave(size_t index) {
  Error error = read(index);
  if (!error && !mayCompare(index)) {
    tried[index].reset();
    error = Diagnostic(Diag::NoProfile, {})
                .note({}, "'heterplan profile --shard-degrees' measures them")
            << "fewer of their layers were measured than of whole ones";
  }
  if (error)
    notes[index] = "no plans of " + std::to_string(degrees[index]) +
                   " devices that share layers: " + toText(std::move(error));
  return tried[index].has_value();
}

void leaveOut(SearchOutcome &outcome, const std::string &what) {
  constexpr StringRef reduced = "-reduced";
  SearchedSpace &space = outcome.space;
  space.leftOut.push_back(what);
  if (!StringRef(space.name).endswith(reduced))
    space.name += reduced;
  if (outcome.plan) {
    outcome.plan->searchSpace = space.name;
    outcome.plan->searchSpaceLimits = space.leftOut;
  }
}

DegreeInputs *DegreePlanner::find(int degree) {
  for (size_t i = 0; i < degrees.size(); ++i)
    if (degrees[i] == degree && tried[i])
      return &*tried[i];
  return nullptr;
}

SearchOptions DegreePlanner::searchingOf(size_t index, const DegreeEffort &effort) {
  SearchOptions searching = tried[index]->inputs.searching;
  searching.deadline = effort.deadline;
  searching.toBeat = effort.toBeat;
  searching.firstLook = effort.firstLook;
  searching.threads = effort.threads;
  searching.memory = &tried[index]->memory;
  if (beginsWithAny() && degrees[index] != anyDegree)
    searching.workLimit = int64_t(double(searching.workLimit) * shareOfOne);
  return searching;
}

Expected<std::optional<SearchOutcome>> DegreePlanner::planOne(size_t index,
                                                              const SearchOptions &searching) {
  DegreeInputs &own = *tried[index];
  return degrees[index] == 1 && order == OrderChoice::Auto ? searchedInOrders(own, searching)
                                                           : searched(own, searching);
}

Expected<DegreePlan> DegreePlanner::plan(const std::atomic<bool> &stop, double share) {
  const SearchOptions common = tried.front()->inputs.searching;
  const Deadline deadline = deadlineOfSearches(common.deadline, tried.front()->inputs.problem);
  const DegreeLimits limits{sources.request.objective, deadline.part(share), &stop, common.threads};
  std::mutex ofProgress;
  Progress progress = Progress::onStandardError("planning");
  auto searchOne = [&](size_t index,
                       const DegreeEffort &effort) -> Expected<std::optional<SearchOutcome>> {
    if (!tried[index] && !mayHave(index))
      return std::nullopt;
    SearchOptions searching = searchingOf(index, effort);
    searching.stop = &stop;
    searching.progress = [&](double done, double value) {
      std::lock_guard lock(ofProgress);
      progress.update(done, bestText(tried[index]->inputs.problem.request, value));
    };
    return planOne(index, searching);
  };
  const bool firstIsWhole = beginsWithAny() || degrees.size() == 1;
  Expected<BestDegree> best = bestOfDegrees(degrees.size(), firstIsWhole, limits, searchOne);
  progress.clear();
  if (!best)
    return best.takeError();
  for (size_t i = 0; i < degrees.size(); ++i)
    if (!notes[i].empty() || is_contained(best->unsearched, i))
      leaveOut(best->outcome, nameOf(degrees[i]));
  DegreeInputs &own = *tried[best->index];
  own.inputs.searching.deadline = deadline;
  if (own.layers)
    own.inputs.problem.graph = std::move(*own.layers);
  return DegreePlan{own, std::move(best->outcome)};
}

} // namespace heterplan
