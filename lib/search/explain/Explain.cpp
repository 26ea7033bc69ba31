#include "search/explain/Explain.h"

#include "search/explain/Relax.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
using Constraints = std::vector<Constraint>;

Constraints minus(Constraints from, const Constraints &taken) {
  erase_if(from, [&](Constraint constraint) { return is_contained(taken, constraint); });
  return from;
}

Problem problemWithout(Problem problem, const Constraints &dropped) {
  problem.request = without(std::move(problem.request), dropped);
  return problem;
}

class Explainer {
public:
  Explainer(const Problem &problem, Solve solve, Prove prove, const ExplainOptions &options)
      : problem(problem), constraints(constraintsOf(problem.request)), solve(solve, options),
        prove(prove), noneIsProven(options.noneIsProven) {}

  Expected<Explanation> run();

private:
  Expected<SearchOutcome> solveWith(const Constraints &kept);
  Expected<std::optional<Constraints>> provenConflict();
  Error findConflict();
  Error relaxOneByOne();
  Error relaxTogether();
  Error addMoreDevices();
  bool isOver(const std::string &question);

  const Problem &problem;
  const Constraints constraints;
  CountedSolver solve;
  Prove prove;
  const std::optional<bool> noneIsProven;
  Constraints conflict;
  Explanation result;
};

/// A plan that keeps the constraints of `kept` and none of the others.
Expected<SearchOutcome> Explainer::solveWith(const Constraints &kept) {
  return solve.any(problemWithout(problem, minus(constraints, kept)));
}

/// Whether a limit is reached; notes that `question` stays open if it is.
bool Explainer::isOver(const std::string &question) {
  if (!solve.isOver())
    return false;
  result.notReached.push_back(question);
  return true;
}

Expected<std::optional<Constraints>> Explainer::provenConflict() {
  if (!prove || solve.isOver())
    return std::nullopt;
  Expected<std::optional<std::vector<std::string>>> names = prove(problem);
  if (!names)
    return names.takeError();
  if (!*names)
    return std::nullopt;
  Constraints result;
  for (Constraint constraint : constraints)
    if (is_contained(**names, nameOf(problem.request, constraint)))
      result.push_back(constraint);
  return result;
}

/// Drops one constraint after the other as long as there is still no plan. The remaining
/// constraints are in conflict. The conflict is proven if the conflict of any of them is, and
/// minimal.
Error Explainer::findConflict() {
  Expected<std::optional<Constraints>> proof = provenConflict();
  if (!proof)
    return proof.takeError();
  conflict = *proof ? **proof : constraints;
  result.proven = *proof || noneIsProven.value_or(false);
  if (!*proof && !noneIsProven) {
    Expected<SearchOutcome> outcome = solveWith(constraints);
    if (!outcome)
      return outcome.takeError();
    result.proven = outcome->isProven();
  }
  for (Constraint constraint : Constraints(conflict)) {
    if (*proof && conflict.size() == 1)
      break; // one constraint that is proven impossible
    if (isOver("whether fewer constraints conflict"))
      break;
    Expected<SearchOutcome> outcome = solveWith(minus(conflict, {constraint}));
    if (!outcome)
      return outcome.takeError();
    if (outcome->plan)
      continue;
    conflict = minus(conflict, {constraint});
    result.proven = outcome->isProven();
  }
  return Error::success();
}

Error Explainer::relaxOneByOne() {
  for (Constraint constraint : conflict) {
    if (isOver("a change of " + describe(problem.request, constraint)))
      continue;
    Problem base = problemWithout(problem, {constraint});
    // A constraint without a degree is given up: what comes instead is told from the plan.
    Expected<SearchOutcome> outcome =
        infoOf(constraint.kind).hasDegree ? solve.any(base) : solve.best(base);
    if (!outcome)
      return outcome.takeError();
    if (!outcome->plan)
      continue;
    Expected<std::vector<Relaxed>> relaxed =
        relax({problem, constraint, base, *outcome->plan, solve});
    if (!relaxed)
      return relaxed.takeError();
    for (Relaxed &one : *relaxed)
      result.relaxations.push_back(std::move(one.relaxation));
  }
  return Error::success();
}

