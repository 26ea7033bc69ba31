#include "search/Assess.h"

#include "ir/Constraint.h"
#include "ir/MicroBatches.h"
#include "search/placement/PlanBuilder.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <memory>

using namespace llvm;

namespace heterplan {

namespace {
/// The same problem without constraints, but for memory where it is to be kept.
Problem unconstrained(const Problem &problem, bool keepsMemory) {
  std::vector<Constraint> dropped = constraintsOf(problem.request);
  erase_if(dropped,
           [&](Constraint each) { return keepsMemory && each.kind == ConstraintKind::Memory; });
  Problem result = problem;
  result.request = without(problem.request, dropped);
  return result;
}

Error refuse(size_t stage, const Twine &why) {
  return Diagnostic(Diag::OutOfRange, {"", 0, 0, "stages[" + std::to_string(stage) + "]"})
         << why.str();
}

/// Errors of what no constraint forbids but cannot be run.
Error verifyPlacement(const Problem &problem, const Placement &placement) {
  std::vector<bool> allowed = problem.graph.allowedCuts();
  std::vector<int> left;
  for (size_t type = 0; type < problem.cluster.types.size(); ++type)
    left.push_back(problem.cluster.deviceCount(int(type)));
  int64_t batch = MicroBatches{problem.request.globalBatch, placement.microBatches}.fullSize();
  for (size_t i = 0; i < placement.stages.size(); ++i) {
    const PlacedStage &stage = placement.stages[i];
    if (stage.begin > 0 && !allowed[stage.begin])
      return refuse(i, "a cut before layer '" + Twine(problem.graph.layers[stage.begin].name) +
                           "' parts layers that share a parameter");
    if (stage.group.size() > batch)
      return refuse(i, Twine(stage.group.size()) + " devices for the " + Twine(batch) +
                           " samples of a micro-batch; each needs one at least");
    for (auto [type, count] : stage.group.counts)
      if ((left[type] -= count) < 0)
        return refuse(i, "the stages up to this one need " + Twine(-left[type]) + " more '" +
                             problem.cluster.types[type].name + "' than the " +
                             Twine(problem.cluster.deviceCount(type)) + " of the cluster");
  }
  return Error::success();
}

class Assessor {
public:
  Assessor(const Problem &problem, const Placement &placement)
      : problem(problem), placement(placement) {}

  /// Finds what `problem` it can be priced under: with memory, or else without it.
  Error price() {
    for (bool keepsMemory : {true, false}) {
      relaxed = std::make_unique<Problem>(unconstrained(problem, keepsMemory));
      evaluator = std::make_unique<Evaluator>(*relaxed);
      evaluation = evaluator->measureAny(placement);
      if (Error error = evaluator->takeError())
        return error;
      if (evaluation)
        return Error::success();
    }
    return Diagnostic(Diag::NotSupported, Location{})
           << "the stages fit only if one of them straddles nodes that another one uses";
  }

  /// The plan, with `bound` on Evaluation::objective.
  Expected<Plan> plan(double bound) {
    Expected<Plan> plan = PlanBuilder(*evaluator, placement).build(bound);
    if (!plan)
      return plan;
    static_cast<Requirements &>(*plan) = problem.request;
    plan->strategy = "given";
    return plan;
  }

  std::optional<Improvement> change() {
    Evaluator constrained(problem);
    std::optional<Improvement> result = bestChange(constrained, placement, evaluation->objective);
    consumeError(constrained.takeError());
    return result;
  }

  std::optional<Evaluation> evaluation;

private:
  const Problem &problem;
  const Placement &placement;
  std::unique_ptr<Problem> relaxed;
  std::unique_ptr<Evaluator> evaluator;
};

/// Evaluation::objective of a figure in the units of Plan::objectiveValue.
double objectiveOf(const Request &request, double value) {
  return request.objective == Objective::Throughput ? double(request.globalBatch.value()) / value
                                                    : value;
}
} // namespace

Expected<Assessment> assess(const Problem &problem, const Placement &placement, StringRef strategy,
                            const SearchOptions &options) {
  if (Error error = verifyPlacement(problem, placement))
    return error;
  Assessor assessor(problem, placement);
  if (Error error = assessor.price())
    return error;
  Expected<SearchOutcome> outcome = search(problem, strategy, options);
  if (!outcome)
    return outcome.takeError();
  Assessment result;
  double own = assessor.evaluation->objective, bound = own;
  if (outcome->plan)
    bound = objectiveOf(problem.request, outcome->plan->lowerBound);
  result.isOutside = !outcome->plan || bound > own * (1 + 1e-9);
  Expected<Plan> plan = assessor.plan(std::min(bound, own));
  if (!plan)
    return plan.takeError();
  result.plan = std::move(*plan);
  result.plan.optimal &= !result.isOutside;
  result.best = std::move(outcome->plan);
  result.change = assessor.change();
  return result;
}

} // namespace heterplan
