// A plan that is right in every figure, made by hand: four layers in two stages, two fast devices
// before two slow ones with uneven shares.
#pragma once

#include "cost/Collectives.h"
#include "cost/ConstantCostModel.h"
#include "search/verify/Checker.h"

#include <gtest/gtest.h>

namespace heterplan {

struct CheckerFixture : ::testing::Test {
  LayerGraph graph;
  Cluster cluster;
  ConstantCostModel costs;
  Plan plan;

  CheckerFixture() {
    makeGraph();
    makeCluster();
    makePlan();
  }

  void makeGraph() {
    graph.model = "four";
    graph.fingerprint = "f00d";
    for (const char *name : {"a", "b", "c", "d"}) {
      Layer layer;
      layer.name = layer.signature = name;
      layer.parameterBytes = Bytes(1000);
      layer.activationBytes = Bytes(10);
      layer.workspaceBytes = Bytes(4);
      layer.parameters = {std::string(name) + ".weight"};
      graph.layers.push_back(layer);
    }
    for (int i = 0; i < 3; ++i) {
      LayerTensor tensor;
      tensor.name = "t" + std::to_string(i);
      tensor.producer = i;
      tensor.consumers = {i + 1};
      tensor.bytesPerSample = Bytes(100);
      graph.tensors.push_back(tensor);
    }
    ConstantCostModel::Times times{Seconds(1e-3), Seconds(2e-3), Seconds(4e-3), Seconds(0)};
    costs = ConstantCostModel(times);
    costs.speed("fast", 2);
  }

  void makeCluster() {
    cluster.name = "mixed";
    cluster.fingerprint = "c1a5";
    cluster.types.resize(2);
    cluster.types[0].name = "fast";
    cluster.types[0].memory = Bytes(7000);
    cluster.types[0].price = DollarsPerHour(3);
    cluster.types[1].name = "slow";
    cluster.types[1].memory = Bytes(9000);
    cluster.types[1].price = DollarsPerHour(1);
    Link link{"wire", BytesPerSecond(1e6), Seconds(1e-4), "test"};
    cluster.network = link;
    cluster.nodes.push_back({"gpu", 2, {{"fast", 2}}, "", link, "", {}});
    cluster.nodes.push_back({"cpu", 1, {{"slow", 3}}, "", link, "", {}});
  }

  static Replica replica(int64_t share, double forward, double backward, DeviceRef device) {
    return {Samples(share), Seconds(forward), Seconds(backward), {std::move(device)}};
  }

  void makePlan() {
    plan.model = "four";
    plan.modelFingerprint = "f00d";
    plan.cluster = "mixed";
    plan.clusterFingerprint = "c1a5";
    plan.globalBatch = Samples(8);
    plan.microBatches = 2;
    plan.schedule = Schedule::OneForwardOneBackward;
    plan.minThroughput = SamplesPerSecond(100);
    plan.maxCostPerHour = DollarsPerHour(10);
    plan.pins = {{"a", "fast"}};
    Stage first, second;
    first.id = 0;
    first.layers = {"a", "b"};
    first.replicas = {replica(4, 2e-3, 4e-3, {"fast", "gpu-0", 0}),
                      replica(4, 2e-3, 4e-3, {"fast", "gpu-0", 1})};
    // copies and a gradient under way, two in flight of two samples, a message
    first.memory = Bytes(2 * 2000 + 1000 + 2 * 2 * (20 + 100) + 2 * 100 + 2 * 4);
    second.id = 1;
    second.layers = {"c", "d"};
    second.replicas = {replica(6, 6e-3, 12e-3, {"slow", "cpu", 0}),
                       replica(2, 2e-3, 4e-3, {"slow", "cpu", 1})};
    second.memory = Bytes(2 * 2000 + 1000 + 3 * 120 + 3 * 100 + 3 * 4);
    plan.stages = {first, second};
    fillTimes();
  }

  void fillTimes() {
    Stage &first = plan.stages[0], &second = plan.stages[1];
    DeviceGroup fast{{{0, 2}}}, slow{{{1, 2}}};
    first.parameterBytes = second.parameterBytes = Bytes(2000);
    first.update = Seconds(4e-3);
    second.update = Seconds(8e-3);
    first.sync = first.update + allReduceTime(cluster, fast, Bytes(2000));
    second.sync = second.update + allReduceTime(cluster, slow, Bytes(2000));
    second.receive =
        transferTime(cluster, fast, Samples(2), slow, Samples(3), Bytes(100), Bytes(0));
    first.receiveGradient =
        transferTime(cluster, slow, Samples(3), fast, Samples(2), Bytes(100), Bytes(0));
    first.forward = Seconds(2e-3);
    first.backward = Seconds(4e-3) + first.receiveGradient;
    second.forward = Seconds(6e-3) + second.receive;
    second.backward = Seconds(12e-3);
    fillTotals();
  }

  void fillTotals() {
    const std::vector<Stage> timed =
        plan.overlapsTransfers ? withTransfersApart(plan.stages) : plan.stages;
    plan.iteration = iterationTime(timed, plan.microBatches, plan.schedule);
    plan.expected = expectedTime(timed, plan.microBatches);
    plan.throughput = plan.globalBatch / plan.iteration;
    plan.costPerHour = DollarsPerHour(8);
    plan.costPerMillionSamples = plan.costPerHour * plan.iteration * (1e6 / 8);
    plan.objectiveValue = plan.throughput.value();
    plan.lowerBound = plan.objectiveValue * 1.25;
    plan.gap = 0.25;
  }

  std::vector<Finding> examine() {
    llvm::Expected<std::vector<Finding>> findings = examinePlan(plan, graph, cluster, costs);
    if (!findings) {
      ADD_FAILURE() << toText(findings.takeError());
      return {};
    }
    return *findings;
  }

  Finding finding(const std::string &name) {
    for (const Finding &finding : examine())
      if (finding.check.name == name)
        return finding;
    ADD_FAILURE() << "no check '" << name << "'";
    return {};
  }

  /// Names of the checks that fail, in order.
  std::vector<std::string> failing() {
    std::vector<std::string> result;
    for (const Finding &finding : examine())
      if (!finding.check.holds)
        result.push_back(finding.check.name);
    return result;
  }
};

using Names = std::vector<std::string>;

} // namespace heterplan
