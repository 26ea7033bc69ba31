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
/// Says how stages run, which is priced as it is asked for.
bool isHow(ConstraintKind kind) {
  return kind == ConstraintKind::Recompute || kind == ConstraintKind::ShardState;
}

/// The constraints that a placement may break and be priced all the same; memory, too, or not.
std::vector<Constraint> breakable(const Request &request, bool memory) {
  std::vector<Constraint> result = constraintsOf(request);
  erase_if(result, [&](Constraint each) {
    return isHow(each.kind) || (!memory && each.kind == ConstraintKind::Memory);
  });
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
    left.push_back(problem.cluster.deviceCount(int(type))); // limits may be broken, and are priced
  int64_t batch = MicroBatches{problem.request.globalBatch, placement.microBatches}.fullSize();
  for (size_t i = 0; i < placement.stages.size(); ++i) {
    const PlacedStage &stage = placement.stages[i];
    if (stage.begin > 0 && !allowed[stage.begin])
      return refuse(i, "a cut before layer '" + Twine(problem.graph.layers[stage.begin].name) +
                           "' parts layers that share a parameter");
    if (stage.group.replicas() > batch)
      return refuse(i, Twine(stage.group.replicas()) + " devices for the " + Twine(batch) +
                           " samples of a micro-batch; each needs one at least");
    for (auto [type, count] : stage.group.counts)
      if ((left[type] -= count) < 0)
        return refuse(i, "the stages up to this one need " + Twine(-left[type]) + " more '" +
                             problem.cluster.types[type].name + "' than the " +
                             Twine(problem.cluster.deviceCount(type)) + " of the cluster");
  }
  return Error::success();
}

/// Returns `problem` with the micro-batches of `placement` where the costs of stages are those of
/// one size of micro-batches (IterationRules::fitsSizes).
Problem withSizeOf(Problem problem, const Placement &placement) {
  if (rulesOf(problem.request.iterationModel).fitsSizes())
    problem.request.microBatches = placement.microBatches;
  return problem;
}

class Assessor {
public:
  Assessor(const Problem &stated, const Placement &placement)
      : stated(stated), problem(withSizeOf(stated, placement)), constrained(problem),
        measuring(&constrained),
        placement(constrained.shareNodes(constrained.keepTogether(placement))) {}

  /// Prices the placement under all constraints, or else without those that it may break, or else
  /// without memory, too.
  Error price() {
    if (Error error = measure())
      return error;
    for (bool memory : {false, true}) {
      std::vector<Constraint> dropped = breakable(problem.request, memory);
      if (evaluation || dropped.empty())
        continue;
      relax(dropped);
      if (Error error = measure())
        return error;
    }
    if (evaluation)
      return Error::success();
    return Diagnostic(Diag::NotSupported, Location{})
           << "the stages do not find room in the nodes as they are to lie; say how many devices "
              "each "
           << "has in each of its nodes ({v100: [2, 2]})";
  }

  /// The plan, with `bound` on Evaluation::objective.
  Expected<Plan> plan(double bound) {
    Expected<Plan> plan = PlanBuilder(*measuring, placement).build(bound);
    if (!plan)
      return plan;
    stateRequest(stated.request, *plan);
    plan->strategy = "given";
    return plan;
  }

  Expected<std::optional<Improvement>> change() {
    std::optional<Improvement> result = bestChange(constrained, placement, evaluation->objective);
    if (Error error = constrained.takeError())
      return error;
    return result;
  }

  std::optional<Evaluation> evaluation;

private:
  Error measure() {
    evaluation = measuring->measure(placement, Among::All);
    return measuring->takeError();
  }

  void relax(ArrayRef<Constraint> dropped) {
    unconstrained.reset();
    relaxed = std::make_unique<Problem>(problem);
    relaxed->request = without(problem.request, dropped);
    unconstrained = std::make_unique<Evaluator>(*relaxed);
    measuring = unconstrained.get();
  }

  const Problem &stated;
  const Problem problem; // in which the placement is priced
  Evaluator constrained;
  std::unique_ptr<Problem> relaxed;         // where the placement breaks a constraint
  std::unique_ptr<Evaluator> unconstrained; // of `relaxed`
  Evaluator *measuring;                     // one of the two
  const Placement placement;
};

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
  Expected<std::optional<Improvement>> change = assessor.change();
  if (!change)
    return change.takeError();
  result.change = std::move(*change);
  return result;
}

} // namespace heterplan
