#include "search/verify/Checker.h"

#include "search/verify/BackgroundJob.h"
#include "search/verify/SharedDevices.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
std::vector<ConstraintFormula> constraintsOf(const CheckInputs &in) {
  std::vector<ConstraintFormula> result{
      layersOnce(in),   stageOrder(in),    tiedParameters(in),    scheduleFits(in),
      deviceGroups(in), devicesExist(in),  devicesUsedOnce(in),   memoryFits(in),
      sharesSum(in),    timingIsRight(in), boundIsConsistent(in), fingerprintsMatch(in)};
  if (any_of(in.graph.layers, [](const Layer &layer) { return !layer.tables.empty(); }) ||
      any_of(in.plan.stages, [](const Stage &stage) { return !stage.tables.empty(); }))
    result.push_back(tableShards(in));
  if (std::optional<ConstraintFormula> gaps = gapsAreIdle(in))
    result.push_back(std::move(*gaps));
  for (ConstraintFormula &formula : backgroundFits(in))
    result.push_back(std::move(formula));
  constexpr decltype(&checkPin) hooks[] = {
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices) check##enumerator,
#include "ir/Constraints.def"
  };
  for (auto hook = std::rbegin(hooks); hook != std::rend(hooks); ++hook) // what is blamed first
    if (std::optional<ConstraintFormula> formula = (*hook)(in))
      result.push_back(std::move(*formula));
  return result;
}

/// Rounding may leave a limit that holds with a slack just below zero, which is none.
Finding findingOf(const ConstraintFormula &constraint, const Verdict &verdict) {
  Finding result{{constraint.name, verdict.truth == Truth::Holds, verdict.slack, constraint.unit},
                 verdict.because};
  if (result.check.holds)
    result.check.slack = std::max(0.0, verdict.slack);
  if (verdict.truth == Truth::Unknown)
    result.because = "Z3 could not decide it within its limit of steps";
  return result;
}
} // namespace

Expected<std::vector<Finding>> examinePlan(const Plan &plan, const LayerGraph &graph,
                                           const Cluster &cluster, const CostModel &costs) {
  Expected<Reevaluation> reevaluated = reevaluate(plan, graph, cluster, costs);
  if (!reevaluated)
    return reevaluated.takeError();
  std::vector<ConstraintFormula> constraints = constraintsOf({plan, graph, cluster, *reevaluated});
  Expected<std::vector<Verdict>> verdicts = decide(constraints);
  if (!verdicts)
    return verdicts.takeError();
  std::vector<Finding> findings;
  for (size_t i = 0; i < constraints.size(); ++i)
    findings.push_back(findingOf(constraints[i], (*verdicts)[i]));
  return findings;
}

Expected<std::vector<Check>> checkPlan(const Plan &plan, const LayerGraph &graph,
                                       const Cluster &cluster, const CostModel &costs) {
  Expected<std::vector<Finding>> findings = examinePlan(plan, graph, cluster, costs);
  if (!findings)
    return findings.takeError();
  std::vector<Check> checks;
  for (Finding &finding : *findings)
    checks.push_back(std::move(finding.check));
  return checks;
}

} // namespace heterplan
