// How far one constraint has to give way for a problem to have a plan, found by solving problems
// between the constraint as it is and none at all.
#pragma once

#include "ir/Constraint.h"
#include "search/explain/Explain.h"

#include <optional>
#include <vector>

namespace heterplan {

/// Solves problems until a limit on their number, their work or the time; what comes after counts
/// as unsolved. `any` asks whether there is a plan, `best` for the best one.
class CountedSolver {
public:
  CountedSolver(Solve solve, const ExplainOptions &limits)
      : solve(solve), left(limits.mostSolves), workLeft(limits.mostWork),
        deadline(limits.deadline) {}
  llvm::Expected<SearchOutcome> any(const Problem &problem) {
    return run(problem, Effort::AnyPlan);
  }
  llvm::Expected<SearchOutcome> best(const Problem &problem) {
    return run(problem, Effort::BestPlan);
  }
  /// Whether a limit is reached.
  bool isOver() const { return left <= 0 || workLeft <= 0 || deadline.passed(); }

private:
  llvm::Expected<SearchOutcome> run(const Problem &problem, Effort::Kind kind);

  Solve solve;
  int left;
  int64_t workLeft;
  const Deadline deadline;
};

/// A relaxation and the problem that it turns the given one into.
struct Relaxed {
  Relaxation relaxation;
  Problem problem;
};

/// The inputs of a relaxation.
struct RelaxInputs {
  const Problem &asked;  // with the constraint as the user stated it
  Constraint constraint; // of asked.request
  const Problem &base;   // the same problem without it
  const Plan &found;     // a plan for `base`
  CountedSolver &solve;
};

/// Relaxations of a constraint. Memory has one for each device type that helps by itself, or one
/// for all types; the others have one.
llvm::Expected<std::vector<Relaxed>> relax(const RelaxInputs &in);

/// How each constraint of Constraints.def gives way.
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices)                                    \
  llvm::Expected<std::vector<Relaxed>> relax##enumerator(const RelaxInputs &in);
#include "ir/Constraints.def"

/// The relaxation of a constraint on a figure, `current` in `unit`, to `text`, by `option`:
/// `problem` has it. `proven`: less does not help.
Relaxed relaxedTo(const RelaxInputs &in, Problem problem, const char *subject, double current,
                  const std::string &text, const char *unit, const std::string &option,
                  bool proven);

/// Relaxations of `asked` by more nodes of the kinds that the cluster has, one for each device type
/// that helps by itself within four times its count.
llvm::Expected<std::vector<Relaxed>> addDevices(const Problem &asked, CountedSolver &solve);

} // namespace heterplan
