// Why there is no plan: which constraints of the user conflict, and how little of each would have
// to give way. Every relaxation that is named was tried: with it there is a plan.
#pragma once

#include "search/Search.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace heterplan {

struct Relaxation {
  std::string constraint; // "throughput of at least 50000 samples/s", as in Explanation::conflict
  std::string subject;    // "best throughput": what the figures below are of
  std::string deviceType; // whose memory or number it is; "" where it is about none, or about all
  std::string current;    // "50000 samples/s"
  std::string needed;     // "1234.5 samples/s"
  std::string option;     // as typed: "--min-throughput 1234.5"; "" where no option does it
  double value = 0;       // of `needed`, rounded so that it works when it is typed; 0: no number
  /// Whether this relaxation alone gives a plan; else it does together with the others.
  bool helps = false;
  /// Whether it is proven that less does not help (up to rounding).
  bool smallest = false;
};

struct Explanation {
  /// The constraints that conflict: they cannot hold together on this cluster, and without any one
  /// of them the others can. Empty when no plan was found even without constraints.
  std::vector<std::string> conflict;
  std::vector<Relaxation> relaxations;
  /// False where the search stopped at its limit, or left plans out: there may be a plan that it
  /// did not see.
  bool proven = false;
  int devices = 0; // of the cluster
  /// The questions that a limit left open: "a change of at most 3 dollars/hour", "more devices".
  std::vector<std::string> notReached;
};

/// The effort of a question: whether there is a plan, or the best one.
struct Effort {
  enum Kind { AnyPlan, BestPlan };
  Effort(Kind kind, int64_t mostWork = std::numeric_limits<int64_t>::max())
      : kind(kind), mostWork(mostWork) {}

  Kind kind;
  int64_t mostWork; // that may be spent on it
};
/// Runs a strategy on a problem.
using Solve = llvm::function_ref<llvm::Expected<SearchOutcome>(const Problem &, Effort)>;
/// Names constraints that provably conflict, in the words of search/verify/NecessaryConflict.h, or
/// none.
using Prove =
    llvm::function_ref<llvm::Expected<std::optional<std::vector<std::string>>>(const Problem &)>;

struct ExplainOptions {
  /// Whether the search that found no plan has proven that there is none; where that is not said,
  /// the problem is solved once more.
  std::optional<bool> noneIsProven;
  /// Most problems to solve; a relaxation that was not reached by then is left out.
  int mostSolves = 100;
  /// Most work of all of them together, as SearchOutcome::work counts it.
  int64_t mostWork = std::numeric_limits<int64_t>::max();
  /// When to end, with what is known by then.
  Deadline deadline = {};
};

/// Explains why `problem`, for which `solve` found no plan, has none. First asks `prove` (may be
/// null), then drops constraints one by one and solves what is left. Fails only when `solve` or
/// `prove` does. Deterministic as they are.
llvm::Expected<Explanation> explain(const Problem &problem, Solve solve, Prove prove = nullptr,
                                    const ExplainOptions &options = {});

/// For the terminal: a sentence and one line for each relaxation, ending in a newline.
std::string toText(const Explanation &explanation);

} // namespace heterplan
