#include "search/rl/Policy.h"

#include "support/Diagnostic.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>
#include <random>

using namespace llvm;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace heterplan {

namespace {
constexpr int inputSize = PolicyInput::blockFeatures + PolicyInput::actionFeatures;

VectorXd sigmoid(const VectorXd &x) { return (1 + (-x.array()).exp()).inverse().matrix(); }

/// Of the allowed entries; 0 elsewhere.
VectorXd softmax(const VectorXd &scores, const std::vector<bool> &allowed) {
  double most = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < scores.size(); ++i)
    if (allowed[i])
      most = std::max(most, scores[i]);
  VectorXd result = VectorXd::Zero(scores.size());
  for (int i = 0; i < scores.size(); ++i)
    if (allowed[i])
      result[i] = std::exp(scores[i] - most);
  return result / result.sum();
}

double entropyOf(const VectorXd &probabilities) {
  double entropy = 0;
  for (double p : probabilities)
    entropy -= p > 0 ? p * std::log(p) : 0;
  return entropy;
}

/// d(advantage·log p[taken] + weight·entropy) / d scores.
VectorXd scoreGradient(const VectorXd &p, int taken, double advantage, double weight) {
  VectorXd gradient = -advantage * p;
  gradient[taken] += advantage;
  double entropy = entropyOf(p);
  for (int i = 0; i < p.size(); ++i)
    if (p[i] > 0)
      gradient[i] -= weight * p[i] * (std::log(p[i]) + entropy);
  return gradient;
}

int pick(const VectorXd &probabilities, const std::function<double()> &uniform) {
  int best = 0;
  if (!uniform) {
    probabilities.maxCoeff(&best);
    return best;
  }
  double left = uniform();
  for (int i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0)
      continue;
    best = i; // rounding: the last one that is possible
    if ((left -= probabilities[i]) < 0)
      break;
  }
  return best;
}
} // namespace

/// Views of the parameters, one after the other.
struct Policy::Weights {
  Eigen::Map<const MatrixXd> cellIn, cellBack, attend, look;
  Eigen::Map<const VectorXd> cellBias, lookBias, vote;
};

/// One block on the way: what went in and came out, for the way back.
struct Policy::Step {
  VectorXd in, gates, memory, state; // gates: after their functions (LSTM: i, f, o, g)
  MatrixXd features, looks;          // by action: input of the scorer, and its hidden layer
  std::vector<bool> allowed;
  VectorXd probabilities;
};

namespace {
constexpr Eigen::Index cellWidth = Policy::hidden; // as Eigen counts

int gatesOf(Cell cell) { return cell == Cell::Lstm ? 4 * Policy::hidden : Policy::hidden; }

int sizeOf(Cell cell) {
  int gates = gatesOf(cell);
  return gates * (inputSize + Policy::hidden + 1) +
         Policy::scorer * (Policy::hidden + PolicyInput::actionFeatures + 1 + 1) +
         Policy::mostChoices;
}
} // namespace

Policy::Policy(Cell cell, uint64_t seed) : cell(cell), theta(sizeOf(cell)) {
  std::mt19937_64 random(seed);
  for (double &weight : theta)
    weight = (double(random() >> 11) * 0x1p-53 - 0.5) * 0.4;
  theta.tail(mostChoices).setZero();
}

Policy::Weights Policy::weights(const VectorXd &from) const {
  int gates = gatesOf(cell);
  const double *next = from.data();
  auto take = [&](int count) {
    const double *here = next;
    next += count;
    return here;
  };
  const double *cellIn = take(gates * inputSize), *cellBack = take(gates * hidden),
               *cellBias = take(gates), *attend = take(scorer * hidden),
               *look = take(scorer * PolicyInput::actionFeatures), *lookBias = take(scorer),
               *vote = take(scorer);
  return {{cellIn, gates, inputSize},
          {cellBack, gates, hidden},
          {attend, scorer, hidden},
          {look, scorer, PolicyInput::actionFeatures},
          {cellBias, gates},
          {lookBias, scorer},
          {vote, scorer}};
}

