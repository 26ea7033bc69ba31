// Stages that compute activations again or divide their state: plans right by hand, and changed.
#include "Fixture.h"

using namespace heterplan;

namespace {
/// The first stage computes again in two segments.
struct RecomputedPlan : CheckerFixture {
  RecomputedPlan() {
    Stage &first = plan.stages[0];
    first.recompute = {"a", "b"};
    // two in flight keep two samples of what enters b, and one segment is there at a time
    first.memory = Bytes(2 * 2000 + 1000 + 2 * 2 * (100 + 100) + 2 * 100 + 2 * 10 + 2 * 4);
    for (Replica &replica : first.replicas)
      replica.backward += replica.forward;
    first.backward += Seconds(2e-3);
    fillTotals();
  }
};

/// Both stages divide the state of Adam; `sharding` says what else.
struct ShardedPlan : CheckerFixture {
  void shard(StateSharding sharding) {
    plan.optimizer = Optimizer::Adam;
    for (DeviceType &type : cluster.types)
      type.memory = Bytes(9000);
    for (int i = 0; i < 2; ++i) {
      Stage &stage = plan.stages[i];
      DeviceGroup group{{{i, 2}}};
      Seconds whole = allReduceTime(cluster, group, Bytes(2000));
      Bytes activations = stage.memory - Bytes(2 * 2000 + 1000);
      stage.sharding.state = sharding;
      stage.update = stage.update / 2;
      if (sharding == StateSharding::Parameters) {
        // slices of four copies; a gathered layer, its gradients, and a slice of their sum
        stage.memory = Bytes(4 * 1000 + 1000 + 1000 + 500) + activations;
        stage.sync = stage.update;
        stage.gather = stage.reduceScatter = allReduceTime(cluster, group, Bytes(1000)) / 2 * 2;
        stage.forward += stage.gather;
        stage.backward += stage.gather + stage.reduceScatter;
        for (Replica &replica : stage.replicas) {
          replica.forward += stage.gather;
          replica.backward += stage.gather + stage.reduceScatter;
        }
        continue;
      }
      // two buffers of gradients are more than all there are
      if (sharding == StateSharding::Optimizer) {
        stage.memory = Bytes(2 * 2000 + 2 * 1000 + 2000) + activations;
        stage.sync = stage.update + whole;
        continue;
      }
      stage.memory = Bytes(2000 + 2000 + 3 * 1000) + activations;
      stage.sync = stage.update + whole / 2;
      stage.reduceScatter = whole / 2;
      stage.backward += whole / 2;
      for (Replica &replica : stage.replicas)
        replica.backward += whole / 2;
    }
    fillTotals();
  }
};

TEST_F(RecomputedPlan, holds) { EXPECT_EQ(failing(), (Names{})); }

TEST_F(RecomputedPlan, whatIsNotSoFails) {
  Plan right = plan;
  plan.stages[0].recompute.clear(); // then its backward pass is shorter, and it needs less
  EXPECT_EQ(failing(), (Names{"memory", "timing"}));
  plan = right;
  plan.stages[0].recompute = {"a"}; // one segment has both activations
  EXPECT_EQ(failing(), (Names{"memory"}));
  plan = right;
  plan.stages[0].memory -= Bytes(20);
  EXPECT_EQ(failing(), (Names{"memory"}));
  plan = right;
  plan.stages[0].replicas[1].backward -= Seconds(1e-3);
  EXPECT_EQ(failing(), (Names{"timing"}));
  plan = right;
  plan.stages[0].recompute = {"b", "a"};
  EXPECT_NE(finding("timing").because.find("does not begin a segment"), std::string::npos);
}

TEST_F(RecomputedPlan, keepsToItsPolicy) {
  plan.recompute = RecomputePolicy::Never;
  EXPECT_EQ(failing(), (Names{"recompute"}));
  EXPECT_NE(finding("recompute").because.find("stage 0 does not keep its activations"),
            std::string::npos);
  plan.recompute = RecomputePolicy::Always;
  EXPECT_NE(finding("recompute").because.find("stage 1 keeps its activations"), std::string::npos);
}

TEST_F(RecomputedPlan, hasTheScheduleAndTheMicroBatchesThatWereAskedFor) {
  plan.requestedSchedule = ScheduleChoice::Pipeline;
  plan.requestedMicroBatches = plan.microBatches;
  EXPECT_TRUE(finding("schedule").check.holds);
  plan.requestedMicroBatches = plan.microBatches + 1;
  EXPECT_EQ(failing(), (Names{"schedule"}));
  plan.requestedMicroBatches = 0;
  for (ScheduleChoice other : {ScheduleChoice::DataParallel, ScheduleChoice::Burst}) {
    plan.requestedSchedule = other;
    EXPECT_EQ(failing(), (Names{"schedule"})) << nameOf(other);
  }
}

TEST_F(RecomputedPlan, ASegmentDoesNotPartATiedTable) {
  graph.layers[1].parameters = graph.layers[0].parameters = {"w"};
  graph.layers[0].tables = {{"w", 1, 1, DataType::Float32, 1}};
  EXPECT_NE(finding("timing").because.find("parts a shared parameter"), std::string::npos);
}

TEST_F(ShardedPlan, holds) {
  shard(StateSharding::Optimizer);
  EXPECT_EQ(failing(), (Names{}));
}

/// By hand: layers a and b, and c and d, have 1000 bytes of gradients each; a and c take half of
/// the backward pass of their stage.
TEST_F(ShardedPlan, HoldsWithSumsThatOverlapPasses) {
  plan.overlapsSums = true;
  EXPECT_EQ(failing(), (Names{"timing"})) << "sums are shorter";
  for (int i = 0; i < 2; ++i) {
    Stage &stage = plan.stages[i];
    DeviceGroup group{{{i, 2}}};
    const Seconds last = allReduceTime(cluster, group, Bytes(1000));
    const Seconds all = allReduceTime(cluster, group, Bytes(2000));
    const Seconds hidden = stage.replicas.back().backward / 2; // of the fewest samples
    stage.sync = stage.update + std::max(last, all - hidden);
  }
  fillTotals();
  EXPECT_EQ(failing(), (Names{}));
  plan.stages[0].sync -= Seconds(1e-6);
  fillTotals();
  EXPECT_EQ(failing(), (Names{"timing"}));
}

/// While the second layer's 1000 bytes travel, the first one's pass loses half of their time.
TEST_F(ShardedPlan, HoldsWithSumsThatSlowPasses) {
  plan.overlapsSums = true;
  cluster.network.overlapLoss = 0.5;
  for (NodeGroup &node : cluster.nodes)
    node.link.overlapLoss = 0.5;
  for (int i = 0; i < 2; ++i) {
    Stage &stage = plan.stages[i];
    DeviceGroup group{{{i, 2}}};
    const Seconds last = allReduceTime(cluster, group, Bytes(1000));
    const Seconds all = allReduceTime(cluster, group, Bytes(2000));
    const Seconds hidden = stage.replicas.back().backward / 2;
    stage.sync = stage.update + std::max(last + (all - last) / 2, all - hidden);
  }
  fillTotals();
  EXPECT_EQ(failing(), (Names{}));
  plan.stages[1].sync -= Seconds(1e-6);
  fillTotals();
  EXPECT_EQ(failing(), (Names{"timing"}));
}

/// By hand: 100 bytes of a sample cross the boundary each way. The first stage, with two samples on
/// a device, has room for gradients of two micro-batches; the second, with three, for two messages
/// of each kind. All but the last micro-batch take what the second stage computes.
TEST_F(CheckerFixture, HoldsWithTransfersThatOverlapComputing) {
  plan.overlapsTransfers = true;
  EXPECT_EQ(failing(), (Names{"memory", "timing"}));
  Stage &first = plan.stages[0], &second = plan.stages[1];
  first.memory += Bytes(2 * 100);
  second.memory += Bytes(3 * 100 + 3 * 100);
  fillTotals();
  EXPECT_NEAR(plan.iteration.value(),
              (first.time() + second.time() + Seconds(18e-3) + first.sync).value(), 1e-12);
  EXPECT_EQ(failing(), (Names{}));
  const Plan right = plan;
  first.memory -= Bytes(1);
  EXPECT_EQ(failing(), (Names{"memory"}));
  plan = right;
  second.memory -= Bytes(3 * 100); // no room for the next input
  EXPECT_EQ(failing(), (Names{"memory"}));
  plan = right;
  plan.iteration -= Seconds(1e-5);
  plan.throughput = plan.globalBatch / plan.iteration;
  EXPECT_NE(failing(), (Names{}));
  plan = right;
  plan.overlapsTransfers = false; // then the second stage is busy with what it receives
  EXPECT_EQ(failing(), (Names{"memory", "timing"}));
}

TEST_F(ShardedPlan, holdsWithGradients) {
  shard(StateSharding::Gradients);
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(ShardedPlan, HoldsWithParameters) {
  shard(StateSharding::Parameters);
  EXPECT_EQ(failing(), (Names{}));
  plan.shardState = StateSharding::Parameters;
  EXPECT_TRUE(finding("shard-state").check.holds);
}

TEST_F(ShardedPlan, NoticesFaultsInPlansWithShardedParameters) {
  shard(StateSharding::Parameters);
  const Plan right = plan;
  for (StateSharding other :
       {StateSharding::None, StateSharding::Optimizer, StateSharding::Gradients}) {
    plan.stages[0].sharding.state = other;
    EXPECT_EQ(failing(), (Names{"memory", "timing"})) << nameOf(other);
    plan = right;
  }
  plan.stages[0].gather = plan.stages[0].gather / 2;
  EXPECT_EQ(failing(), (Names{"timing"}));
  plan = right;
  plan.stages[1].replicas[0].forward -= plan.stages[1].gather;
  EXPECT_EQ(failing(), (Names{"timing"}));
  plan = right;
  plan.stages[1].memory -= Bytes(500);
  EXPECT_EQ(failing(), (Names{"memory"}));
}

/// Layers a and d use one parameter: both stages hold it whole, and sum its gradients.
TEST_F(ShardedPlan, ParametersOfSeveralStagesAreWhole) {
  shard(StateSharding::Parameters);
  for (DeviceType &type : cluster.types)
    type.memory = Bytes(20000);
  graph.layers[3].parameters.push_back("a.weight");
  EXPECT_EQ(failing(), (Names{"memory", "timing"}));
  for (int i = 0; i < 2; ++i) {
    Stage &stage = plan.stages[i];
    const DeviceGroup group{{{i, 2}}};
    const Seconds one = allReduceTime(cluster, group, Bytes(1000)) / 2;
    if (i == 0) { // a copy for d comes on top of what the second stage gathers
      stage.memory += Bytes(3 * 1000 + 2 * 500 - 4 * 500);
      stage.gather -= one;
      stage.reduceScatter -= one;
      stage.forward -= one;
      stage.backward -= one * 2;
      for (Replica &replica : stage.replicas) {
        replica.forward -= one;
        replica.backward -= one * 2;
      }
    } else {
      stage.memory += Bytes(3 * 1000 + 2 * 500);
      stage.parameterBytes += Bytes(1000);
    }
    stage.sync += one * 2 + tiedSumCost(cluster, group).time(Bytes(1000));
  }
  fillTotals();
  EXPECT_EQ(failing(), (Names{}));
}

TEST_F(ShardedPlan, whatIsNotSoFails) {
  shard(StateSharding::Optimizer);
  Plan right = plan;
  plan.stages[1].sharding.state = StateSharding::None;
  EXPECT_EQ(failing(), (Names{"memory", "timing"}));
  plan = right;
  plan.stages[1].sharding.state = StateSharding::Gradients;
  EXPECT_EQ(failing(), (Names{"memory", "timing"}));
  plan = right;
  plan.stages[0].update = plan.stages[0].update * 2.0;
  EXPECT_EQ(failing(), (Names{"timing"}));
  plan = right;
  plan.stages[0].memory -= Bytes(1);
  EXPECT_EQ(failing(), (Names{"memory"}));
}

TEST_F(ShardedPlan, keepsToWhatWasAsked) {
  shard(StateSharding::Optimizer);
  plan.shardState = StateSharding::Gradients;
  EXPECT_EQ(failing(), (Names{"shard-state"}));
  EXPECT_NE(finding("shard-state").because.find("divides optimizer over its replicas"),
            std::string::npos);
  plan.shardState = StateSharding::Optimizer;
  EXPECT_TRUE(finding("shard-state").check.holds);
}
} // namespace
