#include "search/verify/Statements.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double agreement = 1e-6;

bool agree(double a, double b) {
  return std::abs(a - b) <= agreement * std::max({std::abs(a), std::abs(b), 1.0});
}

/// What is wrong about a stated check; empty: nothing.
std::string wrongAbout(const Check &stated, ArrayRef<Finding> findings) {
  auto found =
      find_if(findings, [&](const Finding &finding) { return finding.check.name == stated.name; });
  if (!stated.holds)
    return "the plan itself states that its check '" + stated.name + "' does not hold";
  if (found == findings.end())
    return "the plan states a check '" + stated.name +
           "', which plans under its limits do not have";
  if (!agree(stated.slack, found->check.slack) || stated.unit != found->check.unit)
    return "the plan states another slack for its check '" + stated.name + "' than it has";
  return "";
}

std::string firstWrong(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                       ArrayRef<Finding> findings, ArrayRef<StringRef> strategies) {
  if (plan.model != graph.model)
    return "the plan is said to be for a model '" + plan.model + "', which is called '" +
           graph.model + "'";
  if (plan.cluster != cluster.name)
    return "the plan is said to be for a cluster '" + plan.cluster + "', which is called '" +
           cluster.name + "'";
  if (!is_contained(strategies, plan.strategy))
    return "no strategy is called '" + plan.strategy + "'";
  for (const Check &stated : plan.checks)
    if (std::string wrong = wrongAbout(stated, findings); !wrong.empty())
      return wrong;
  for (const Finding &finding : findings)
    if (!plan.checks.empty() && none_of(plan.checks, [&](const Check &stated) {
          return stated.name == finding.check.name;
        }))
      return "the plan does not state its check '" + finding.check.name + "'";
  return "";
}
} // namespace

Finding checkStatements(const Plan &plan, const LayerGraph &graph, const Cluster &cluster,
                        ArrayRef<Finding> findings, ArrayRef<StringRef> strategies) {
  std::string wrong = firstWrong(plan, graph, cluster, findings, strategies);
  return {{"statements", wrong.empty(), wrong.empty() ? 0.0 : -1.0, "statements"}, wrong};
}

} // namespace heterplan