/// The cell takes in the block and what was chosen before; the scorer scores each action.
void Policy::enter(const Weights &w, const PolicyInput &input, int block, int before, Step &step,
                   const Step *previous) const {
  step.features = input.actionsAt(block, before);
  step.in = VectorXd::Zero(inputSize);
  step.in.head(PolicyInput::blockFeatures) = input.block(block);
  if (previous)
    step.in.tail(PolicyInput::actionFeatures) = previous->features.col(before);
  VectorXd back = previous ? previous->state : VectorXd(VectorXd::Zero(hidden));
  VectorXd sum = w.cellIn * step.in + w.cellBack * back + w.cellBias;
  if (cell == Cell::Lstm) {
    step.gates.resize(4 * cellWidth);
    step.gates.head(3 * cellWidth) = sigmoid(sum.head(3 * cellWidth));
    step.gates.tail(hidden) = sum.tail(hidden).array().tanh();
    auto in = step.gates.head(hidden).array(), keep = step.gates.segment(hidden, hidden).array(),
         out = step.gates.segment(2 * cellWidth, hidden).array(),
         fresh = step.gates.tail(hidden).array();
    step.memory = in * fresh;
    if (previous)
      step.memory.array() += keep * previous->memory.array();
    step.state = out * step.memory.array().tanh();
  } else {
    step.gates = sum.array().tanh();
    step.state = step.gates;
  }
  VectorXd context = w.attend * step.state + w.lookBias;
  step.looks = w.look * step.features;
  step.looks.colwise() += context;
  step.looks = step.looks.array().tanh().matrix().eval();
  step.allowed.clear();
  for (int action = 0; action < input.actions(); ++action)
    step.allowed.push_back(input.allowed(block, action));
  step.probabilities = softmax(step.looks.transpose() * w.vote, step.allowed);
}

VectorXd Policy::choiceProbabilities(int choices) const {
  int count = std::min(choices, int(mostChoices));
  return softmax(theta.tail(mostChoices).head(count), std::vector<bool>(size_t(count), true));
}

Rollout Policy::sample(const PolicyInput &input, const std::function<double()> &uniform) const {
  Weights w = weights(theta);
  Rollout rollout;
  rollout.choice = pick(choiceProbabilities(input.choices()), uniform);
  Step steps[2];
  for (int block = 0; block < input.blocks(); ++block) {
    Step &step = steps[block % 2];
    int before = block > 0 ? rollout.actions.back() : -1;
    enter(w, input, block, before, step, block > 0 ? &steps[(block + 1) % 2] : nullptr);
    rollout.actions.push_back(pick(step.probabilities, uniform));
  }
  return rollout;
}

std::vector<Policy::Step> Policy::replay(const PolicyInput &input, const Rollout &rollout) const {
  Weights w = weights(theta);
  std::vector<Step> steps(size_t(input.blocks()));
  for (int block = 0; block < input.blocks(); ++block)
    enter(w, input, block, block > 0 ? rollout.actions[block - 1] : -1, steps[block],
          block > 0 ? &steps[block - 1] : nullptr);
  return steps;
}

Policy::Likelihood Policy::likelihood(const PolicyInput &input, const Rollout &rollout) const {
  VectorXd choices = choiceProbabilities(input.choices());
  Likelihood result{std::log(choices[rollout.choice]), entropyOf(choices)};
  std::vector<Step> steps = replay(input, rollout);
  for (size_t block = 0; block < steps.size(); ++block) {
    result.logProbability += std::log(steps[block].probabilities[rollout.actions[block]]);
    result.entropy += entropyOf(steps[block].probabilities);
  }
  return result;
}

