// The inputs of `compile` and `evaluate`: the problem that their options state, and the options of
// the search.
#pragma once

#include "CompileSearch.h"

#include "search/problem/Problem.h"

namespace heterplan {

/// Everything that was read; the problem points into `costs`.
struct PlanningInputs {
  std::shared_ptr<Graph> graph;        // null: the layers came from a file
  std::optional<DividedModel> divided; // of `graph`, if devices share layers
  CostInputs costs;
  Problem problem;
  SearchOptions searching;
};

/// `request` under the model, the cluster and the profiles of `options`. Fails as their readers and
/// checkTrainable(), checkSamplesApart() and Problem::create() do, and where no input of the model
/// counts samples (NoBatchDimension). With --batch-dim none a run of the model is a sample, and
/// each micro-batch has one.
llvm::Expected<PlanningInputs> readPlanningInputs(const CompileOptions &options,
                                                  const Request &request);

/// The inputs before the layers are divided. They serve several degrees of tensor parallelism.
struct PlanningSources {
  Model model;
  Request request;
  SearchOptions searching;
};
llvm::Expected<PlanningSources> readPlanningSources(const CompileOptions &options,
                                                    const Request &request);
/// The inputs whose layers are divided as `options` say.
llvm::Expected<PlanningInputs> planningInputsOf(const CompileOptions &options,
                                                PlanningSources sources);

/// The degrees of tensor parallelism that a command plans with.
enum class Degrees { One, Best, ByStage };

/// Refuses options that are not supported with layers that several devices share.
llvm::Error checkBesideShards(const CompileOptions &options, Degrees degrees);

} // namespace heterplan
