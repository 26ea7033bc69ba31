// The time and the memory of a stage, part by part, worked out by hand.
#include "cost/StageCost.h"
#include "cost/ConstantCostModel.h"
#include "support/TwoLayers.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// Layers a and b: 1 s + 2 s and 2 s + 4 s a sample, updates of 6 s and 2 s, 400 bytes of
/// parameters each; on boxes of one device each, 100 B/s and 0.5 s between them. Adam: four copies.
struct StageCostTest : testing::Test {
  LayerGraph graph = test::twoLayers(Bytes(400), Bytes(100));
  Cluster cluster = test::boxes(4, Seconds(0.5));
  ConstantCostModel model;
  ModeRequest asked;

  StageCostTest() {
    model.layer("a", {Seconds(1), Seconds(2), Seconds(6), Seconds(0)});
    model.layer("b", {Seconds(2), Seconds(4), Seconds(2), Seconds(0)});
    graph.layers[0].activationBytes = Bytes(30);
    graph.layers[1].activationBytes = Bytes(50);
    graph.layers[1].workspaceBytes = Bytes(7);
    graph.layers[0].bufferBytes = Bytes(11);
  }

  StageCost cost(LayerRange range, StageOption option, BatchSplit split) {
    StageCosts costs(
        graph, cluster, model, Optimizer::Adam, Samples(8), [](int, int) { return true; },
        Precision::Fp32, asked);
    return costs.stageCost(range, option, split);
  }
};

constexpr LayerRange whole{0, 2}, first{0, 1}, second{1, 2};
/// Rings of two boxes: 2·(1/2)·size/100 + 2·0.5.
constexpr double ring = 800 / 100.0 + 1;

StageOption boxes(int count) { return {DeviceGroup{{{0, count}}}, {}, {}, {}}; }
} // namespace

TEST_F(StageCostTest, computing) {
  StageCost one = cost(whole, boxes(1), {4, 2, true, {}});
  EXPECT_DOUBLE_EQ(one.forward.value(), 4 * 3);
  EXPECT_DOUBLE_EQ(one.backward.value(), 4 * 6);
  EXPECT_DOUBLE_EQ(one.update.value(), 8);
  EXPECT_DOUBLE_EQ(one.synchronization.value(), 8);
  EXPECT_EQ(one.largestShare, Samples(4));
  EXPECT_TRUE(one.largestIsSlowest);
  StageCost two = cost(whole, boxes(2), {5, 1, true, {}});
  EXPECT_DOUBLE_EQ(two.forward.value(), 3 * 3) << "three of five samples";
  EXPECT_DOUBLE_EQ(two.synchronization.value(), ring + 8);
}

TEST_F(StageCostTest, inPassAllReducesAndLookups) {
  graph.layers[1].inPassAllReduces = 3;
  graph.layers[1].inPassAllReduceBytes = Bytes(60);
  graph.layers[0].parameters = {"t"};
  graph.layers[0].tables = {{"t", 5, 4, DataType::Float32, 3}};
  StageCost two = cost(whole, boxes(2), {4, 1, true, {}});
  EXPECT_DOUBLE_EQ(two.inPassAllReduce.value(), 3 * 2 * 0.5 + 60 / 100.0);
  EXPECT_DOUBLE_EQ(two.lookup.value(), 48 / 100.0 + 1.5);
  EXPECT_DOUBLE_EQ(two.lookupGradient.value(), 48 / 100.0 + 0.5);
  EXPECT_DOUBLE_EQ(two.forward.value(), 6 + (two.inPassAllReduce + two.lookup).value());
  EXPECT_DOUBLE_EQ(two.backward.value(), 12 + (two.inPassAllReduce + two.lookupGradient).value());
  EXPECT_DOUBLE_EQ(two.synchronization.value(), (800 - 80) / 100.0 + 1 + 8) << "dense ones only";
}

TEST_F(StageCostTest, recomputationAddsTheForwardPass) {
  graph.layers[1].inPassAllReduces = 1;
  StageOption option = boxes(2);
  option.recomputation.segments = 2;
  StageCost two = cost(whole, option, {4, 1, true, {}});
  EXPECT_DOUBLE_EQ(two.recomputation.value(), 2 * 3);
  EXPECT_DOUBLE_EQ(two.forward.value(), 6 + 1);
  EXPECT_DOUBLE_EQ(two.backward.value(), 12 + 6 + 1) << "sums are not taken again";
}

