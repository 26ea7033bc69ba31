// The measurements of a layer: passes, updates, and operators without a kernel.
#include "Harness.h"

#include "cost/kernels/Bench.h"

using namespace heterplan;
using namespace heterplan::kernels;

namespace {
TEST_F(KernelTest, WhatHasNoKernelSaysSo) {
  auto reason = [&](const Case &test) {
    Graph graph = graphOf(test);
    std::string why;
    EXPECT_FALSE(engine().make(callOf(graph, graph.nodes[0], 1), why));
    return why;
  };
  EXPECT_EQ(reason({"Einsum", {{2}}, {2}, {}, {}, {}}), "there is no kernel for Einsum");
  EXPECT_EQ(reason({"Gemm", {{2, 2}, {2, 2}}, {2, 2}, {}, {{"alpha", 2.0}}, {}}),
            "there is no kernel for these settings of Gemm");
  EXPECT_EQ(reason({"Pow", {{2}, {2}}, {2}, {}, {}, {}}),
            "there is no kernel for these settings of Pow");
}

TEST_F(KernelTest, UpdatesFollowTheirFormulas) {
  double rate = Update::rate, g = Update::gradient;
  auto after = [&](Optimizer optimizer, int steps) {
    std::unique_ptr<Update> update = engine().makeUpdate(optimizer, 3);
    for (int step = 0; step < steps; ++step)
      update->run();
    std::vector<float> values = update->values();
    EXPECT_EQ(values, std::vector<float>(3, values.at(0)));
    return double(values.at(0));
  };
  EXPECT_NEAR(after(Optimizer::Sgd, 1), 1 - rate * g, 1e-6);
  EXPECT_NEAR(after(Optimizer::Momentum, 2), 1 - rate * g - rate * 1.9 * g, 1e-6);
  EXPECT_NEAR(after(Optimizer::Adam, 1), 1 - rate, 1e-6); // the first step is one of the rate
  EXPECT_NEAR(after(Optimizer::Adam, 3), 1 - 3 * rate, 1e-6);
}

TEST_F(KernelTest, ALayerIsTheSumOfItsOperatorsOrNothing) {
  Graph graph = graphOf({"Relu", {{64, 64}}, {64, 64}, {}, {}, {}});
  Layer layer;
  layer.name = "l";
  layer.signature = "s";
  layer.nodes = {"node"};
  Effort effort;
  effort.least = effort.most = 5;
  auto visit = measure(engine(), graph, layer, Samples(2), Optimizer::Sgd, Bytes(1e6), effort);
  ASSERT_TRUE(bool(visit));
  EXPECT_EQ(visit->repetitions, 5);
  EXPECT_GT(visit->forward, Seconds(0));
  EXPECT_GT(visit->backward, Seconds(0));
  EXPECT_EQ(visit->update, Seconds(0)); // it has no parameters
  graph.nodes[0].op = "Einsum";
  EXPECT_EQ(whyNot(engine(), graph, layer), "there is no kernel for Einsum");
  auto refused = measure(engine(), graph, layer, Samples(2), Optimizer::Sgd, Bytes(1e6), effort);
  ASSERT_FALSE(bool(refused));
  EXPECT_NE(toText(refused.takeError()).find("[HP1401] layer 'l': there is no kernel for Einsum"),
            std::string::npos);
}
} // namespace
