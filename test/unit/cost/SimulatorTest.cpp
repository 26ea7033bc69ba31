#include "cost/Simulator.h"

#include "unit/ir/Diagnosed.h"
#include "unit/ir/SharedPlan.h"

#include <gtest/gtest.h>

using namespace heterplan;
using namespace heterplan::test;

namespace {
Program smallProgram(const Plan &plan) {
  auto program = lower(plan, smallGraph(), smallCluster());
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  return std::move(*program);
}

Simulation simulated(const Plan &plan) {
  auto simulation = simulate(smallProgram(plan));
  EXPECT_TRUE(bool(simulation)) << toText(simulation.takeError());
  return std::move(*simulation);
}

const TimelineEvent &event(const Timeline &timeline, int rank, Op op, int microBatch) {
  for (const TimelineEvent &each : timeline.events)
    if (each.rank == rank && each.op == op && each.microBatch == microBatch)
      return each;
  ADD_FAILURE() << "no such event";
  return timeline.events[0];
}
} // namespace

TEST(Simulator, TakesThePredictedTime) {
  Simulation simulation = simulated(smallPlan());
  EXPECT_DOUBLE_EQ(simulation.timeline.iteration.value(), 12 + 7.5 + 3 * 12 + 5);
  EXPECT_FALSE(simulation.timeline.measured);
  EXPECT_EQ(simulation.timeline.model, "small");
}

TEST(Simulator, BoundariesWaitForTheSlowestReplica) {
  Timeline timeline = simulated(smallPlan()).timeline;
  // Rank 1 is ready after 2, rank 0 after 3.
  EXPECT_EQ(event(timeline, 1, Op::Forward, 0).end, Seconds(2));
  EXPECT_EQ(event(timeline, 2, Op::Receive, 0).begin, Seconds(3));
  EXPECT_DOUBLE_EQ(event(timeline, 2, Op::Forward, 0).begin.value(), 3 + 1.5);
}

TEST(Simulator, LastStageStartsWithTheBottleneck) {
  Timeline timeline = simulated(smallPlan()).timeline;
  for (int microBatch = 0; microBatch < 4; ++microBatch)
    EXPECT_DOUBLE_EQ(event(timeline, 2, Op::Receive, microBatch).begin.value(),
                     3 + 12.0 * microBatch);
}

TEST(Simulator, EagerExecutionDoesNotWait) {
  Simulation simulation = simulated(smallPlan());
  EXPECT_LT(simulation.eager, simulation.timeline.iteration);
  // The first gradient is ready after 3 + 7.5; from then on stage 0 is busy with four backward
  // passes and the two forward passes that are left.
  EXPECT_DOUBLE_EQ(simulation.eager.value(), 3 + 7.5 + 4 * 9 + 2 * 3 + 5);
}

TEST(Simulator, CollectiveBeginsWithItsLastMember) {
  Timeline timeline = simulated(smallPlan()).timeline;
  const TimelineEvent &first = event(timeline, 0, Op::AllReduce, -1);
  EXPECT_EQ(first.begin, event(timeline, 0, Op::Backward, 3).end);
  EXPECT_EQ(event(timeline, 1, Op::AllReduce, -1).begin, first.begin);
  EXPECT_LT(event(timeline, 1, Op::Backward, 3).end, first.begin);
}

TEST(Simulator, ShardedStateTakesThePredictedTime) {
  for (StateSharding sharding : {StateSharding::Optimizer, StateSharding::Gradients}) {
    Plan plan = smallShardedPlan(sharding);
    double more = sharding == StateSharding::Gradients ? 1 : 0;
    Simulation simulation = simulated(plan);
    EXPECT_DOUBLE_EQ(simulation.timeline.iteration.value(), 12 + 7.5 + 3 * 12 + 5 + 4 * more);
    EXPECT_DOUBLE_EQ(simulation.timeline.iteration.value(), plan.iteration.value());
  }
}

TEST(Simulator, ShardedParametersTakeThePredictedTime) {
  const Plan plan = smallShardedPlan(StateSharding::Parameters);
  Simulation simulation = simulated(plan);
  EXPECT_DOUBLE_EQ(simulation.timeline.iteration.value(), plan.iteration.value());
  EXPECT_GT(plan.iteration, smallShardedPlan(StateSharding::Optimizer).iteration);
}

TEST(Simulator, GradientsLeaveWhenTheirStageHasSummed) {
  Plan plan = smallShardedPlan(StateSharding::Gradients);
  Timeline timeline = simulated(plan).timeline;
  const TimelineEvent &sum = event(timeline, 1, Op::GradientReduceScatter, 0);
  EXPECT_EQ(sum.begin, event(timeline, 0, Op::Backward, 0).end); // the slower replica
  EXPECT_EQ(sum.end - sum.begin, Seconds(1));
}

TEST(Simulator, GPipeByHand) {
  Plan plan = smallPlan();
  plan.schedule = Schedule::GPipe;
  EXPECT_DOUBLE_EQ(simulated(plan).timeline.iteration.value(), 12 + 7.5 + 3 * (3.5 + 9) + 5);
}