/// Back-propagation through time. What the cell gets of the previous action is data, not a function
/// of the parameters.
void Policy::addGradient(const PolicyInput &input, const Rollout &rollout, double advantage,
                         double entropyWeight, VectorXd &gradient) const {
  Weights w = weights(theta);
  int gates = gatesOf(cell);
  MatrixXd cellIn = MatrixXd::Zero(gates, inputSize), cellBack = MatrixXd::Zero(gates, hidden),
           attend = MatrixXd::Zero(scorer, hidden),
           look = MatrixXd::Zero(scorer, PolicyInput::actionFeatures);
  VectorXd cellBias = VectorXd::Zero(gates), lookBias = VectorXd::Zero(scorer),
           vote = VectorXd::Zero(scorer);
  std::vector<Step> steps = replay(input, rollout);
  VectorXd state = VectorXd::Zero(hidden), memory = VectorXd::Zero(hidden);
  for (int block = int(steps.size()) - 1; block >= 0; --block) {
    const Step &step = steps[block];
    const Step *previous = block > 0 ? &steps[block - 1] : nullptr;
    VectorXd scores =
        scoreGradient(step.probabilities, rollout.actions[block], advantage, entropyWeight);
    vote += step.looks * scores;
    MatrixXd looks = w.vote * scores.transpose();
    looks.array() *= 1 - step.looks.array().square();
    look += looks * step.features.transpose();
    VectorXd context = looks.rowwise().sum();
    lookBias += context;
    attend += context * step.state.transpose();
    state += w.attend.transpose() * context;
    VectorXd sum(gates);
    if (cell == Cell::Lstm) {
      auto in = step.gates.head(hidden).array(), keep = step.gates.segment(hidden, hidden).array(),
           out = step.gates.segment(2 * cellWidth, hidden).array(),
           fresh = step.gates.tail(hidden).array();
      Eigen::ArrayXd bent = step.memory.array().tanh();
      memory.array() += state.array() * out * (1 - bent.square());
      sum.head(hidden) = memory.array() * fresh * in * (1 - in);
      if (previous)
        sum.segment(hidden, hidden) = memory.array() * previous->memory.array() * keep * (1 - keep);
      else
        sum.segment(hidden, hidden).setZero();
      sum.segment(2 * cellWidth, hidden) = state.array() * bent * out * (1 - out);
      sum.tail(hidden) = memory.array() * in * (1 - fresh.square());
      memory.array() *= keep;
    } else {
      sum = state.array() * (1 - step.state.array().square());
    }
    cellIn += sum * step.in.transpose();
    cellBias += sum;
    if (previous)
      cellBack += sum * previous->state.transpose();
    state = w.cellBack.transpose() * sum;
  }
  double *next = gradient.data();
  auto put = [&](const auto &part) {
    Eigen::Map<VectorXd>(next, part.size()) += Eigen::Map<const VectorXd>(part.data(), part.size());
    next += part.size();
  };
  put(cellIn), put(cellBack), put(cellBias), put(attend), put(look), put(lookBias), put(vote);
  VectorXd choices = choiceProbabilities(input.choices());
  gradient.tail(mostChoices).head(choices.size()) +=
      scoreGradient(choices, rollout.choice, advantage, entropyWeight);
}

std::string Policy::text() const {
  std::string result;
  raw_string_ostream os(result);
  os << "heterplan-policy 1 " << (cell == Cell::Lstm ? "lstm" : "rnn") << ' ' << size() << '\n';
  for (double weight : theta)
    os << format("%.17g", weight) << '\n';
  return os.str();
}

Expected<Policy> Policy::parse(StringRef text, StringRef path, Cell cell) {
  Policy policy(cell, 0);
  auto bad = [&](unsigned line) {
    return Diagnostic(Diag::Syntax, {path.str(), line, 1, ""})
        .note({}, "--policy-out of the same strategy writes such files");
  };
  SmallVector<StringRef, 0> lines;
  text.rtrim().split(lines, '\n');
  std::string header = "heterplan-policy 1 " + std::string(cell == Cell::Lstm ? "lstm" : "rnn") +
                       " " + std::to_string(policy.size());
  if (lines.front().rtrim() != header)
    return bad(1) << "this is not a policy of this strategy; its first line has to be '" << header
                  << "'";
  if (lines.size() != size_t(policy.size()) + 1)
    return bad(1) << "the policy has " << lines.size() - 1 << " weights, not " << policy.size();
  for (int i = 0; i < policy.size(); ++i) {
    double weight = 0;
    if (lines[i + 1].trim().getAsDouble(weight) || !std::isfinite(weight) || std::abs(weight) > 1e6)
      return bad(unsigned(i + 2)) << "'" << lines[i + 1].take_front(40).str()
                                  << "' is not a weight; weights lie within ±10^6";
    policy.theta[i] = weight;
  }
  return policy;
}

} // namespace heterplan
