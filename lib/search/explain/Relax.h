// How far one constraint has to give way for a problem to have a plan, found by solving problems
// between the constraint as it is and none at all.
#pragma once

#include "search/explain/Explain.h"
#include "search/problem/Constraints.h"

#include <optional>
#include <vector>

namespace heterplan {

/// Solves problems until a limit; what comes after counts as unsolved. `any` asks whether there is
/// a plan, `best` for the best one.
class CountedSolver {
public:
  CountedSolver(Solve solve, int most) : solve(solve), left(most) {}
  llvm::Expected<SearchOutcome> any(const Problem &problem) {
    return run(problem, Effort::AnyPlan);
  }
  llvm::Expected<SearchOutcome> best(const Problem &problem) {
    return run(problem, Effort::BestPlan);
  }

private:
  llvm::Expected<SearchOutcome> run(const Problem &problem, Effort effort);

  Solve solve;
  int left;
};

/// A relaxation and the problem that it turns the given one into.
struct Relaxed {
  Relaxation relaxation;
  Problem problem;
};

/// Relaxations of `constraint`, where `asked` has the constraint as the user stated it, and `base`
/// is the same problem without it, for which `found` is a plan. Memory has one for each device type
/// that helps by itself, or one for all types; the others have one.
llvm::Expected<std::vector<Relaxed>> relax(const Problem &asked, Constraint constraint,
                                           const Problem &base, const Plan &found,
                                           CountedSolver &solve);

/// Relaxations of `asked` by more nodes of the kinds that the cluster has, one for each device type
/// that helps by itself within four times its count.
llvm::Expected<std::vector<Relaxed>> addDevices(const Problem &asked, CountedSolver &solve);

} // namespace heterplan
