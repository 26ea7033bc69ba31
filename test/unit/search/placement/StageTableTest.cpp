// The table of all stages: what is exact, and what is a bound of it.
#include "search/placement/StageTable.h"
#include "cost/ConstantCostModel.h"
#include "search/exact/Labels.h"
#include "support/TwoLayers.h"

#include "gtest/gtest.h"

#include <limits>

using namespace heterplan;

namespace {
/// Layers a and b as in EvaluatorTest, on four boxes, under Adam: 200 bytes of parameters each.
struct StageTableTest : testing::Test {
  LayerGraph graph = test::twoLayers(Bytes(200), Bytes(10));
  Cluster cluster = test::boxes(4, Seconds(0.5));
  ConstantCostModel costs;
  Request request;

  StageTableTest() {
    costs.layer("a", {Seconds(1), Seconds(2), Seconds(4), Seconds(0)});
    costs.layer("b", {Seconds(2), Seconds(4), Seconds(4), Seconds(0)});
    for (Layer &layer : graph.layers)
      layer.activationBytes = Bytes(100);
    request.globalBatch = Samples(8);
    request.microBatches = 4;
    request.optimizer = Optimizer::Adam;
  }
  Problem problem() const {
    return llvm::cantFail(Problem::create(graph, cluster, costs, request));
  }
  static int optionOf(const Evaluator &evaluator, int count) {
    for (size_t i = 0; i < evaluator.space.options.size(); ++i)
      if (evaluator.space.options[i].group == DeviceGroup{{{0, count}}})
        return int(i);
    return -1;
  }
};
} // namespace

TEST_F(StageTableTest, whatFitsAnywayIsExact) {
  Problem problem = this->problem();
  Evaluator evaluator(problem);
  StageTable table(evaluator, 4);
  const StageTimes &first = table.at(0, 1, optionOf(evaluator, 1));
  EXPECT_FALSE(first.estimate);
  EXPECT_EQ(first.share, 2);
  EXPECT_DOUBLE_EQ(first.forward, 2);
  EXPECT_DOUBLE_EQ(first.backward, 4);
  EXPECT_DOUBLE_EQ(first.sync, 4);
  EXPECT_GE(first.mostInFlight, 4);
  EXPECT_FALSE(table.hasSeveralModes());
}

/// Four copies of 200 and two steps of an update; of two samples 110 and 10 that are sent, again
/// what is sent of another micro-batch, and messages: its activations do not fit beside it.
TEST_F(StageTableTest, depthForcesRecomputation) {
  cluster.types[0].memory = Bytes(6 * 200 + 2 * (110 + 10 + 10 + 10));
  graph.layers[0].activationBytes = Bytes(110);
  request.shardState = StateSharding::None;
  Problem problem = this->problem();
  Evaluator evaluator(problem);
  StageTable table(evaluator, 4);
  int one = optionOf(evaluator, 1);
  const StageTimes &first = table.at(0, 1, one);
  EXPECT_TRUE(first.mode.recomputes) << "one micro-batch fits, two do not";
  ASSERT_EQ(table.atDepth(0, 1, one, 2).size(), 1u);
  StageTimes second = table.atDepth(0, 1, one, 2).front();
  ASSERT_EQ(second.mostInFlight, 2);
  EXPECT_TRUE(second.mode.recomputes);
  EXPECT_DOUBLE_EQ(second.backward, 4 + 2) << "computed again";
  EXPECT_LE(first.forward + first.backward, second.forward + second.backward);
  StageTimes last = table.at(1, 2, one);
  EXPECT_FALSE(last.estimate) << "the last stage has one in flight";
  EXPECT_DOUBLE_EQ(last.backward, 8);
}

TEST_F(StageTableTest, estimatesAreBounds) {
  for (double memory = 500; memory < 3000; memory += 37)
    for (Optimizer optimizer : {Optimizer::Sgd, Optimizer::Adam}) {
      cluster.types[0].memory = Bytes(memory);
      request.optimizer = optimizer;
      Problem problem = this->problem();
      Evaluator evaluator(problem);
      StageTable table(evaluator, 4);
      for (int end : {1, 2})
        for (int begin = 0; begin < end; ++begin)
          for (int option = 0; option < int(evaluator.space.options.size()); ++option)
            for (int depth = end == 2 ? 1 : 2; depth <= (end == 2 ? 1 : 2); ++depth) {
              const StageTimes &entry = table.at(begin, end, option);
              for (const StageTimes &exact : table.atDepth(begin, end, option, depth)) {
                EXPECT_GE(entry.mostInFlight, std::min(exact.mostInFlight, depth));
                EXPECT_LE(entry.forward + entry.backward, exact.forward + exact.backward);
                EXPECT_LE(entry.forward + entry.backward + entry.sync,
                          exact.forward + exact.backward + exact.sync + 1e-12);
                EXPECT_LE(entry.leastForward, exact.forward);
              }
            }
    }
}

/// A cluster with more than 2^15 options: an index of 16 bits would begin anew.
TEST_F(StageTableTest, moreOptionsThanSixteenBitsCount) {
  request.microBatches = 1;
  request.globalBatch = Samples(4);
  Problem problem = this->problem();
  Evaluator evaluator(problem);
  PathTable paths(evaluator);
  Packings packings(problem.cluster, evaluator.space);
  LabelStore labels(evaluator, paths, packings);
  Label label{};
  label.option = 70'000;
  label.choice = 40'000;
  label.position = 33'000;
  std::vector<int> none(1, 0);
  int index = labels.add(label, none);
  EXPECT_EQ(labels[index].option, 70'000);
  EXPECT_EQ(labels[index].choice, 40'000);
  EXPECT_EQ(labels[index].position, 33'000);
}

/// If two labels meet at one cut, the one that is as good in everything dominates.
TEST_F(StageTableTest, dominance) {
  Problem problem = this->problem();
  Evaluator evaluator(problem);
  PathTable paths(evaluator);
  StageTable table(evaluator, 4);
  Packings packings(problem.cluster, evaluator.space);
  LabelStore labels(evaluator, paths, packings);
  labels.setChoice(0, table);
  Label label{};
  label.position = 1;
  label.end = 2;
  label.option = optionOf(evaluator, 1);
  label.depth = 1;
  label.parent = -1;
  label.fill = label.first = 10;
  label.share = Samples(2);
  std::vector<int> one{1}, two{2};
  EXPECT_TRUE(labels.insert(label, one, 0));
  EXPECT_FALSE(labels.insert(label, one, 0)) << "the same again";
  EXPECT_FALSE(labels.insert(label, two, 0)) << "with more devices";
  label.fill = label.first = 11;
  EXPECT_FALSE(labels.insert(label, one, 0)) << "slower";
  label.fill = label.first = 9;
  EXPECT_TRUE(labels.insert(label, two, 0)) << "faster with more devices";
  EXPECT_FALSE(labels[0].dominated);
  label.fill = label.first = 8;
  EXPECT_TRUE(labels.insert(label, one, 0)) << "better than both";
  EXPECT_TRUE(labels[0].dominated);
  EXPECT_TRUE(labels[1].dominated);
}
