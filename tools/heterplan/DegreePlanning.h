// Plans with several degrees of tensor parallelism: a search for each degree.
#pragma once

#include "PlanningInputs.h"

#include "search/Degrees.h"
#include "search/Orders.h"
#include "search/placement/SearchMemory.h"

#include <atomic>
#include <memory>
#include <vector>

namespace heterplan {

/// A degree that stands for all those of a layers file, one for each stage.
constexpr int anyDegree = 0;

/// The degrees that --tensor-parallel auto tries for `layers` on `cluster`: all that a layers file
/// states, for each stage, and then each one that a node has; 1, 2, 4, ... for a model.
std::vector<int> degreesFor(const LayerGraph &layers, const Cluster &cluster);

/// The inputs of the plans of one degree, with the options that state it.
struct DegreeInputs {
  CompileOptions options;
  PlanningInputs inputs;
  SearchMemory memory;
  std::optional<LayerGraph> layers; // in the order of the best plan, if it is another one
};

/// The best plan of several degrees, if there is one, and the inputs of its degree, which belong to
/// the planner.
struct DegreePlan {
  DegreeInputs &own;
  SearchOutcome outcome;
};

/// Plans with each of several degrees.
class DegreePlanner {
public:
  /// Plans with a degree of which fewer layers were measured than of whole ones, on some device
  /// type, are left out unless this is called for it: modelled times do not compare with measured
  /// ones.
  void admitUnmeasured(int degree) { unmeasured.push_back(degree); }

  /// The first one of `degrees`, which may be `anyDegree`, must work. `order` is that of plans of
  /// degree 1, as other plans keep the given order. Fails as planningInputsOf() does.
  static llvm::Expected<std::unique_ptr<DegreePlanner>> create(const CompileOptions &options,
                                                               PlanningSources sources,
                                                               std::vector<int> degrees,
                                                               OrderChoice order);

  /// Searches with all degrees, in the part `share` of the time that is left; `stop` ends the
  /// searches. The space of the outcome names the degrees that a model or a cluster has no plans
  /// of, and those that were not searched. Fails as search() does.
  llvm::Expected<DegreePlan> plan(const std::atomic<bool> &stop, double share = 1);

  /// Why there are no plans of the degrees that plan() left out: a line for each.
  const std::vector<std::string> &reasons() const { return notes; }

  /// The inputs of `degree` after plan(); null if there are no plans of it.
  DegreeInputs *find(int degree);

private:
  DegreePlanner(const CompileOptions &options, PlanningSources sources, std::vector<int> degrees,
                OrderChoice order)
      : options(options), sources(std::move(sources)), degrees(std::move(degrees)), order(order),
        tried(this->degrees.size()), notes(this->degrees.size()) {}

  bool beginsWithAny() const { return degrees.front() == anyDegree; }
  bool mayCompare(size_t index) const;
  llvm::Error read(size_t index);
  bool mayHave(size_t index);
  SearchOptions searchingOf(size_t index, const DegreeEffort &effort);
  llvm::Expected<std::optional<SearchOutcome>> planOne(size_t index,
                                                       const SearchOptions &searching);

  const CompileOptions options;
  const PlanningSources sources;
  const std::vector<int> degrees;
  const OrderChoice order;
  std::vector<std::optional<DegreeInputs>> tried; // by degree
  std::vector<std::string> notes;                 // by degree; empty: none
  std::vector<int> unmeasured;                    // that are admitted so
};

/// Names `what` among what the search that led to `outcome` has left out.
void leaveOut(SearchOutcome &outcome, const std::string &what);
/// The name of plans with shared layers, where a search leaves them out.
constexpr const char *sharedLayers = "layers that several devices share";

} // namespace heterplan
