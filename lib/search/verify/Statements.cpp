#include "search/verify/Statements.h"

#include "search/verify/IterationFacts.h"
#include "search/verify/Origins.h"
#include "search/verify/RequestedPlan.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double agreement = 1e-6;

bool agree(double a, double b) {
  return std::abs(a - b) <= agreement * std::max({std::abs(a), std::abs(b), 1.0});
}

/// The defect of a stated check; empty if there is none.
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

std::string wrongNames(const StatementInputs &in) {
  const Plan &plan = in.plan;
  if (plan.model != in.graph.model)
    return "the plan is said to be for a model '" + plan.model + "', which is called '" +
           in.graph.model + "'";
  if (plan.cluster != in.cluster.name)
    return "the plan is said to be for a cluster '" + plan.cluster + "', which is called '" +
           in.cluster.name + "'";
  if (!is_contained(in.strategies, plan.strategy))
    return "no strategy is called '" + plan.strategy + "'";
  auto sorted = [](std::vector<std::string> list) {
    llvm::sort(list);
    return list;
  };
  if (sorted(plan.profileFingerprints) != sorted(in.profiles.vec()))
    return "the plan was made with " + std::to_string(plan.profileFingerprints.size()) +
           " profiles that are not the " + std::to_string(in.profiles.size()) + " given ones";
  return "";
}

/// A plan of before plans said what their memory counts keeps nothing free, and states nothing.
std::string wrongAboutMemory(const Plan &plan, const Cluster &cluster,
                             const Reevaluation &reevaluated) {
  std::vector<DeviceMemory> expected;
  for (const DeviceType &type : cluster.types)
    if (type.ofType < 0 &&
        none_of(expected, [&](const DeviceMemory &each) { return each.type == type.stated(); }))
      expected.push_back({type.stated(), type.overhead});
  bool says = plan.memoryHeadroom || !plan.deviceMemory.empty();
  if (says && plan.deviceMemory != expected)
    return "the plan states other memory beside the tensors than cluster and profiles do";
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    Bytes stated = plan.stages[s].overhead;
    if (reevaluated.stages[s].obstacle.empty() &&
        none_of(reevaluated.stages[s].replicas, [&](const ReevaluatedReplica &replica) {
          return agree(replica.process.value(), stated.value());
        }))
      return "the plan states that a process of stage " + std::to_string(s) +
             " takes other memory than it does";
  }
  return "";
}

/// The names of docs/formats.md; "" where the space is not known.
std::string wrongAboutSearch(const Plan &plan) {
  const IterationFacts &facts = factsOf(plan.iterationModel);
  std::string space = facts.onePool ? "burst" : facts.fitted ? "steady-state" : "pipelines";
  if (!plan.searchSpaceLimits.empty())
    space += "-reduced";
  bool isUnknown = plan.searchSpace.empty() && plan.searchSpaceLimits.empty();
  if (!isUnknown && plan.searchSpace != space)
    return "the plan calls what was searched '" + plan.searchSpace +
           "', and by its iteration model and its limits it is '" + space + "'";
  if (plan.gap == 0 && !plan.optimal && plan.objectiveValue == plan.lowerBound)
    return "a plan without a gap is not called optimal";
  return "";
}

std::string wrongChecks(const StatementInputs &in) {
  for (const Check &stated : in.plan.checks)
    if (std::string wrong = wrongAbout(stated, in.findings); !wrong.empty())
      return wrong;
  for (const Finding &finding : in.findings) {
    auto count = count_if(in.plan.checks,
                          [&](const Check &stated) { return stated.name == finding.check.name; });
    if (count != 1)
      return "the plan " + std::string(count ? "states more than once" : "does not state") +
             " its check '" + finding.check.name + "'";
  }
  return "";
}

