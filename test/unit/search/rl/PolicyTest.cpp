// The policy networks: their gradients against finite differences, their file form.
#include "search/rl/Policy.h"

#include "support/Diagnostic.h"

#include "gtest/gtest.h"

#include <random>

using namespace heterplan;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
/// A problem of four blocks and three types, and a rollout of two steps, with random features.
class Example {
public:
  Example() : random(7) {
    problem = {matrix(ProblemFeatures::block, 4), matrix(ProblemFeatures::type, 3)};
    steps.push_back(
        {0, -1, state(), types({true, false, true}, 2), ends({true, true, false, true}, 1)});
    steps.push_back({2, 2, state(), types({true, true, false}, 0), ends({false, true}, 1)});
  }

  ProblemFeatures problem;
  std::vector<Step> steps;

private:
  double real() { return double(random() >> 11) * 0x1p-52 - 1; }
  MatrixXd matrix(int rows, int columns) {
    return MatrixXd::NullaryExpr(rows, columns, [&] { return real(); });
  }
  VectorXd state() { return matrix(RunEnvironment::stateFeatures, 1).col(0); }
  ActionPart types(std::vector<bool> allowed, int taken) {
    return {{matrix(RunEnvironment::typeFeatures, int(allowed.size())), allowed}, taken};
  }
  ActionPart ends(std::vector<bool> allowed, int taken) {
    return {{matrix(RunEnvironment::endFeatures, int(allowed.size())), allowed}, taken};
  }
  std::mt19937_64 random;
};

class EveryPolicy : public testing::TestWithParam<PolicyKind> {};
} // namespace

TEST_P(EveryPolicy, gradientsAreThoseOfFiniteDifferences) {
  constexpr double advantage = 0.7, entropyWeight = 0.3, step = 1e-6;
  Example example;
  Policy policy(GetParam(), 3);
  auto recorded = [&] {
    PolicyRun run(policy, example.problem);
    run.beginRollout();
    run.record(example.steps, advantage, entropyWeight);
    run.record({example.steps.front()}, -advantage, entropyWeight);
    return run.recorded();
  };
  VectorXd gradient = VectorXd::Zero(policy.size());
  {
    PolicyRun run(policy, example.problem);
    run.beginRollout();
    run.record(example.steps, advantage, entropyWeight);
    run.record({example.steps.front()}, -advantage, entropyWeight);
    run.addGradient(gradient);
  }
  double largest = 0;
  for (int i = 0; i<policy.size(); i += policy.size()> 4000 ? 7 : 1) {
    double kept = policy.parameters()[i];
    policy.parameters()[i] = kept + step;
    double above = recorded();
    policy.parameters()[i] = kept - step;
    double below = recorded();
    policy.parameters()[i] = kept;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * step), 1e-6) << "weight " << i;
    largest = std::max(largest, std::abs(gradient[i]));
  }
  EXPECT_GT(largest, 0.05);
}

TEST_P(EveryPolicy, preferAlternativesThatCostLess) {
  Example example;
  Policy policy(GetParam(), 5);
  ActionPart &type = example.steps.front().type;
  type.alternatives.features.setZero();
  type.alternatives.features(0, 0) = 1; // its regret
  auto value = [&](int taken) {
    type.taken = taken;
    PolicyRun run(policy, example.problem);
    run.beginRollout();
    run.record({example.steps.front()}, 1, 0);
    return run.recorded();
  };
  EXPECT_GT(value(2), value(0) + 1);
}

TEST_P(EveryPolicy, comesBackFromItsText) {
  std::string text = Policy(GetParam(), 11).text();
  auto back = Policy::parse(text, "p", GetParam());
  ASSERT_TRUE(bool(back)) << toText(back.takeError());
  EXPECT_EQ(back->text(), text);
}

TEST_P(EveryPolicy, refusesForeignAndDamagedFiles) {
  PolicyKind other = GetParam() == PolicyKind::Lstm ? PolicyKind::Rnn : PolicyKind::Lstm;
  std::string text = Policy(GetParam(), 1).text();
  size_t body = text.find('\n') + 1;
  std::string changed = text, older = text;
  changed[body + 3] = changed[body + 3] == '1' ? '2' : '1';
  older.replace(older.find(' ') + 1, 1, "1");
  for (const auto &[bad, says] :
       {std::pair(std::string(), "not a policy"), std::pair(std::string("x"), "not a policy"),
        std::pair(older, "version '1'"), std::pair(Policy(other, 1).text(), "of kind"),
        std::pair(text.substr(0, text.size() / 2), "damaged"), std::pair(text + "1\n", "damaged"),
        std::pair(changed, "damaged")}) {
    auto policy = Policy::parse(bad, "p.policy", GetParam());
    ASSERT_FALSE(bool(policy));
    std::string message = toText(policy.takeError());
    EXPECT_NE(message.find("p.policy:1:1"), std::string::npos) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryPolicy,
                         testing::Values(PolicyKind::Lstm, PolicyKind::Rnn,
                                         PolicyKind::Transformer),
                         [](const auto &info) { return nameOf(info.param).str(); });
