// The policy networks of the RL strategies. A recurrent cell (LSTM or plain RNN) remembers the runs
// placed so far, or self-attention over layers and device types sees the whole problem; scorers
// that are the same for every alternative then look at what each means. No weight depends on the
// number of layers, types or devices, so that one policy serves all problems.
#pragma once

#include "search/rl/RunEnvironment.h"
#include "search/rl/Tape.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <string>

namespace heterplan {

enum class PolicyKind { Lstm, Rnn, Transformer };
llvm::StringRef nameOf(PolicyKind kind); // "lstm" | "rnn" | "transformer"

/// One part of an action as the policy met it: type, or end.
struct ActionPart {
  Alternatives alternatives;
  int taken = 0;
};

/// A step of a rollout: what was known, and what was decided.
struct Step {
  int block = 0, lastType = -1;
  Eigen::VectorXd state;
  ActionPart type, end;
};

/// Numbers in [0, 1); null: the most probable alternative.
using Uniform = std::function<double()>;

class Policy {
public:
  /// Small random weights by `seed`; the cheapest alternative is the most probable.
  Policy(PolicyKind kind, uint64_t seed);

  PolicyKind kind() const { return network; }
  int size() const { return static_cast<int>(theta.size()); }
  Eigen::VectorXd &parameters() { return theta; }
  const Eigen::VectorXd &parameters() const { return theta; }

  /// As text with a version and a checksum. `parse` fails with Syntax, located in `path`, on
  /// anything else, a damaged file, or a policy of another kind.
  std::string text() const;
  static llvm::Expected<Policy> parse(llvm::StringRef text, llvm::StringRef path, PolicyKind kind);

private:
  PolicyKind network;
  Eigen::VectorXd theta;
};

/// A policy at work on one problem: encodes it once, then goes through any number of rollouts.
class PolicyRun {
public:
  /// Both outlive this.
  PolicyRun(const Policy &policy, const ProblemFeatures &problem);

  /// Forgets what was recorded, and begins a rollout that `decide` leads. Scores are divided by
  /// `temperature`.
  void beginRollout(double temperature = 1);
  /// Decides the next step in `environment`, which the caller then takes. False where all
  /// alternatives are masked.
  bool decide(const RunEnvironment &environment, const Uniform &uniform, Step &step);
  /// The step that places `run`, which no mask forbids, in `environment`; for imitation.
  static Step stepFor(const RunEnvironment &environment, const Run &run);

  /// Records advantage · log p + entropyWeight · H of a rollout's steps.
  void record(const std::vector<Step> &steps, double advantage, double entropyWeight);
  /// Multiply-adds of all that was computed.
  int64_t operations() const { return tape.operations(); }
  /// Sum of what was recorded.
  double recorded() const { return total; }
  /// Adds its gradient to `gradient`.
  void addGradient(Eigen::VectorXd &gradient) { tape.backward(gradient); }

private:
  using Var = Tape::Var;
  struct Layer {
    Var query, key, value, output, up, upBias, down;
  };
  /// Parameters in the order in which they lie in the vector.
  Var take(int rows, int columns);
  void takeParameters();
  void startCell();
  void encode(const ProblemFeatures &problem);
  Var attention(const Layer &layer, Var tokens);
  Var contextOf(const Step &step);
  Var typeScores(const Step &step, Var context);
  Var endScores(const Step &step, Var context);
  void remember(const Step &step);
  Var recur(Var input);

  const Policy &policy;
  Tape tape;
  int offset = 0, types = 0, rolloutsFrom = 0;
  double total = 0, heat = 1;
  // Attention
  Var blockIn, typeIn, place, lastIn, keyIn;
  std::vector<Layer> layers;
  Var tokens, keys;
  // Recurrence
  Var cellIn, cellBack, cellBias, state, memory, chosen;
  // Both
  Var stateIn, lookType, voteType, skipType, lookEnd, attendEnd, voteEnd, skipEnd;
};

} // namespace heterplan
