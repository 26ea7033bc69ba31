// A policy of `heterplan schedule` makes a schedule of a problem. Policies are found by
// name; Policies.def has one line for each.
#pragma once

#include "search/jobs/Schedule.h"
#include "search/jobs/policy/Prices.h"
#include "support/Progress.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <memory>
#include <vector>

namespace heterplan::jobs {

/// How PD-ORS rounds the fractional spread of a slot.
struct RoundingOptions {
  double scale = 1; // G_δ: below 1 favours packing, above 1 covering
  int tries = 20;
};

/// Limits on the work of `auto`.
struct SearchLimits {
  /// Looks at a site in a slot, of improving the best schedule.
  double work = 1e7;
  /// A further limit on `work` is this times jobs · slots · sites: small problems end early.
  double workOfJob = 300;
  /// Jobs · slots · sites up to which every policy is run; beyond, only the fast ones. With 10⁹
  /// all of them took more than 11 minutes, and the fast ones one.
  double everyPolicy = 1e8;
  /// Jobs · slots · sites up to which all jobs are inserted one after another.
  double insertion = 4e9;
};

/// The effect of an arrival on jobs that were admitted before.
enum class Replan {
  None,       // they keep their plans
  KeepEnds,   // they may be planned anew if they end no later
  RaiseTotal, // and may end later if the utility of all jobs less the cost of what they take rises
};

struct PolicyOptions {
  uint64_t seed = 0;
  RoundingOptions rounding;
  /// Scale of the least price of primal-dual policies: see priceLimits().
  double priceScale = usualPriceScale;
  /// `pd-ors` takes limits of prices from the load, not those of the publication.
  bool loadPrices = true;
  /// Re-planning of `pd-ors`; None where a decision is explained. The competitive ratio is proven
  /// for None with the publication's limits.
  Replan replan = Replan::RaiseTotal;
  /// Branch-and-bound nodes of the search of `offline`.
  int nodeLimit = 20'000;
  SearchLimits limits;
  /// For decision times; none are kept without it.
  Progress::Clock clock;
  /// Job whose decision a primal-dual policy explains; -1: none.
  int explain = -1;
  /// Told the share that is done.
  std::function<void(double)> progress;
};

/// How often rounding a fractional spread gave whole numbers that hold.
struct RoundingCounts {
  int64_t programs = 0; // fractional spreads solved
  int64_t tries = 0, held = 0, packingFailed = 0, coveringFailed = 0;
  int64_t chosen = 0; // models whose rounded spread was cheaper than the greedy one
};

struct Explanation;

struct PolicyResult {
  Schedule schedule;
  bool optimal = false; // proven
  /// On any schedule's total utility; infinite where the policy knows none.
  double upperBound = std::numeric_limits<double>::infinity();
  std::string chosen;             // of auto: where the schedule comes from
  std::vector<Seconds> decisions; // time of each
  RoundingCounts rounding;
  std::shared_ptr<const Explanation> explanation; // where one was asked for and there are prices
};

class Policy {
public:
  virtual ~Policy() = default;
  /// A schedule that holds every rule of docs/schedule.md. Deterministic by `options.seed`.
  virtual PolicyResult run(const Problem &problem, const PolicyOptions &options) const = 0;
};

struct PolicyInfo {
  const char *name;
  const char *help;
  bool isTried; // by `auto`
};
llvm::ArrayRef<PolicyInfo> policies();
/// The policy called `name`; null if there is none.
std::unique_ptr<Policy> makePolicy(llvm::StringRef name);

} // namespace heterplan::jobs
