// Scheduling by reinforcement learning (HeterPS, section 5): a policy samples assignments,
// REINFORCE with a moving-average baseline and an entropy bonus makes the cheap ones more probable.
#include "search/provision/AssignmentSearch.h"
#include "search/rl/Policy.h"
#include "support/Files.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int batchSize = 16; // rollouts of a round
constexpr int patience = 50;  // rounds without a better plan, and as many as were needed for it
constexpr int starts = 4;
constexpr double learningRate = 0.02, entropyStart = 0.05, entropyEnd = 0.002;
constexpr double baselineDecay = 0.8, worstReward = -3;

/// Features that mean the same on every problem: logarithms and shares, about between −1 and 1.
class AssignmentInput : public PolicyInput {
public:
  AssignmentInput(Evaluator &evaluator, const AssignmentSpace &assignments)
      : assignments(assignments), prices(evaluator.problem.cluster.types.size()) {
    const std::vector<int> &at = evaluator.space.positions;
    for (int block = 0; block < assignments.blocks; ++block)
      addBlock(evaluator, at[block], at[block + 1]);
    scale(evaluator);
  }

  int blocks() const override { return assignments.blocks; }
  int actions() const override { return assignments.actions; }
  int choices() const override { return assignments.choices; }
  bool allowed(int block, int action) const override { return assignments.allowed(block, action); }
  Eigen::VectorXd block(int block) const override { return blockFacts[block]; }

  Eigen::MatrixXd actionsAt(int block, int before) const override {
    Eigen::MatrixXd result(actionFeatures, assignments.actions);
    int last = before < 0 ? -1 : assignments.typeOf(before);
    for (int action = 0; action < assignments.actions; ++action) {
      int type = assignments.typeOf(action);
      const Facts &facts = typeFacts[size_t(block) * assignments.types + type];
      result.col(action) << facts.time, facts.money, facts.transfer, facts.memory, prices[type],
          type == last ? 1.0 : 0.0, assignments.cuts(action) ? 1.0 : 0.0, last < 0 ? 1.0 : 0.0;
    }
    return result;
  }

private:
  struct Facts {
    double time, money, transfer, memory;
  };

  /// Logarithm with a floor, so that nothing is infinite.
  static double magnitude(double value) { return std::log10(std::max(value, 1e-12)); }

  void addBlock(Evaluator &evaluator, int begin, int end) {
    const Problem &problem = evaluator.problem;
    Flops flops{};
    for (int layer = begin; layer < end; ++layer)
      flops += problem.graph.layers[layer].forwardFlops + problem.graph.layers[layer].backwardFlops;
    const Cut &cut = evaluator.cuts[begin];
    Eigen::VectorXd facts(blockFeatures);
    facts << double(begin) / problem.graph.size(), magnitude(flops.value()) / 12,
        magnitude(evaluator.stages.costs.memory.parameters({begin, end}).value()) / 12,
        magnitude(cut.forwardBytes.value()) / 12, double(end - begin) / problem.graph.size(), 1;
    blockFacts.push_back(facts);
    for (int type = 0; type < assignments.types; ++type)
      typeFacts.push_back(factsOf(evaluator, begin, end, type));
  }

  Facts factsOf(Evaluator &evaluator, int begin, int end, int type) const {
    const DeviceType &device = evaluator.problem.cluster.types[type];
    double time = 0;
    StageCosts &costs = evaluator.stages.costs;
    if (const HeterPsModel *fit = costs.fit(); fit && evaluator.space.available[type])
      time = fit->stageTime(begin, end, type, 1);
    else if (!fit)
      time = costs.computing({begin, end}, {}, type, 1, 1).value();
    double parameters = costs.memory.parameters({begin, end}).value();
    return {magnitude(time), magnitude(time * device.price.value()),
            magnitude(evaluator.cuts[begin].forwardBytes.value()) / 12,
            std::min(2.0, parameters / std::max(1.0, device.memory.value()))};
  }

  /// Times and money against the mean of all types at the block; prices against the dearest.
  void scale(const Evaluator &evaluator) {
    double dearest = 1e-12;
    for (const DeviceType &type : evaluator.problem.cluster.types)
      dearest = std::max(dearest, type.price.value());
    for (size_t type = 0; type < prices.size(); ++type)
      prices[type] = evaluator.problem.cluster.types[type].price.value() / dearest;
    for (int block = 0; block < assignments.blocks; ++block) {
      Facts *of = &typeFacts[size_t(block) * assignments.types];
      double time = 0, money = 0;
      for (int type = 0; type < assignments.types; ++type) {
        time += of[type].time / assignments.types;
        money += of[type].money / assignments.types;
      }
      for (int type = 0; type < assignments.types; ++type) {
        of[type].time -= time;
        of[type].money -= money;
      }
    }
  }

  const AssignmentSpace &assignments;
  std::vector<double> prices;
  std::vector<Eigen::VectorXd> blockFacts;
  std::vector<Facts> typeFacts; // by block and type
};