/// There is more than one conflict, so that several constraints must give way at once: takes back
/// as many constraints as possible, and relaxes the others, each as far as those before it leave
/// room.
Error Explainer::relaxTogether() {
  Constraints kept;
  for (Constraint constraint : constraints) {
    kept.push_back(constraint);
    Expected<SearchOutcome> outcome = solveWith(kept);
    if (!outcome)
      return outcome.takeError();
    result.proven &= outcome->plan || outcome->isProven();
    if (!outcome->plan)
      kept.pop_back();
  }
  Constraints given = minus(constraints, kept);
  Problem current = problemWithout(problem, given);
  for (Constraint constraint : given) {
    Expected<SearchOutcome> outcome = solve.any(current);
    if (!outcome)
      return outcome.takeError();
    if (!outcome->plan)
      return Error::success(); // the limit of solves
    Expected<std::vector<Relaxed>> relaxed =
        relax({problem, constraint, current, *outcome->plan, solve});
    if (!relaxed)
      return relaxed.takeError();
    if (relaxed->empty())
      continue;
    current = std::move(relaxed->front().problem);
    result.relaxations.push_back(std::move(relaxed->front().relaxation));
    result.relaxations.back().helps = false;
  }
  return Error::success();
}

Error Explainer::addMoreDevices() {
  bool concernsDevices = any_of(
      conflict, [](Constraint constraint) { return infoOf(constraint.kind).helpedByDevices; });
  if (!concernsDevices || isOver("more devices"))
    return Error::success();
  Expected<std::vector<Relaxed>> more = addDevices(problem, solve);
  if (!more)
    return more.takeError();
  for (Relaxed &one : *more)
    result.relaxations.push_back(std::move(one.relaxation));
  return Error::success();
}

Expected<Explanation> Explainer::run() {
  result.devices = problem.cluster.totalDevices();
  if (Error error = findConflict())
    return error;
  for (Constraint constraint : conflict)
    result.conflict.push_back(describe(problem.request, constraint));
  if (Error error = relaxOneByOne())
    return error;
  if (Error error = addMoreDevices())
    return error;
  if (result.relaxations.empty() && !conflict.empty() && !isOver("changes of several constraints"))
    if (Error error = relaxTogether())
      return error;
  return std::move(result);
}

void print(raw_ostream &os, const Relaxation &relaxation) {
  os << "    " << relaxation.subject << ": " << relaxation.needed << " instead of "
     << relaxation.current;
  if (!relaxation.option.empty())
    os << " (" << relaxation.option << ")";
  os << (relaxation.smallest ? "\n" : "; a smaller change may do\n");
}
} // namespace

Expected<Explanation> explain(const Problem &problem, Solve solve, Prove prove,
                              const ExplainOptions &options) {
  return Explainer(problem, solve, prove, options).run();
}

std::string toText(const Explanation &explanation) {
  std::string text;
  raw_string_ostream os(text);
  os << "no plan meets the constraints: ";
  if (explanation.conflict.empty())
    os << "none was found even without them";
  else if (explanation.conflict.size() == 1)
    os << explanation.conflict.front() << " cannot be had";
  else
    os << join(explanation.conflict.begin(), explanation.conflict.end() - 1, ", ") << " and "
       << explanation.conflict.back() << " conflict";
  os << " on the " << explanation.devices << " devices of the cluster\n";
  if (!explanation.relaxations.empty())
    os << (explanation.relaxations.front().helps
               ? "  there is a plan with any one of these:\n"
               : "  no single change is enough; there is a plan with all of these together:\n");
  for (const Relaxation &relaxation : explanation.relaxations)
    print(os, relaxation);
  if (!explanation.notReached.empty())
    os << "  the limits on time and work left open: "
       << join(explanation.notReached.begin(), explanation.notReached.end(), "; ") << "\n";
  if (!explanation.proven)
    os << "  the search stopped at its limit or left plans out, so that there may be a plan that "
          "it "
          "did not see\n";
  return text;
}

} // namespace heterplan
