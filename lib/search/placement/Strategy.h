// The interface of a strategy: a class with a static `run`, one line in Strategies.def.
#pragma once

#include "search/Search.h"
#include "search/placement/Evaluator.h"

namespace heterplan {

struct Solution {
  std::optional<Placement> placement; // best found
  /// Proven: no placement of the space has a smaller Evaluation::objective. Infinite when none is
  /// feasible. None: not this strategy's business.
  std::optional<double> bound;
  Termination termination = Termination::Limit;
  /// Parts of the evaluator's space that the strategy omitted, as messages.
  std::vector<std::string> leftOut = {};
  bool isFirstLook = false; // of SearchOptions::firstLook, where there is more to search
};

/// The best placement that Greedy finds; LabelSetting starts from it.
std::optional<Placement> greedyPlacement(Evaluator &evaluator);

/// Members of the portfolio: they start from `incumbent` and never end with worse; `workShare` is
/// that of the work which `options` allow.
Solution improveLocally(Evaluator &evaluator, const SearchOptions &options, double workShare,
                        const std::optional<Placement> &incumbent);
/// `learn` fails where the pretrained policy is damaged.
llvm::Expected<Solution> learn(Evaluator &evaluator, const SearchOptions &options, double workShare,
                               const std::optional<Placement> &incumbent);

/// The strategy `auto`.
llvm::Expected<Solution> runPortfolio(Evaluator &evaluator, const SearchOptions &options);

/// A bound that takes no search: on the objective of every placement, at most that of `best`; a
/// quick one once the time of `options` is up. Fails when its solver does.
llvm::Expected<double> rootBound(Evaluator &evaluator, const std::optional<Placement> &best,
                                 const SearchOptions &options);

#define HETERPLAN_STRATEGY(name, cls, cuts, help)                                                  \
  struct cls {                                                                                     \
    static llvm::Expected<Solution> run(Evaluator &evaluator, const SearchOptions &options);       \
  };
#include "search/placement/Strategies.def"

} // namespace heterplan
