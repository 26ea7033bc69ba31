// Laws of the simulator against the formula that plans are priced with. Why equality needs a
// condition is told in docs/rationale/simulator.md.
#include "RandomPipeline.h"

#include "cost/Simulator.h"
#include "search/Search.h"
#include "support/RandomProblem.h"

#include <gtest/gtest.h>

using namespace heterplan;
using heterplan::test::RandomPipeline;
using heterplan::test::RandomProblem;
using heterplan::test::Ratio;

namespace {
constexpr uint64_t rounds = 1500;

Simulation simulated(const Plan &plan, const LayerGraph &graph, const Cluster &cluster) {
  auto program = lower(plan, graph, cluster);
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  auto simulation = simulate(*program);
  EXPECT_TRUE(bool(simulation)) << toText(simulation.takeError());
  return std::move(*simulation);
}

Simulation simulated(const RandomPipeline &pipeline) {
  return simulated(pipeline.plan, pipeline.graph, pipeline.cluster);
}

double tolerance(const Plan &plan) { return 1e-9 * std::max(1e-3, plan.iteration.value()); }
} // namespace

TEST(SimulatorLaws, IterationTimeIsExactWhenBackwardIsProportionalToForward) {
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    RandomPipeline pipeline(seed, Ratio::Equal, Schedule::OneForwardOneBackward);
    ASSERT_NEAR(simulated(pipeline).timeline.iteration.value(), pipeline.plan.iteration.value(),
                tolerance(pipeline.plan))
        << "seed " << seed;
  }
}

TEST(SimulatorLaws, IterationTimeIsThatOfTheScheduleAndTheFormulaNeverMore) {
  int slower = 0;
  for (uint64_t seed = 0; seed < 2 * rounds; ++seed) {
    RandomPipeline pipeline(seed, Ratio::Independent, Schedule::OneForwardOneBackward);
    const Plan &plan = pipeline.plan;
    ASSERT_NEAR(simulated(pipeline).timeline.iteration.value(), plan.iteration.value(),
                tolerance(plan))
        << "seed " << seed;
    Seconds formula = leastIterationTime(pipeline.timed(), plan.microBatches, plan.schedule);
    ASSERT_LE(formula, plan.iteration) << "seed " << seed;
    slower += formula < plan.iteration;
  }
  EXPECT_GT(slower, 10); // else this would say nothing of the schedule
}

TEST(SimulatorLaws, IterationTimeOfGPipeIsExact) {
  for (Ratio ratio : {Ratio::Equal, Ratio::Independent})
    for (uint64_t seed = 0; seed < rounds; ++seed) {
      RandomPipeline pipeline(seed, ratio, Schedule::GPipe);
      ASSERT_NEAR(simulated(pipeline).timeline.iteration.value(), pipeline.plan.iteration.value(),
                  tolerance(pipeline.plan))
          << "seed " << seed;
    }
}

TEST(SimulatorLaws, EagerIsNeverSlower) {
  for (Schedule schedule : {Schedule::GPipe, Schedule::OneForwardOneBackward})
    for (uint64_t seed = 0; seed < rounds; ++seed) {
      RandomPipeline pipeline(seed, Ratio::Independent, schedule);
      Simulation simulation = simulated(pipeline);
      ASSERT_LE(simulation.eager.value(),
                simulation.timeline.iteration.value() + tolerance(pipeline.plan))
          << "seed " << seed;
    }
}

TEST(SimulatorLaws, WhatARunShouldTakeIsTheEagerTime) {
  int sooner = 0;
  for (Ratio ratio : {Ratio::Equal, Ratio::Independent})
    for (uint64_t seed = 0; seed < rounds; ++seed) {
      RandomPipeline pipeline(seed, ratio, Schedule::OneForwardOneBackward);
      const Plan &plan = pipeline.plan;
      Seconds expected = expectedTime(pipeline.timed(), plan.microBatches);
      ASSERT_NEAR(expected.value(), simulated(pipeline).eager.value(), tolerance(plan))
          << "seed " << seed;
      sooner += expected < plan.iteration * 0.99;
    }
  EXPECT_GT(sooner, 100);
}

TEST(SimulatorLaws, TimelinesAreValidAndHoldEachInstructionOnce) {
  for (uint64_t seed = 0; seed < rounds / 5; ++seed) {
    RandomPipeline pipeline(seed, Ratio::Independent, Schedule::OneForwardOneBackward);
    Timeline timeline = simulated(pipeline).timeline;
    auto error = timeline.verify();
    ASSERT_FALSE(bool(error)) << toText(std::move(error));
    for (size_t i = 0; i < timeline.events.size(); ++i) {
      bool continues = i && timeline.events[i].rank == timeline.events[i - 1].rank;
      ASSERT_EQ(timeline.events[i].index, continues ? timeline.events[i - 1].index + 1 : 0);
    }
  }
}

TEST(SimulatorLaws, PlansThatAreSearchedRunAsPredicted) {
  int pipelines = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomProblem random(seed);
    random.request.overlapsTransfers = seed % 3 == 1;
    auto problem = random.problem();
    ASSERT_TRUE(bool(problem)) << toText(problem.takeError());
    auto outcome = search(*problem, "auto", {});
    ASSERT_TRUE(bool(outcome)) << toText(outcome.takeError());
    if (!outcome->plan)
      continue;
    const Plan &plan = *outcome->plan;
    pipelines += plan.stages.size() > 1;
    Simulation simulation = simulated(plan, problem->graph, problem->cluster);
    ASSERT_NEAR(simulation.timeline.iteration.value(), plan.iteration.value(), tolerance(plan))
        << "seed " << seed;
    ASSERT_TRUE(plan.expected);
    ASSERT_NEAR(simulation.eager.value(), plan.expected->value(), tolerance(plan))
        << "seed " << seed;
  }
  EXPECT_GT(pipelines, 50);
}
