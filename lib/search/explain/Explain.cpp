#include "search/explain/Explain.h"

#include "search/explain/Relax.h"
#include "search/problem/Wishes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
using Wishes = std::vector<Wish>;

Wishes minus(Wishes from, const Wishes &taken) {
  erase_if(from, [&](Wish wish) { return is_contained(taken, wish); });
  return from;
}

bool hasDegree(Wish wish) {
  return wish.kind == WishKind::Memory || wish.kind == WishKind::Budget ||
         wish.kind == WishKind::Floor;
}

class Explainer {
public:
  Explainer(const Problem &problem, Solve solve, Prove prove, const ExplainOptions &options)
      : problem(problem), wishes(wishesOf(problem)), solve(solve, options.mostSolves),
        prove(prove) {}

  Expected<Explanation> run();

private:
  Expected<std::optional<Plan>> planWith(const Wishes &kept);
  Expected<std::optional<Wishes>> provenClash();
  Error findClash();
  Error relaxOneByOne();
  Error relaxTogether();
  Error addMoreDevices();

  const Problem &problem;
  const Wishes wishes;
  CountedSolver solve;
  Prove prove;
  Wishes clash;
  Explanation result;
};

/// A plan that keeps the wishes of `kept` and none of the others.
Expected<std::optional<Plan>> Explainer::planWith(const Wishes &kept) {
  Expected<SearchOutcome> outcome = solve.any(without(problem, minus(wishes, kept)));
  if (!outcome)
    return outcome.takeError();
  result.proven &= outcome->plan || outcome->proven;
  return std::move(outcome->plan);
}

Expected<std::optional<Wishes>> Explainer::provenClash() {
  if (!prove)
    return std::nullopt;
  Expected<std::optional<std::vector<std::string>>> names = prove(problem);
  if (!names)
    return names.takeError();
  if (!*names)
    return std::nullopt;
  Wishes result;
  for (Wish wish : wishes)
    if (is_contained(**names, nameInProof(problem, wish)))
      result.push_back(wish);
  return result;
}

/// Drops one wish after the other as long as there is still no plan. What is left cannot hold
/// together, and no part of it is to spare.
Error Explainer::findClash() {
  Expected<std::optional<Wishes>> proof = provenClash();
  if (!proof)
    return proof.takeError();
  clash = *proof ? **proof : wishes;
  result.proven = true;
  for (Wish wish : Wishes(clash)) {
    if (*proof && clash.size() == 1)
      break; // one wish that is proven impossible
    Expected<std::optional<Plan>> plan = planWith(minus(clash, {wish}));
    if (!plan)
      return plan.takeError();
    if (!*plan)
      clash = minus(clash, {wish});
  }
  return Error::success();
}

Error Explainer::relaxOneByOne() {
  for (Wish wish : clash) {
    Problem base = without(problem, {wish});
    // A wish without a degree is given up: what comes instead is told from the plan.
    Expected<SearchOutcome> outcome = hasDegree(wish) ? solve.any(base) : solve.best(base);
    if (!outcome)
      return outcome.takeError();
    if (!outcome->plan)
      continue;
    Expected<std::vector<Relaxed>> relaxed = relax(problem, wish, base, *outcome->plan, solve);
    if (!relaxed)
      return relaxed.takeError();
    for (Relaxed &one : *relaxed)
      result.relaxations.push_back(std::move(one.relaxation));
  }
  return Error::success();
}

/// There is more than one clash, so that several wishes must give way at once: takes back as many
/// wishes as possible, and relaxes the others, each as far as those before it leave room.
Error Explainer::relaxTogether() {
  Wishes kept;
  for (Wish wish : wishes) {
    kept.push_back(wish);
    Expected<std::optional<Plan>> plan = planWith(kept);
    if (!plan)
      return plan.takeError();
    if (!*plan)
      kept.pop_back();
  }
  Wishes given = minus(wishes, kept);
  Problem current = without(problem, given);
  for (Wish wish : given) {
    Expected<SearchOutcome> outcome = solve.any(current);
    if (!outcome)
      return outcome.takeError();
    if (!outcome->plan)
      return Error::success(); // the limit of solves
    Expected<std::vector<Relaxed>> relaxed = relax(problem, wish, current, *outcome->plan, solve);
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
  bool concernsDevices = any_of(clash, [](Wish wish) {
    return wish.kind == WishKind::Floor || wish.kind == WishKind::Memory ||
           wish.kind == WishKind::Separation || wish.kind == WishKind::Schedule;
  });
  if (!concernsDevices)
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
  if (Error error = findClash())
    return error;
  for (Wish wish : clash)
    result.clash.push_back(describe(problem, wish));
  if (Error error = relaxOneByOne())
    return error;
  if (Error error = addMoreDevices())
    return error;
  if (result.relaxations.empty() && !clash.empty())
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
  if (explanation.clash.empty())
    os << "none was found even without them";
  else if (explanation.clash.size() == 1)
    os << explanation.clash.front() << " cannot be had";
  else
    os << join(explanation.clash.begin(), explanation.clash.end() - 1, ", ") << " and "
       << explanation.clash.back() << " clash";
  os << " on the " << explanation.devices << " devices of the cluster\n";
  if (!explanation.relaxations.empty())
    os << (explanation.relaxations.front().helps
               ? "  there is a plan with any one of these:\n"
               : "  no single change is enough; there is a plan with all of these together:\n");
  for (const Relaxation &relaxation : explanation.relaxations)
    print(os, relaxation);
  if (!explanation.proven)
    os << "  the search stopped at its limit, so that there may be a plan that it did not see\n";
  return text;
}

} // namespace heterplan