TEST_F(StageCostTest, shardedState) {
  StageOption option = boxes(2);
  option.sharding.state = StateSharding::Optimizer;
  StageCost state = cost(whole, option, {4, 2, true, {}});
  EXPECT_DOUBLE_EQ(state.backward.value(), 12);
  EXPECT_DOUBLE_EQ(state.update.value(), 8 / 2.0);
  EXPECT_DOUBLE_EQ(state.synchronization.value(), ring + 4) << "reduce-scatter, all-gather";
  option.sharding.state = StateSharding::Gradients;
  StageCost gradients = cost(whole, option, {4, 2, true, {}});
  EXPECT_DOUBLE_EQ(gradients.reduceScatter.value(), ring / 2);
  EXPECT_DOUBLE_EQ(gradients.backward.value(), 12 + ring / 2);
  EXPECT_DOUBLE_EQ(gradients.synchronization.value(), ring / 2 + 4) << "all-gather";
}

/// Gradients of b are sent while a computes; those of a wait for a.
TEST_F(StageCostTest, overlappedSums) {
  asked.overlapsSums = true;
  auto exposed = [&](StageOption option, int64_t batch) {
    const StageCost stage = cost(whole, option, {batch, 1, true, {}});
    return (stage.synchronization - stage.update).value();
  };
  EXPECT_DOUBLE_EQ(exposed(boxes(2), 2), ring - 2) << "b's wait for nothing, a hides two seconds";
  EXPECT_DOUBLE_EQ(exposed(boxes(2), 3), ring - 2) << "as long as on the faster replica";
  EXPECT_DOUBLE_EQ(exposed(boxes(2), 8), 400 / 100.0 + 1) << "a's alone, which nothing hides";
  EXPECT_DOUBLE_EQ(exposed(boxes(1), 2), 0);
  cluster.network.overlapLoss = 0.25;
  EXPECT_DOUBLE_EQ(exposed(boxes(2), 2), ring - 2) << "a's ends no later than b's";
  EXPECT_DOUBLE_EQ(exposed(boxes(2), 8), 4 + 1 + 0.25 * 4) << "b's have held the pass of a up";
  cluster.network.overlapLoss = 1;
  EXPECT_DOUBLE_EQ(exposed(boxes(2), 8), ring) << "as if computing waited";
  cluster.network.overlapLoss = 0;
  StageOption recomputing = boxes(2);
  recomputing.recomputation.segments = 1;
  EXPECT_DOUBLE_EQ(exposed(recomputing, 2), ring - 2) << "what is computed again hides nothing";
  StageOption sharded = boxes(2);
  sharded.sharding.state = StateSharding::Optimizer;
  EXPECT_DOUBLE_EQ(exposed(sharded, 2), ring);
}

TEST_F(StageCostTest, ShardedParametersAreGatheredLayerByLayer) {
  StageOption option = boxes(2);
  option.sharding.state = StateSharding::Parameters;
  const double each = 400 / 2 / 100.0 + 0.5; // half a ring
  StageCost both = cost(whole, option, {4, 2, true, {}});
  EXPECT_DOUBLE_EQ(both.gather.value(), 2 * each);
  EXPECT_DOUBLE_EQ(both.reduceScatter.value(), 2 * each);
  EXPECT_DOUBLE_EQ(both.forward.value(), 6 + 2 * each);
  EXPECT_DOUBLE_EQ(both.backward.value(), 12 + 4 * each);
  EXPECT_DOUBLE_EQ(both.synchronization.value(), 4) << "the update of a slice";
  // slices of all copies; a layer and its gradients, and a slice of their sum
  EXPECT_EQ(both.memory.fixed, Bytes(4 * 400 + 400 + 400 + 200 + 11));
  option.recomputation.segments = 1;
  EXPECT_EQ(cost(whole, option, {4, 2, true, {}}).memory.fixed,
            Bytes(4 * 400 + 800 + 400 + 200 + 11))
      << "the parameters of a segment";
}

