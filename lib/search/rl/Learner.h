// Learning on one problem: rollouts of a policy from several starts, their rewards, and the steps
// of REINFORCE that follow from them (Williams, 1992), with the mean of the other rollouts as
// baseline (Kwon et al., POMO, 2020) and with imitation of what local moves have improved.
#pragma once

#include "search/provision/AssignmentSearch.h"
#include "search/rl/LearnerTuning.h"
#include "search/rl/Policy.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace heterplan {

/// Kingma and Ba, Adam (2015), uphill; gradients longer than 1 are shortened.
class Adam {
public:
  Adam(int size, double rate) : rate(rate), first(Eigen::VectorXd::Zero(size)), second(first) {}
  void step(Eigen::VectorXd gradient, Eigen::VectorXd &parameters);
  void setRate(double to) { rate = to; }

private:
  double rate;
  Eigen::VectorXd first, second;
  int steps = 0;
};

class Learner {
public:
  Learner(AssignmentSearch &search, Policy policy, const LearnerTuning &tuning = {});

  /// Samples and sizes so many assignments, at most, without learning from them. If `refines`,
  /// moves in tables improve them before they are sized.
  void draw(int count, bool refines = false);
  /// Samples and sizes a batch, improves the best of it, and returns the gradient of what that
  /// teaches; none where the work is done.
  std::optional<Eigen::VectorXd> explore();
  /// Rounds until `share` of the work is done, or no round has found a better plan for long.
  void learn(double share, const std::function<void(double, double)> &progress);
  /// The share of the work for training. AssignmentSearch::descend() has the rest, and finds more
  /// if sizes are not exact.
  double trainingShare() const;
  const Policy &trained() const { return policy; }
  void setPolicy(const Policy &other) { policy = other; }

  /// The steps that lead to `assignment` from `start`; empty where masks forbid it.
  std::vector<Step> stepsTo(const TypeAssignment &assignment, Start start);
  /// The start whose limit `assignment`, with an iteration of `seconds`, just keeps.
  Start startOf(int choice, Seconds iteration) const;
  const RunEnvironment &runs() const { return environment; }

private:
  /// A start: number of micro-batches, and which limit on stage times.
  struct Level {
    int choice = 0, index = 0;
    bool operator<(const Level &other) const {
      return std::pair(choice, index) < std::pair(other.choice, other.index);
    }
  };
  /// An assignment that the policy drew, with the steps that led to it.
  struct Rollout {
    Level level;
    std::vector<Step> steps;
    TypeAssignment assignment;
    double reward = 0;
  };
  double limitOf(Level level) const;
  void anchorLevels();
  Level drawLevel();
  const RunTable &tableOf(Start start);
  std::vector<Rollout> sampleBatch(PolicyRun &run, int count, bool refines,
                                   size_t mostFilled = SIZE_MAX);
  bool takesLong(Level level, size_t mostFilled) const;
  Rollout sample(PolicyRun &run, Level level, const Uniform &uniform, bool refines);
  std::vector<Run> refined(std::vector<Run> runs, Start start);
  double rewardOf(const TypeAssignment &assignment);
  void raiseMultipliers();
  size_t levels() const { return size_t(tuning.levels); }
  std::vector<double> advantages(const std::vector<Rollout> &rollouts) const;
  TypeAssignment improve(TypeAssignment assignment, Level level);
  void preferLevels(const std::vector<Rollout> &rollouts, const std::vector<double> &advantage);
  Eigen::VectorXd gradientOf(PolicyRun &run, const std::vector<Rollout> &rollouts,
                             const std::vector<double> &advantage,
                             const std::vector<TypeAssignment> &improved);
  void restart();

  AssignmentSearch &search;
  const LearnerTuning tuning;
  RunEnvironment environment;
  const Policy initial;
  Policy policy;
  Adam adam;
  std::map<std::pair<int, double>, std::unique_ptr<RunTable>> tables;
  std::map<Level, double> preferences; // logits of the levels
  double anchor = 0;                   // seconds of an iteration
  double reference = 0;
  double temperature = 1;
  Shortfall multipliers, violated;
  bool started = false;
  size_t filled = 0; // runs of the tables
};

} // namespace heterplan
