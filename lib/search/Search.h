// The entrance to planning: run a named strategy on a Problem. Infeasible is a result.
#pragma once

#include "search/exact/Tuning.h"
#include "search/problem/SearchSpace.h"
#include "support/Deadline.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// How continuous sizes of stages become whole numbers of devices; see Rounding.h. Exact: they are
/// not rounded, the best whole numbers are found.
enum class RoundingMethod { Exact, Ceiling, FloorRepair, Randomised };
const char *nameOf(RoundingMethod method); // "exact" | "ceiling" | "floor-repair" | "randomised"

/// Methods of the exact search: one for each line of exact/Methods.def.
enum class Method {
#define HETERPLAN_METHOD(enumerator, name, help) enumerator,
#include "search/exact/Methods.def"
};
struct MethodInfo {
  const char *name;
  const char *help;
};
/// The lines of Methods.def, in order.
llvm::ArrayRef<MethodInfo> methods();

class SearchMemory;

struct SearchOptions {
  uint64_t seed = 0;
  /// Limit of the deterministic work counter (stages priced), the same on every machine.
  int64_t workLimit = 8'000'000;
  /// When the search has to end. A plan that it cuts short is no longer reproducible.
  Deadline deadline;
  /// The counter to which searches add their work; may be null.
  std::atomic<int64_t> *work = nullptr;
  /// The memory of earlier searches of the same problem, for one search at a time; may be null.
  SearchMemory *memory = nullptr;
  /// Set by another thread: end soon, with the best plan so far and its bound.
  const std::atomic<bool> *stop = nullptr;
  /// `auto` ends when the gap is at most this; infinite: with any plan.
  double gap = 0;
  /// A value of Plan::objectiveValue that others have reached. A proof that no plan is better
  /// counts as one that there is none.
  std::optional<double> toBeat;
  /// A strategy that looks at few cuts before it searches the others ends there.
  bool firstLook = false;
  /// A first look ends when the gap is at most this. With 0.05 instead, `--tensor-parallel auto`
  /// takes 1.4 times as long for GPT-2 small on cloud-large, and 1.8 times for a Llama of 70B.
  double lookGap = 1;
  /// Threads of `auto`; the plan does not depend on it.
  int threads = 1;
  /// Most assignments of device types that a strategy which draws them sizes; 0: no such limit.
  int64_t evaluationLimit = 0;
  /// RL strategies only: a saved policy to start from, and the file for the trained one.
  std::string policyIn, policyOut;
  /// The folder of pretrained policies; empty: strategies that have one start untrained.
  std::string policies;
  /// Rounding of the stages that were found; steady-state iterations only.
  RoundingMethod rounding = RoundingMethod::Exact;
  /// Methods of the exact search that are left out, to measure what they buy.
  std::vector<Method> without;
  Tuning tuning;
  bool uses(Method method) const { return !llvm::is_contained(without, method); }
  /// Called now and then with the share of work done and the best objective so far.
  std::function<void(double done, double best)> progress;
};

/// Why a search ended.
enum class Termination {
  Optimal,     // no plan of the search space is better than the one found
  Feasible,    // with a plan as good as was asked for, or the best that the strategy looks for
  Infeasible,  // there is no plan in the search space
  Limit,       // by a limit of work or time, or the strategy looks no further, without an answer
  Interrupted, // by the user
};
inline bool isProof(Termination termination) {
  return termination == Termination::Optimal || termination == Termination::Infeasible;
}

struct SearchOutcome {
  /// The best plan found, priced, with bound, gap and strategy filled in.
  std::optional<Plan> plan;
  Termination termination = Termination::Limit;
  /// The plan is optimal, or there is none.
  bool isProven() const { return isProof(termination); }
  SearchedSpace space;      // what a proof is about
  int64_t work = 0;         // of the search, as SearchOptions::workLimit counts it
  bool isFirstLook = false; // a whole search may find more (SearchOptions::firstLook)
  /// If there is no plan but SearchOptions::toBeat: a bound on Plan::objectiveValue of all plans,
  /// at best the value to beat. None: nothing is proven, or that there is no plan.
  std::optional<double> bound = std::nullopt;
};

struct StrategyInfo {
  const char *name;
  const char *help;
};
/// The lines of Strategies.def, in order.
llvm::ArrayRef<StrategyInfo> strategies();

/// Runs strategy `name` ("auto": the default). Errors: UnknownStrategy (lists the names), NoProfile
/// from the cost model, TooLarge where an exhaustive search would not end.
llvm::Expected<SearchOutcome> search(const Problem &problem, llvm::StringRef name,
                                     const SearchOptions &options);

} // namespace heterplan