TEST_F(StageCostTest, TiedParametersAreGatheredByEachLayerThatUsesThem) {
  graph.layers[0].parameters = graph.layers[1].parameters = {"w"};
  StageOption option = boxes(2);
  option.sharding.state = StateSharding::Parameters;
  const double each = 400 / 2 / 100.0 + 0.5;
  StageCost both = cost(whole, option, {4, 2, true, {}});
  EXPECT_DOUBLE_EQ(both.gather.value(), 3 * each);
  EXPECT_EQ(both.memory.fixed, Bytes(4 * 400 + 800 + 800 + 400 + 11)) << "both for b";
  StageCost alone = cost(first, option, {4, 2, false, {}});
  EXPECT_EQ(alone.gather, Seconds(0)) << "another stage uses them";
  EXPECT_EQ(alone.memory.fixed, Bytes(3 * 400 + 2 * 200 + 11)) << "whole, but for the state";
  StageCost other = cost(second, option, {4, 2, true, {}});
  EXPECT_DOUBLE_EQ(other.gather.value(), each) << "its own";
  EXPECT_EQ(other.memory.fixed, Bytes(3 * 400 + 2 * 200 + 4 * 200 + 400 + 400 + 200));
}

TEST_F(StageCostTest, RecomputedSegmentsKeepRoundedParametersUnderAutocast) {
  const std::vector<Cut> cuts = graph.cuts();
  StageMemory half(graph, cuts, Optimizer::Adam, Samples(8), Precision::Bf16);
  auto need = [&](int segments) {
    return half.of(whole, 2, {segments}, {StateSharding::Parameters});
  };
  const Bytes slices = Bytes(4 * 400 + 11), gradients = Bytes(400 + 200);
  EXPECT_EQ(need(1).fixed, slices + gradients + Bytes(400 + 800 / 2)) << "a layer, and both halves";
  EXPECT_EQ(need(2).fixed, slices + gradients + Bytes(400 + 400 / 2));
  EXPECT_EQ(need(0).fixed, slices + gradients + Bytes(400));
  EXPECT_EQ(need(0).boundary - need(1).boundary, Bytes(800 / 2)) << "rounded ones are kept";
}

/// Two segments gather less at a time, so that they are chosen though they keep more.
TEST_F(StageCostTest, SegmentsCountWhatTheyGather) {
  graph.layers[0].activationBytes = graph.layers[1].activationBytes = Bytes(0);
  const std::vector<Cut> cuts = graph.cuts();
  StageMemory flat(graph, cuts, Optimizer::Adam, Samples(8));
  EXPECT_EQ(flat.leastSegments(whole, Samples(1), 1).segments, 1);
  EXPECT_EQ(flat.leastSegments(whole, Samples(1), 1, {StateSharding::Parameters}).segments, 2);
}

TEST_F(StageCostTest, theSlowestOfEachPassOrOfBoth) {
  cluster.types.push_back(cluster.types[0]);
  cluster.types[1].name = "other";
  cluster.nodes.push_back(cluster.nodes[0]);
  cluster.nodes[1].name = "others";
  cluster.nodes[1].devices = {{"other", 1}};
  for (const char *layer : {"a", "b"})
    model.entry(layer, "other", {Seconds(5), Seconds(1), Seconds(0), Seconds(0)});
  StageOption option{DeviceGroup{{{0, 1}, {1, 1}}}, {}, {}, {}};
  std::vector<std::vector<int64_t>> shares{{3}, {1}};
  StageCost inside = cost(whole, option, {4, 1, false, shares});
  EXPECT_DOUBLE_EQ(inside.forward.value(), 10) << "of the other";
  EXPECT_DOUBLE_EQ(inside.backward.value(), 18) << "of the box";
  EXPECT_NE(inside.slowestForward, inside.slowestBackward);
  StageCost last = cost(whole, option, {4, 1, true, shares});
  EXPECT_DOUBLE_EQ(last.forward.value(), 9);
  EXPECT_DOUBLE_EQ(last.backward.value(), 18);
  EXPECT_FALSE(last.largestIsSlowest);
  EXPECT_EQ(last.largestShare, Samples(3));
}

