// The policy network: its gradients against finite differences, its file form.
#include "search/rl/Policy.h"

#include "support/Diagnostic.h"

#include "gtest/gtest.h"

#include <random>

using namespace heterplan;

namespace {
/// Random features; the middle block must not have action 0.
class Features : public PolicyInput {
public:
  Features() : random(7) {
    for (int block = 0; block < blocks(); ++block) {
      blockFacts.push_back(Eigen::VectorXd::NullaryExpr(blockFeatures, [&] { return real(); }));
      for (int before = -1; before < actions(); ++before)
        actionFacts.push_back(
            Eigen::MatrixXd::NullaryExpr(actionFeatures, actions(), [&] { return real(); }));
    }
  }
  int blocks() const override { return 4; }
  int actions() const override { return 3; }
  int choices() const override { return 2; }
  Eigen::VectorXd block(int block) const override { return blockFacts[block]; }
  Eigen::MatrixXd actionsAt(int block, int before) const override {
    return actionFacts[block * (actions() + 1) + before + 1];
  }
  bool allowed(int block, int action) const override { return block != 2 || action != 0; }

private:
  double real() { return double(random() >> 11) * 0x1p-52 - 1; }
  std::mt19937_64 random;
  std::vector<Eigen::VectorXd> blockFacts;
  std::vector<Eigen::MatrixXd> actionFacts;
};

class EveryCell : public testing::TestWithParam<Cell> {};
} // namespace

TEST_P(EveryCell, gradientsAreThoseOfFiniteDifferences) {
  constexpr double advantage = 0.7, entropyWeight = 0.3, step = 1e-6;
  Features input;
  Policy policy(GetParam(), 3);
  Rollout rollout{1, {2, 0, 1, 1}};
  Eigen::VectorXd gradient = Eigen::VectorXd::Zero(policy.size());
  policy.addGradient(input, rollout, advantage, entropyWeight, gradient);
  auto value = [&] {
    Policy::Likelihood likelihood = policy.likelihood(input, rollout);
    return advantage * likelihood.logProbability + entropyWeight * likelihood.entropy;
  };
  double largest = 0;
  for (int i = 0; i < policy.size(); ++i) {
    double kept = policy.parameters()[i];
    policy.parameters()[i] = kept + step;
    double above = value();
    policy.parameters()[i] = kept - step;
    double below = value();
    policy.parameters()[i] = kept;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * step), 1e-7) << "weight " << i;
    largest = std::max(largest, std::abs(gradient[i]));
  }
  EXPECT_GT(largest, 0.05);
}

TEST_P(EveryCell, neverSamplesWhatIsForbidden) {
  Features input;
  Policy policy(GetParam(), 5);
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    Rollout rollout = policy.sample(input, [&] { return double(random() >> 11) * 0x1p-53; });
    ASSERT_EQ(rollout.actions.size(), 4u);
    EXPECT_NE(rollout.actions[2], 0);
  }
}

TEST_P(EveryCell, comesBackFromItsText) {
  Policy policy(GetParam(), 11);
  auto back = Policy::parse(policy.text(), "p", GetParam());
  ASSERT_TRUE(bool(back)) << toText(back.takeError());
  EXPECT_EQ(back->parameters(), policy.parameters());
}

TEST_P(EveryCell, refusesOtherTexts) {
  Cell other = GetParam() == Cell::Lstm ? Cell::Rnn : Cell::Lstm;
  std::string text = Policy(GetParam(), 1).text();
  for (std::string bad : {std::string(), std::string("x"), Policy(other, 1).text(),
                          text.substr(0, text.size() / 2), text + "1\n",
                          text.substr(0, text.find('\n') + 1) + "nan" +
                              text.substr(text.find('\n', text.find('\n') + 1))}) {
    auto policy = Policy::parse(bad, "p.policy", GetParam());
    ASSERT_FALSE(bool(policy));
    EXPECT_NE(toText(policy.takeError()).find("p.policy"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, EveryCell, testing::Values(Cell::Lstm, Cell::Rnn),
                         [](const auto &info) {
                           return info.param == Cell::Lstm ? "lstm" : "rnn";
                         });
