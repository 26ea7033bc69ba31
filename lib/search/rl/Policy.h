// The policy network of the RL strategies: reads the blocks of layers in order and gives each
// action of a assignment a probability. A recurrent cell (LSTM or plain RNN) remembers; a scorer
// that is the same for every action looks at what the action means for the block, so that one
// policy serves any number of types and carries over to other models and clusters.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <Eigen/Core>

#include <functional>
#include <string>
#include <vector>

namespace heterplan {

enum class Cell { Lstm, Rnn };

/// What the policy sees.
class PolicyInput {
public:
  static constexpr int blockFeatures = 6, actionFeatures = 8;
  virtual ~PolicyInput() = default;
  virtual int blocks() const = 0;
  virtual int actions() const = 0;
  virtual int choices() const = 0;
  virtual Eigen::VectorXd block(int block) const = 0;
  /// Of each action at `block`, one column each, after `before` (−1: none).
  virtual Eigen::MatrixXd actionsAt(int block, int before) const = 0;
  virtual bool allowed(int block, int action) const = 0;
};

/// One sampled assignment.
struct Rollout {
  int choice = 0;
  std::vector<int> actions;
};

class Policy {
public:
  /// Small random weights by `seed`.
  Policy(Cell cell, uint64_t seed);

  static constexpr int hidden = 16, scorer = 16, mostChoices = 16;
  Cell kind() const { return cell; }
  int size() const { return static_cast<int>(theta.size()); }
  Eigen::VectorXd &parameters() { return theta; }
  const Eigen::VectorXd &parameters() const { return theta; }

  /// Draws a assignment; `uniform` gives numbers in [0, 1). Null: the most probable actions.
  Rollout sample(const PolicyInput &input, const std::function<double()> &uniform) const;
  /// Logarithm of the probability of `rollout`, and the sum of the entropies on its way.
  struct Likelihood {
    double logProbability = 0, entropy = 0;
  };
  Likelihood likelihood(const PolicyInput &input, const Rollout &rollout) const;
  /// Adds the gradient of advantage·log π(rollout) + entropyWeight·entropy to `gradient`.
  void addGradient(const PolicyInput &input, const Rollout &rollout, double advantage,
                   double entropyWeight, Eigen::VectorXd &gradient) const;

  /// As text; `parse` fails with Syntax on anything else, or a policy with another cell.
  std::string text() const;
  static llvm::Expected<Policy> parse(llvm::StringRef text, llvm::StringRef path, Cell cell);

private:
  struct Step;
  struct Weights;
  Weights weights(const Eigen::VectorXd &from) const;
  void enter(const Weights &w, const PolicyInput &input, int block, int before, Step &step,
             const Step *previous) const;
  std::vector<Step> replay(const PolicyInput &input, const Rollout &rollout) const;
  Eigen::VectorXd choiceProbabilities(int choices) const;

  Cell cell;
  Eigen::VectorXd theta;
};

} // namespace heterplan