TEST_F(StageCostTest, whatTheModelDoesNotKnowIsNoNumber) {
  model = ConstantCostModel().layer("a", {Seconds(1), Seconds(2), Seconds(6), Seconds(0)});
  StageCosts costs(graph, cluster, model, Optimizer::Sgd, Samples(8),
                   [](int, int) { return true; });
  EXPECT_TRUE(costs.stageCost(first, boxes(1), {4, 1, true, {}}).isKnown);
  EXPECT_FALSE(costs.stageCost(whole, boxes(1), {4, 1, true, {}}).isKnown);
  EXPECT_LT(costs.stageCost(whole, boxes(1), {4, 1, true, {}}).forward, Seconds(100));
  EXPECT_NE(toText(costs.times.takeError()).find("HP1401"), std::string::npos);
}

TEST_F(StageCostTest, memoryByHand) {
  MemoryModel memory = cost(second, boxes(1), {4, 1, true, {}}).memory;
  EXPECT_EQ(memory.fixed, Bytes(4 * 400 + 2 * 400)) << "and two steps of an update";
  EXPECT_EQ(memory.kept, Bytes(100 + 50)) << "received, and its activations";
  EXPECT_EQ(memory.workspace, Bytes(7 + 100)) << "and the gradient of what was received";
  EXPECT_EQ(memory.need(Samples(2), 3), Bytes(2400 + 3 * 2 * 150 + 2 * 107));
  EXPECT_EQ(memory.mostInFlight(Bytes(2400 + 3 * 2 * 150 + 2 * 107), Samples(2)), 3);
  EXPECT_EQ(memory.mostInFlight(Bytes(2400 + 3 * 2 * 150 + 2 * 107 - 1), Samples(2)), 2);
  EXPECT_EQ(memory.mostSamples(Bytes(2400 + 2 * 257), 1, 9), 2);
  EXPECT_EQ(cost(whole, boxes(1), {4, 1, true, {}}).memory.fixed, Bytes(4 * 800 + 11 + 2 * 400));
  MemoryModel sends = cost({0, 1}, boxes(1), {4, 1, false, {}}).memory;
  EXPECT_EQ(sends.kept, Bytes(30 + 100)) << "what was sent waits for its gradient";
}

/// Bytes at a boundary that do not grow with the batch count once for each micro-batch in flight.
TEST_F(StageCostTest, fixedBytesOfABoundary) {
  graph.tensors[0].bytesPerSample = Bytes(0);
  graph.tensors[0].fixedBytes = Bytes(1000);
  MemoryModel memory = cost(second, boxes(1), {4, 1, true, {}}).memory;
  EXPECT_EQ(memory.boundary, Bytes(1000));
  EXPECT_EQ(memory.need(Samples(4), 2), Bytes(2400 + 1000 + 2 * (4 * 50 + 1000) + 4 * 7));
  EXPECT_EQ(memory.mostInFlight(Bytes(2400 + 1000 + 2 * (4 * 50 + 1000) + 4 * 7), Samples(4)), 2);
  EXPECT_EQ(memory.mostSamples(Bytes(2400 + 1000 + 2 * 1000 + 3 * 107), 2, 9), 3);
}

TEST_F(StageCostTest, memoryOfSegments) {
  StageOption option = boxes(1);
  option.recomputation.segments = 1;
  MemoryModel one = cost(whole, option, {4, 1, true, {}}).memory;
  EXPECT_EQ(one.kept, Bytes(0)) << "nothing is received";
  EXPECT_EQ(one.workspace, Bytes(30 + 50 + 7)) << "once";
  option.recomputation.segments = 2;
  MemoryModel two = cost(whole, option, {4, 1, true, {}}).memory;
  EXPECT_EQ(two.kept, Bytes(100));
  EXPECT_EQ(two.workspace, Bytes(50 + 7));
}

TEST_F(StageCostTest, theLeastSegmentsThatNeedTheLeast) {
  graph.tensors[0].bytesPerSample = Bytes(10);
  std::vector<Cut> cuts = graph.cuts();
  StageMemory memory(graph, cuts, Optimizer::Sgd, Samples(8));
  EXPECT_EQ(memory.leastSegments(whole, Samples(4), 1).segments, 2) << "10 + 50 < 80";
  EXPECT_EQ(memory.leastSegments(whole, Samples(4), 3).segments, 1) << "3·10 + 50 = 80";
  EXPECT_EQ(memory.leastSegments(second, Samples(4), 3).segments, 1) << "a layer is one segment";
  EXPECT_EQ(memory.firstLayers(whole, {2}), (std::vector<int>{0, 1}));
  EXPECT_EQ(memory.firstLayers(second, {1}), (std::vector<int>{1}));
}

