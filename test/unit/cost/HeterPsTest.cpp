// The cost model of HeterPS, by hand.
#include "cost/HeterPs.h"

#include "support/TwoLayers.h"

#include "gtest/gtest.h"

using namespace heterplan;

TEST(AmdahlFit, isExactWhereTheLawHolds) {
  AmdahlFit fit = fitAmdahl({{1, 5.0}, {2, 3.0}, {4, 2.0}}); // 1 + 4/k
  EXPECT_NEAR(fit.original(), 5, 1e-9);
  EXPECT_NEAR(fit.fraction(), 0.8, 1e-9);
  EXPECT_NEAR(fit.at(8), 1.5, 1e-9);
  EXPECT_NEAR(fit.residual, 0, 1e-9);
}

TEST(AmdahlFit, isNeverNegativeAndSaysHowFarOffItIs) {
  AmdahlFit better = fitAmdahl({{1, 4.0}, {2, 1.0}}); // better than linear
  EXPECT_EQ(better.serial, 0);
  EXPECT_GT(better.residual, 0.1);
  AmdahlFit worse = fitAmdahl({{1, 1.0}, {2, 3.0}});
  EXPECT_EQ(worse.parallel, 0);
  EXPECT_EQ(fitAmdahl({}).original(), 0);
  AmdahlFit single = fitAmdahl({{1, 3.0}});
  EXPECT_NEAR(single.original(), 3, 1e-9);
}

namespace {
/// Two layers on one type of four devices in four nodes; 1 s + 2 s a sample and layer, 80 bytes a
/// sample between them, 100 bytes of parameters each, 100 B/s.
struct Chain {
  LayerGraph graph = test::twoLayers(Bytes(100), Bytes(80));
  Cluster cluster = test::boxes(4, Seconds(0));

  HeterPsModel model() const {
    return HeterPsModel(graph, cluster, Samples(4), 2, [](int, int, Samples samples) {
      return LayerCost{Seconds(double(samples.value())), Seconds(2.0 * samples.value())};
    });
  }
};
} // namespace

TEST(HeterPs, aStageTakesTheLongerOfComputingAndCommunicating) {
  HeterPsModel model = Chain().model();
  // 4 samples: OCT 12 s a layer, all parallel. Both layers on one unit: 24 s.
  EXPECT_NEAR(model.stageTime(0, 2, 0, 1), 24, 1e-9);
  EXPECT_NEAR(model.stageTime(0, 2, 0, 4), 6, 1e-9);
  EXPECT_NEAR(model.layer(0, 0).compute.fraction(), 1, 1e-9);
  // Parameters: 200 bytes pushed and pulled over 100 B/s, once in two micro-batches, by each unit.
  EXPECT_NEAR(model.layer(0, 0).transfer.original(), 1, 1e-9);
  EXPECT_NEAR(model.layer(0, 0).transfer.fraction(), 0, 1e-9);
  // Layer a alone on four units: 3 s of computing, 1 s + 80·4/100/4 s of communicating.
  EXPECT_NEAR(model.stageTime(0, 1, 0, 4), 3, 1e-9);
  EXPECT_NEAR(model.forwardShare(0, 2, 0), 1.0 / 3, 1e-9);
  EXPECT_LT(model.computeResiduals(0).worst, 1e-9);
}

TEST(HeterPs, ComputingContainsAllReducesWithinBothPasses) {
  Chain chain;
  chain.cluster = test::boxes(4, Seconds(0.5));
  chain.graph.layers[0].inPassAllReduces = 3;
  chain.graph.layers[0].inPassAllReduceBytes = Bytes(400);
  HeterPsModel with = chain.model();
  // One unit sums nothing. In each pass a ring of k units takes 3·2(k−1)·0.5 + 2(k−1)/k·400/100 s,
  // so that 1, 2 and 4 units take 12, 20 and 33 s. Amdahl's law does not grow with k: all is
  // serial.
  double weight = 1 / (12.0 * 12) + 1 / (20.0 * 20) + 1 / (33.0 * 33);
  double serial = (1 / 12.0 + 1 / 20.0 + 1 / 33.0) / weight;
  EXPECT_EQ(with.layer(0, 0).compute.parallel, 0);
  EXPECT_NEAR(with.layer(0, 0).compute.serial, serial, 1e-9);
  EXPECT_NEAR(with.layer(1, 0).compute.at(4), 3, 1e-9);
}

TEST(HeterPs, rowsOfTablesArePulledAndPushedWithEveryMicroBatch) {
  Chain chain;
  chain.graph.layers[0].tables = {{"t", 5, 5, DataType::Float32, 2}}; // all its 100 bytes
  HeterPsModel model = chain.model();
  // 4 samples look up 2 rows of 20 bytes, there and back, over 100 B/s; units share the samples.
  EXPECT_NEAR(model.layer(0, 0).transfer.original(), 2 * 4 * 40 / 100.0, 1e-9);
  EXPECT_NEAR(model.layer(0, 0).transfer.fraction(), 1, 1e-9);
}

TEST(HeterPs, unitsForInvertsTheLaw) {
  HeterPsModel model = Chain().model();
  EXPECT_EQ(model.unitsFor(0, 2, 0, 24), 1);
  EXPECT_EQ(model.unitsFor(0, 2, 0, 12), 2);
  EXPECT_EQ(model.unitsFor(0, 2, 0, 11.9), 3);
  EXPECT_EQ(model.unitsFor(0, 2, 0, 1.9), 0); // the parameters alone take 2 s
}