/// Kingma and Ba, Adam (ICLR 2015), uphill.
class Ascent {
public:
  explicit Ascent(int size) : first(Eigen::VectorXd::Zero(size)), second(first) {}
  void step(const Eigen::VectorXd &gradient, Eigen::VectorXd &parameters) {
    ++steps;
    first = 0.9 * first + 0.1 * gradient;
    second = 0.999 * second + 0.001 * gradient.cwiseProduct(gradient);
    double firstScale = 1 - std::pow(0.9, steps), secondScale = 1 - std::pow(0.999, steps);
    parameters.array() += learningRate * (first.array() / firstScale) /
                          ((second.array() / secondScale).sqrt() + 1e-8);
  }

private:
  Eigen::VectorXd first, second;
  int steps = 0;
};

class Trainer {
public:
  Trainer(Evaluator &evaluator, const SearchOptions &options, double workShare, Policy policy)
      : options(options), search(evaluator, options, workShare),
        input(evaluator, search.assignments), policy(std::move(policy)), best(this->policy),
        ascent(this->policy.size()) {}

  /// Trains a policy, and others from scratch once it has settled, then descends from the best.
  Solution run(const std::optional<Placement> &incumbent) {
    constexpr double training = 0.9; // of the work
    search.consider(incumbent);
    auto spent = [&] { return search.meter.progress() > training || search.meter.interrupted(); };
    for (int start = 0; start < starts && !spent(); ++start) {
      if (start > 0)
        restart(start);
      double found = search.bestScore();
      for (int round = 0, lately = 0; !spent() && round - lately < patience + lately; ++round) {
        double before = search.bestScore();
        trainOnce();
        if (search.bestScore() < before)
          lately = round;
        if (options.progress)
          options.progress(search.meter.progress(), search.bestScore());
      }
      Rollout likely = policy.sample(input, nullptr);
      search.score({likely.actions, likely.choice});
      if (start == 0 || search.bestScore() < found)
        best = policy;
    }
    search.descend();
    return search.solution();
  }

  /// The policy of the start that found the best plan.
  const Policy &trained() const { return best; }

private:
  /// The logarithm of the objective against the best assignment of one type.
  double reward(const Rollout &rollout) {
    double score = search.score({rollout.actions, rollout.choice});
    if (!std::isfinite(reference))
      reference = score;
    return std::isfinite(score) ? std::max(worstReward, -std::log(score / reference)) : worstReward;
  }

  void restart(int start) {
    policy = Policy(policy.kind(), options.seed + 0x9e3779b97f4a7c15u * uint64_t(start));
    ascent = Ascent(policy.size());
    started = false;
  }

  void trainOnce() {
    std::vector<Rollout> rollouts;
    std::vector<double> rewards;
    auto uniform = [&] { return drawReal(search.random); };
    for (int i = 0; i < batchSize; ++i) {
      rollouts.push_back(policy.sample(input, uniform));
      rewards.push_back(reward(rollouts.back()));
      search.meter.add(int64_t(input.blocks()) * (8 + input.actions()));
    }
    double mean = 0, square = 0;
    for (double reward : rewards) {
      mean += reward / batchSize;
      square += reward * reward / batchSize;
    }
    baseline = started ? baselineDecay * baseline + (1 - baselineDecay) * mean : mean;
    started = true;
    double spread = std::sqrt(std::max(square - mean * mean, 1e-6));
    double entropy = entropyStart + (entropyEnd - entropyStart) * search.meter.progress();
    Eigen::VectorXd gradient = Eigen::VectorXd::Zero(policy.size());
    for (int i = 0; i < batchSize; ++i)
      policy.addGradient(input, rollouts[i], (rewards[i] - baseline) / spread / batchSize,
                         entropy / batchSize, gradient);
    if (double norm = gradient.norm(); norm > 1)
      gradient /= norm;
    ascent.step(gradient, policy.parameters());
  }

  const SearchOptions &options;
  AssignmentSearch search;
  AssignmentInput input;
  Policy policy, best;
  Ascent ascent;
  double baseline = 0, reference = search.bestScore();
  bool started = false;
};

Expected<Solution> reinforce(Evaluator &evaluator, const SearchOptions &options, Cell cell) {
  constexpr double workShare = 0.4; // it ends by itself where the policy settles
  Policy policy(cell, options.seed);
  if (!options.policyIn.empty()) {
    auto text = readFile(options.policyIn, 16 << 20);
    if (!text)
      return text.takeError();
    Expected<Policy> read = Policy::parse(*text, options.policyIn, cell);
    if (!read)
      return read.takeError();
    policy = std::move(*read);
  }
  Trainer trainer(evaluator, options, workShare, std::move(policy));
  Solution solution = trainer.run(std::nullopt);
  if (!options.policyOut.empty())
    if (Error error = writeFile(options.policyOut, trainer.trained().text()))
      return error;
  return solution;
}
} // namespace

Solution learn(Evaluator &evaluator, const SearchOptions &options, double workShare,
               const std::optional<Placement> &incumbent) {
  Trainer trainer(evaluator, options, workShare, Policy(Cell::Lstm, options.seed));
  return trainer.run(incumbent);
}

Expected<Solution> RlLstm::run(Evaluator &evaluator, const SearchOptions &options) {
  return reinforce(evaluator, options, Cell::Lstm);
}

Expected<Solution> RlRnn::run(Evaluator &evaluator, const SearchOptions &options) {
  return reinforce(evaluator, options, Cell::Rnn);
}

} // namespace heterplan