TEST_F(StageCostTest, workspaceCountsAsOftenAsItIsStated) {
  std::vector<Cut> cuts = graph.cuts();
  auto modelOf = [&](Precision precision, double copies) {
    return StageMemory(graph, cuts, Optimizer::Sgd, Samples(8), precision)
        .of(whole, 1, {}, StageSharding())
        .on({Bytes(), copies});
  };
  MemoryModel once = modelOf(Precision::Fp32, 1), often = modelOf(Precision::Fp32, 8);
  EXPECT_EQ(often.workspace, once.workspace * 8);
  EXPECT_EQ(often.kept, once.kept);
}

TEST_F(StageCostTest, convolutionsCountAsOftenAsTheDeviceStates) {
  graph.layers[0].convolutionBytes = Bytes(30);
  graph.layers[1].convolutionBytes = Bytes(50);
  std::vector<Cut> cuts = graph.cuts();
  MemoryModel model =
      StageMemory(graph, cuts, Optimizer::Sgd, Samples(8)).of(whole, 1, {}, StageSharding());
  EXPECT_EQ(model.on({Bytes(), 1, 8}).workspace, model.on({Bytes(), 1, 0}).workspace + Bytes(400))
      << "the largest one";
  EXPECT_EQ(model.on({Bytes(), 1, 8}).kept, model.kept);
}

TEST_F(StageCostTest, passesOfAStepShareRoundedWeights) {
  graph.tensors[0].bytesPerSample = Bytes(10);
  std::vector<Cut> cuts = graph.cuts();
  auto modelOf = [&](Precision precision, Recomputation recomputation, StateSharding sharding) {
    return StageMemory(graph, cuts, Optimizer::Sgd, Samples(8), precision)
        .of(whole, 2, recomputation, {sharding});
  };
  Bytes halves = (graph.layers[0].denseBytes() + graph.layers[1].denseBytes()) / 2;
  ASSERT_GT(halves, Bytes(0));
  for (int inFlight : {1, 3}) {
    auto more = [&](Recomputation recomputation, StateSharding sharding) {
      return modelOf(Precision::Bf16, recomputation, sharding).need(Samples(4), inFlight) -
             modelOf(Precision::Fp32, recomputation, sharding).need(Samples(4), inFlight);
    };
    EXPECT_EQ(more({}, StateSharding::None), halves);
    EXPECT_EQ(more({2}, StateSharding::None), halves) << "let go at the end of each pass";
    EXPECT_EQ(more({}, StateSharding::Parameters), halves * inFlight) << "gathered for each pass";
  }
}

TEST(Memory, slicesOfTrainedState) {
  EXPECT_EQ(sliceOf(Bytes(400), 3), Bytes(136)) << "34 of 100 numbers";
  auto need = [](StateSharding sharding, int replicas) {
    return trainedMemory(Bytes(4e8), Bytes(1e7), Optimizer::Adam, {sharding}, replicas);
  };
  EXPECT_EQ(need(StateSharding::None, 4), Bytes(16e8 + 2e7)) << "and two steps of an update";
  EXPECT_EQ(need(StateSharding::Optimizer, 1), Bytes(16e8 + 2e7)) << "nobody to divide with";
  Bytes buffers = (Bytes(1e7) + gradientBuffer) * 2;
  EXPECT_EQ(need(StateSharding::Optimizer, 4), Bytes(8e8 + 2 * 1e8) + buffers);
  EXPECT_EQ(need(StateSharding::Gradients, 4), Bytes(4e8 + 3 * 1e8) + buffers);
}

TEST(Collectives, aReduceScatterIsHalfAnAllReduce) {
  Cluster cluster = test::boxes(4, Seconds(0.5));
  DeviceGroup three{{{0, 3}}};
  EXPECT_DOUBLE_EQ(reduceScatterCost(cluster, three).time(Bytes(600)).value(),
                   allReduceTime(cluster, three, Bytes(600)).value() / 2);
}
