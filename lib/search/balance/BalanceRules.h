// Which shares the replicas of each stage have in an iteration: one class for each way.
#pragma once

#include "search/balance/BalanceSimulation.h"
#include "search/balance/Predictors.h"

namespace heterplan {

/// Shares of a full micro-batch, by stage and replica.
using StageShares = std::vector<std::vector<int64_t>>;

class ShareRule {
public:
  virtual ~ShareRule() = default;
  virtual StageShares first(const BalanceProblem &problem);
  /// The changes of shares at the beginning of `iteration`; none by default.
  virtual std::vector<ShareDecision> decide(const BalanceProblem &problem, size_t iteration,
                                            const StageShares &shares);
};

class PlanShares : public ShareRule {
public:
  explicit PlanShares(llvm::StringRef) {}
};

class EvenShares : public ShareRule {
public:
  explicit EvenShares(llvm::StringRef) {}
  StageShares first(const BalanceProblem &problem) override;
};

class StaticShares : public ShareRule {
public:
  explicit StaticShares(llvm::StringRef) {}
  StageShares first(const BalanceProblem &problem) override;
};

class Oracle : public ShareRule {
public:
  explicit Oracle(llvm::StringRef) {}
  std::vector<ShareDecision> decide(const BalanceProblem &problem, size_t iteration,
                                    const StageShares &shares) override;
};

/// As the runtime does it (heterplan_runtime/balance.py): at each barrier the replicas observe the
/// median of their speeds since the last one, predict the next, and move if it pays. One without
/// samples is expected to have become faster, so that it is tried again.
class LoadBalanced : public ShareRule {
public:
  /// `predictor`: a name of Predictors.def.
  explicit LoadBalanced(llvm::StringRef predictor) : predictor(predictor.str()) {}
  std::vector<ShareDecision> decide(const BalanceProblem &problem, size_t iteration,
                                    const StageShares &shares) override;

private:
  struct Forecast {
    std::unique_ptr<Predictor> predictor;
    double speed = 0; // samples a second, of an iteration
  };
  void observe(const BalanceProblem &problem, size_t iteration, const BalancedReplica &replica,
               int64_t share, Forecast &forecast) const;

  std::string predictor;
  std::vector<std::vector<Forecast>> forecasts; // by stage and replica
};

} // namespace heterplan
