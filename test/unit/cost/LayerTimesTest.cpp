#include "cost/LayerTimes.h"

#include "cost/ConstantCostModel.h"
#include "support/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heterplan;

namespace {
/// Counts its questions; fails for a layer called "unknown".
class Counting : public CostModel {
public:
  llvm::Expected<LayerCost> price(const Layer &layer, const DeviceType &,
                                  Samples samples) const override {
    ++asked;
    if (layer.name == "unknown")
      return Diagnostic(Diag::NoProfile, {}) << "no profile of '" << layer.name << "'";
    LayerCost cost;
    cost.forward = Seconds(double(samples.value()));
    return cost;
  }
  mutable int asked = 0;
};

class LayerTimesTest : public testing::Test {
protected:
  LayerTimesTest() {
    for (const char *name : {"a", "b"})
      graph.layers.emplace_back().name = name;
    cluster.types.emplace_back();
  }
  LayerTimesTable table() {
    return {graph, cluster, costs, [](int, int) { return true; }};
  }
  LayerGraph graph;
  Cluster cluster;
  Counting costs;
};

TEST_F(LayerTimesTest, SharedAnswersAreAskedForOnce) {
  LayerTimesTable first = table(), second = table();
  const LayerTimes &before = second.at(0, 2);
  EXPECT_EQ(costs.asked, 2);
  second.shareWith(first);
  EXPECT_EQ(second.at(0, 3).forward({0, 2}), Seconds(6));
  EXPECT_EQ(costs.asked, 4);
  EXPECT_EQ(first.at(0, 3).forward({0, 1}), Seconds(3));
  EXPECT_EQ(costs.asked, 4);
  EXPECT_EQ(before.forward({0, 2}), Seconds(4)) << "what was given before stays valid";
}

TEST_F(LayerTimesTest, SharedAnswersOutliveEitherTable) {
  LayerTimesTable first = table();
  {
    LayerTimesTable second = table();
    second.shareWith(first);
    second.at(0, 3);
  }
  EXPECT_EQ(first.at(0, 3).forward({0, 2}), Seconds(6));
  EXPECT_EQ(costs.asked, 2);
}

TEST_F(LayerTimesTest, AFailureIsTakenOnce) {
  graph.layers[1].name = "unknown";
  LayerTimesTable first = table(), second = table();
  second.shareWith(first);
  EXPECT_FALSE(second.at(0, 1).known({0, 2}));
  EXPECT_EQ(toText(first.takeError()).find("no profile of 'unknown'") == std::string::npos, false);
  EXPECT_FALSE(bool(second.takeError()));
}
} // namespace