/// A comparison of pipelines with bursts: both are there, the plan is the better one.
std::string wrongAlternatives(const Plan &plan) {
  if (plan.alternatives.empty())
    return "";
  const std::string own = factsOf(plan.iterationModel).onePool ? "burst" : "pipelines";
  std::set<std::string> names;
  for (const Alternative &each : plan.alternatives) {
    if (each.name != "pipelines" && each.name != "burst")
      return "no alternative is called '" + each.name + "'; accepted are pipelines and burst";
    names.insert(each.name);
    if (!each.found && (each.objectiveValue != 0 || each.lowerBound != 0))
      return "the alternative '" + each.name + "' was not found and has figures";
    bool isOwn = each.name == own;
    if (isOwn && !(each.found && each.objectiveValue == plan.objectiveValue &&
                   each.lowerBound == plan.lowerBound && each.proven == plan.optimal))
      return "the alternative '" + each.name + "' has other figures than the plan, which is it";
    bool maximise = plan.objective == Objective::Throughput;
    bool isBetter = maximise ? each.objectiveValue > plan.objectiveValue
                             : each.objectiveValue < plan.objectiveValue;
    if (!isOwn && each.found && isBetter)
      return "the alternative '" + each.name + "' is stated to be better than the plan";
  }
  if (names.size() != 2 || plan.alternatives.size() != 2)
    return "a comparison states pipelines and burst, each once";
  return "";
}

/// Any of several layers that fit equally badly may be stated as the worst; if all errors are due
/// to rounding, any layer at all.
bool agree(const FitResiduals &stated, const HeterPsModel &model, int type,
           const LayerGraph &graph) {
  const HeterPsModel::Residuals compute = model.computeResiduals(type),
                                transfer = model.transferResiduals(type);
  const bool isOfComputing = compute.worst >= transfer.worst;
  const HeterPsModel::Residuals &worst = isOfComputing ? compute : transfer;
  const int named = graph.find(stated.worstLayer);
  auto residual = [&](const LayerFit &fit) {
    return isOfComputing ? fit.compute.residual : fit.transfer.residual;
  };
  bool isNamed = named >= 0 && (worst.worst <= agreement ||
                                agree(residual(model.layer(named, type)), worst.worst));
  if (worst.worstLayer < 0)
    isNamed = stated.worstLayer.empty();
  return isNamed && agree(stated.computeMedian, compute.median) &&
         agree(stated.computeWorst, compute.worst) &&
         agree(stated.transferMedian, transfer.median) &&
         agree(stated.transferWorst, transfer.worst);
}

/// The residuals of the fits, made again for each type that the plan states or uses.
Expected<std::string> wrongFits(const StatementInputs &in) {
  const Plan &plan = in.plan;
  if (!factsOf(plan.iterationModel).fitted)
    return plan.fits.empty() ? "" : "the plan states fits, which its iteration model does not make";
  Request request;
  static_cast<Requirements &>(request) = plan;
  request.globalBatch = plan.globalBatch;
  request.optimizer = plan.optimizer;
  request.optimizerKernels = plan.optimizerKernels;
  request.precision = plan.precision;
  request.memoryFormat = plan.memoryFormat;
  request.iterationModel = plan.iterationModel;
  request.batchNorm = plan.batchNorm;
  Expected<HeterPsModel> model =
      heterPsModelOf({in.graph, in.cluster, in.costs, request}, plan.microBatches);
  if (!model)
    return model.takeError();
  std::set<std::string> stated;
  for (const FitResiduals &fit : plan.fits) {
    stated.insert(fit.type);
    if (none_of(in.cluster.typesCalled(fit.type), [&](int type) {
          return in.cluster.deviceCount(type) > 0 && agree(fit, *model, type, in.graph);
        }))
      return "the plan states other residuals of the fit for '" + fit.type + "' than it has";
  }
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        if (!stated.count(device.type))
          return "the plan does not state the fit for '" + device.type + "', which it uses";
  return "";
}
} // namespace

Expected<Finding> checkStatements(const StatementInputs &in) {
  Expected<Reevaluation> reevaluated = reevaluate(in.plan, in.graph, in.cluster, in.costs);
  if (!reevaluated)
    return reevaluated.takeError();
  Expected<std::string> fits = wrongFits(in);
  if (!fits)
    return fits.takeError();
  std::string wrong;
  for (const std::string &each :
       {wrongNames(in), wrongAboutSearch(in.plan), wrongOrigins(in.plan, *reevaluated),
        wrongAboutMemory(in.plan, in.cluster, *reevaluated), wrongAlternatives(in.plan), *fits,
        wrongChecks(in)})
    if (wrong.empty())
      wrong = each;
  return Finding{{"statements", wrong.empty(), wrong.empty() ? 0.0 : -1.0, "statements"}, wrong};
}

} // namespace heterplan
