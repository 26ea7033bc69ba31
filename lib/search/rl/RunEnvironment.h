// The Markov decision process of the RL strategies: stages are placed front to back, each by an
// action in two parts, its device type and its last block. The environment masks actions that
// cannot lead to a feasible plan better than the incumbent, and describes the rest by features
// whose meaning does not depend on the model, the cluster or their sizes.
#pragma once

#include "search/rl/RunTable.h"

#include <Eigen/Core>

#include <memory>
#include <vector>

namespace heterplan {

/// Features of a problem that stay the same in all rollouts, one column each.
struct ProblemFeatures {
  static constexpr int block = 10, type = 8;
  Eigen::MatrixXd blocks, types;
};

/// Alternatives of one part of an action: a column of features each, and which are not masked.
struct Alternatives {
  Eigen::MatrixXd features;
  std::vector<bool> allowed;
  bool any() const;
};

class RunEnvironment {
public:
  static constexpr int stateFeatures = 8, typeFeatures = 9, endFeatures = 7;
  /// Both outlive the environment.
  RunEnvironment(Evaluator &evaluator, const AssignmentSpace &assignments);

  const AssignmentSpace &assignments;
  const ProblemFeatures &problem() const { return features; }

  /// Begins a rollout. Plans whose objective is at least `incumbent` are masked; infinite: none.
  void begin(const RunTable &table, double incumbent);
  bool isDone() const { return position == assignments.blocks; }
  int block() const { return position; }
  int lastType() const { return last; }
  Eigen::VectorXd state() const;
  Alternatives typeAlternatives() const;
  /// Entry i: the run ends behind block block() + i.
  Alternatives endAlternatives(int type) const;
  /// Whether no mask forbids the run.
  bool isAllowed(const Run &run) const;
  void place(const Run &run);
  /// The run that needs the fewest devices beyond those that are left, for when all are masked.
  Run leastInfeasible() const;

  /// Seconds of one sample of a block on one device.
  double secondsOf(int block, int type) const;
  /// Between assignments and the runs they consist of.
  TypeAssignment assignmentOf(const std::vector<Run> &runs, int choice) const;
  std::vector<Run> runsOf(const TypeAssignment &assignment) const;

private:
  void describeBlocks();
  void describeTypes();
  bool isWithinSchedule(const Run &run) const;
  double paidAtMost() const;
  Run cheapestAllowed(int type) const;

  Evaluator &evaluator;
  ProblemFeatures features;
  Eigen::MatrixXd relativeTimes; // by type and block: log10 of the time over the mean of all types
  const RunTable *table = nullptr;
  double incumbent = 0;
  int position = 0, last = -1, stages = 0;
  double spent = 0, paid = 0;
  std::vector<int> left; // devices of each type
};

} // namespace heterplan
