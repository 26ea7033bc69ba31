#include "search/Orders.h"

#include "cost/ConstantCostModel.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace heterplan;

namespace {
/// Four branches of three layers between a stem and a head; eight devices in nodes of their own.
class Orders : public testing::Test {
protected:
  const ConstantCostModel costs = ConstantCostModel({Seconds(0.01), Seconds(0.02)});
  SearchOptions options;

  static constexpr int branches = 4, depth = 3;

  /// The layers level by level, or branch by branch.
  static LayerGraph graph(bool byLevel) {
    LayerGraph result;
    result.model = "towers";
    const int head = branches * depth + 1;
    for (int i = 0; i <= head; ++i) {
      Layer layer;
      layer.name = layer.signature = "l" + std::to_string(i);
      layer.parameterBytes = Bytes(1e6);
      result.layers.push_back(layer);
    }
    const auto at = [&](int branch, int level) {
      return 1 + (byLevel ? level * branches + branch : branch * depth + level);
    };
    std::vector<int> first;
    for (int branch = 0; branch < branches; ++branch) {
      first.push_back(at(branch, 0));
      for (int level = 0; level < depth; ++level)
        flow(result, at(branch, level), {level + 1 < depth ? at(branch, level + 1) : head},
             level + 1 < depth ? 1e6 : 1e4);
    }
    flow(result, 0, first, 1e6);
    return result;
  }

  static void flow(LayerGraph &graph, int producer, std::vector<int> consumers, double bytes) {
    LayerTensor tensor;
    tensor.name = "t" + std::to_string(producer);
    tensor.producer = producer;
    tensor.consumers = std::move(consumers);
    tensor.bytesPerSample = Bytes(bytes);
    graph.tensors.push_back(std::move(tensor));
  }

  Problem problem(bool byLevel, Request request = {}) const {
    Cluster cluster;
    cluster.name = "boxes";
    DeviceType &type = cluster.types.emplace_back();
    type.name = "box";
    type.memory = Bytes(1e12);
    type.price = DollarsPerHour(1);
    NodeGroup &group = cluster.nodes.emplace_back();
    group.name = "node";
    group.count = 4;
    group.devices["box"] = 1;
    group.link = {"", BytesPerSecond(1e9), Seconds(0), ""};
    cluster.network = {"", BytesPerSecond(2e8), Seconds(1e-5), ""};
    request.globalBatch = Samples(32);
    if (request.separations.empty())
      request.separations = {{"l0", "l13"}};
    auto made = Problem::create(graph(byLevel), cluster, costs, request);
    EXPECT_TRUE(bool(made)) << toText(made.takeError());
    return std::move(*made);
  }

  double valueOf(const Problem &problem) const {
    auto outcome = search(problem, "auto", options);
    EXPECT_TRUE(outcome && outcome->plan);
    return outcome->plan->objectiveValue;
  }
};
} // namespace

TEST_F(Orders, FindsThePlanOfTheBetterOrder) {
  const double byLevel = valueOf(problem(true)), byBranch = valueOf(problem(false));
  ASSERT_GT(byBranch, 1.02 * byLevel);
  auto best = searchOrders(problem(true), "auto", options);
  ASSERT_TRUE(best && best->outcome.plan && best->layers);
  const Plan &plan = *best->outcome.plan;
  EXPECT_NEAR(plan.objectiveValue, byBranch, 1e-9 * byBranch);
  EXPECT_EQ(plan.layerOrder, LayerOrder::Narrow);
  EXPECT_EQ(best->layers->order, LayerOrder::Narrow);
  EXPECT_GE(plan.lowerBound, plan.objectiveValue) << "a bound of its own order";
  auto again = inOrderOf(plan, graph(true));
  ASSERT_TRUE(bool(again)) << toText(again.takeError());
  EXPECT_EQ(*again, *best->layers);
}

TEST_F(Orders, KeepsAnOrderThatIsNarrow) {
  auto best = searchOrders(problem(false), "auto", options);
  ASSERT_TRUE(best && best->outcome.plan);
  EXPECT_FALSE(best->layers);
  EXPECT_EQ(*best->outcome.plan, *search(problem(false), "auto", options)->plan);
}

TEST_F(Orders, KeepTheGivenOneWhereBranchesLieSideBySide) {
  Request request;
  request.schedule = ScheduleChoice::Burst;
  request.iterationModel = IterationModel::Burst;
  EXPECT_FALSE(mayReorder(problem(true, request)));
  request = {};
  request.schedule = ScheduleChoice::DataParallel;
  EXPECT_FALSE(mayReorder(problem(true, request)));
  EXPECT_TRUE(mayReorder(problem(true)));
}

TEST_F(Orders, SayThatThereIsNoPlan) {
  Request request;
  request.minThroughput = SamplesPerSecond(1e6);
  auto best = searchOrders(problem(true, request), "auto", options);
  ASSERT_TRUE(bool(best));
  EXPECT_FALSE(best->outcome.plan);
  EXPECT_EQ(best->outcome.termination, Termination::Infeasible);
  EXPECT_FALSE(best->layers);
}