TEST(Simulator, ForwardPassMayHoldUpABackwardPass) {
  // The example of docs/rationale/simulator.md: the formula says 36.
  Plan plan = smallPlan();
  plan.globalBatch = Samples(2);
  plan.microBatches = 2;
  plan.stages.assign(3, Stage());
  const double forward[] = {9, 1, 1}, backward[] = {1, 11, 1};
  const char *const layers[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    Stage &stage = plan.stages[i];
    stage.id = i;
    stage.layers = {layers[i]};
    stage.replicas = {smallReplica(2, forward[i], "cpu", i)};
    stage.replicas[0].backward = Seconds(backward[i]);
    stage.forward = Seconds(forward[i]);
    stage.backward = Seconds(backward[i]);
  }
  EXPECT_EQ(leastIterationTime(plan.stages, 2, plan.schedule), Seconds(36));
  EXPECT_EQ(iterationTime(plan.stages, 2, plan.schedule), Seconds(42));
  EXPECT_DOUBLE_EQ(simulated(plan).timeline.iteration.value(), 42);
}

TEST(Simulator, RefusesAnInvalidProgram) {
  Program program = smallProgram(smallPlan());
  program.ranks[0].instructions.pop_back();
  program.ranks[0].instructions.pop_back();
  EXPECT_EQ(diagnosed(simulate(program)).code, Diag::InvalidProgram);
}

TEST(Simulator, ReportsAWaitForAReplicaThatComesTooLate) {
  // Two separate chains of ranks, of which the second takes the micro-batches in reverse. Their
  // messages match, but each waits for the other's pass of a micro-batch that comes late.
  Plan plan = smallPlan();
  plan.globalBatch = Samples(6);
  plan.microBatches = 3;
  plan.stages[0].replicas = {smallReplica(3, 3, "cpu", 0), smallReplica(3, 2, "cpu", 1)};
  plan.stages[1].replicas = {smallReplica(3, 2, "gpu", 0), smallReplica(3, 2, "gpu", 1)};
  Program program = smallProgram(plan);
  for (int rank : {1, 3})
    for (Instruction &instruction : program.ranks[rank].instructions)
      if (instruction.microBatch >= 0)
        instruction.microBatch = 2 - instruction.microBatch;
  auto error = program.verify();
  ASSERT_FALSE(bool(error)) << toText(std::move(error));
  EXPECT_EQ(diagnosed(simulate(program)).code, Diag::Deadlock);
}

TEST(Simulator, LookupsAreMeetingsOfTheStage) {
  auto program = lower(smallPlanWithTable(), smallGraphWithTable(), smallCluster());
  ASSERT_TRUE(bool(program)) << toText(program.takeError());
  auto simulation = simulate(*program);
  ASSERT_TRUE(bool(simulation)) << toText(simulation.takeError());
  const Timeline &timeline = simulation->timeline;
  EXPECT_DOUBLE_EQ(timeline.iteration.value(), smallPlanWithTable().iteration.value());
  EXPECT_EQ(event(timeline, 1, Op::Forward, 0).begin, Seconds(1));
  // Rank 1 ends its forward pass of the first micro-batch at 3, rank 0 at 4: they meet.
  EXPECT_EQ(event(timeline, 1, Op::Lookup, 1).begin, Seconds(4));
  EXPECT_EQ(event(timeline, 0, Op::LookupGradient, 0).begin,
            event(timeline, 1, Op::LookupGradient, 0).begin);
}

TEST(Simulator, NestedDeviceSetsByHand) {
  Simulation simulation = simulated(nestedPlan());
  const Timeline &timeline = simulation.timeline;
  // Stage 1: rank 0 has two of its five samples itself, rank 1 none of its three.
  EXPECT_DOUBLE_EQ(event(timeline, 0, Op::Forward, 0).end.value(), 2);
  EXPECT_DOUBLE_EQ(event(timeline, 0, Op::Receive, 0).end.value(), 2); // what it keeps
  // Stage 2 begins when both ranks of stage 1 are done, at 6; ranks 2 and 3 receive until 7.
  EXPECT_DOUBLE_EQ(event(timeline, 3, Op::Receive, 0).begin.value(), 6);
  EXPECT_DOUBLE_EQ(event(timeline, 3, Op::Backward, 0).end.value(), 10);
  // Both ranks of stage 1 receive gradients from 10 to 11 and have their own until 17; in stage 0
  // rank 1 receives until 18. So a micro-batch takes 22. Of the all-reduces of 2 on all ranks, on
  // two and on all, the first two run beside the backward passes that follow; then updates.
  EXPECT_NEAR(timeline.iteration.value(), 2 * 22 + 2 + 3 * 1, 1e-12);
  EXPECT_DOUBLE_EQ(event(timeline, 3, Op::AllReduce, -1).begin.value(), 22 + 10);
  EXPECT_EQ(simulation.eager, timeline.iteration);
}

TEST(Simulator, ARankIsInOnePartAtATime) {
  Timeline timeline = simulated(interleavedPlan()).timeline;
  auto error = timeline.verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
  // Rank 1 has the most to do: four times 3 and 5, and the update.
  EXPECT_GE(timeline.iteration.value(), 4 * (3 + 5) + 1);
}
