#include "cost/Calibration.h"

#include "cost/ConstantCostModel.h"
#include "cost/ProfiledModel.h"
#include "cost/Simulator.h"

#include "unit/ir/Diagnosed.h"
#include "unit/ir/SmallPlan.h"

#include <gtest/gtest.h>

using namespace heterplan;
using namespace heterplan::test;

namespace {
/// Two CPUs in one node, a GPU in another.
Cluster cluster() {
  Cluster cluster = smallCluster();
  cluster.network = {"ethernet", BytesPerSecond(1e9), Seconds(1e-3), "", {}};
  for (auto [type, count, link] : {std::tuple("cpu", 2, "bus"), {"gpu", 1, ""}}) {
    NodeGroup node;
    node.name = type;
    node.devices[type] = count;
    node.link = {link, BytesPerSecond(1e10), Seconds(1e-6), "", {}};
    node.link.allReduce = {BytesPerSecond(1e10), Seconds(1e-6)};
    cluster.nodes.push_back(node);
  }
  return cluster;
}

Program program() {
  auto program = lower(smallPlan(), smallGraph(), cluster());
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  return std::move(*program);
}

/// How the machine differs from what was predicted.
struct Distortion {
  double cpuForward = 1, cpuBackward = 1, cpuUpdate = 1, gpu = 1, bus = 1, ethernet = 1;

  double of(const RankProgram &rank, const Instruction &instruction) const {
    switch (instruction.op) {
    case Op::Forward:
      return rank.parts[0].stage == 0 ? cpuForward : gpu;
    case Op::Backward:
      return rank.parts[0].stage == 0 ? cpuBackward : gpu;
    case Op::Step:
      return rank.parts[0].stage == 0 ? cpuUpdate : gpu;
    case Op::AllReduce:
      return bus;
    default:
      return ethernet;
    }
  }
};

/// The timeline of a step with `distortion`.
Timeline measured(const Distortion &distortion) {
  Program real = program();
  for (RankProgram &rank : real.ranks)
    for (Instruction &instruction : rank.instructions)
      instruction.seconds = instruction.seconds * distortion.of(rank, instruction);
  auto simulation = simulate(real);
  EXPECT_TRUE(bool(simulation)) << toText(simulation.takeError());
  simulation->timeline.measured = true;
  return std::move(simulation->timeline);
}

Calibration calibrated(std::vector<Timeline> timelines) {
  std::vector<std::string> paths(timelines.size(), "run.trace.json");
  auto result = calibrate(program(), cluster(), timelines, paths);
  EXPECT_TRUE(bool(result)) << toText(result.takeError());
  return result ? std::move(*result) : Calibration();
}

const LinkRatio &link(const Calibration &calibration, const char *name) {
  for (const LinkRatio &each : calibration.links)
    if (each.link.name == name)
      return each;
  ADD_FAILURE() << "no link " << name;
  return calibration.links[0];
}

std::string refused(Timeline timeline) {
  auto result = calibrate(program(), cluster(), {timeline}, {std::string("run.trace.json")});
  return result ? "" : toText(result.takeError());
}

TEST(Calibration, ARunAsPredictedChangesNothing) {
  Calibration found = calibrated({measured({})});
  ASSERT_EQ(found.stages.size(), 2u);
  for (const StageRatio &stage : found.stages)
    for (const Ratio &ratio : {stage.forward, stage.backward, stage.update})
      EXPECT_NEAR(ratio.value, 1, 1e-12);
  EXPECT_NEAR(link(found, "bus").ratio.value, 1, 1e-12);
  EXPECT_NEAR(link(found, "ethernet").ratio.value, 1, 1e-12);
  EXPECT_EQ(found.predicted, found.measured);
  EXPECT_DOUBLE_EQ(found.corrected.value(), found.measured.value());
  EXPECT_DOUBLE_EQ(found.measuredOverlap.hidden(), found.predictedOverlap.hidden());
}

TEST(Calibration, FindsAKnownDistortionAgain) {
  Distortion distortion{1.5, 0.8, 3, 1.25, 4, 2};
  Calibration found = calibrated({measured(distortion)});
  ASSERT_EQ(found.stages.size(), 2u);
  EXPECT_EQ(found.stages[0].deviceType, "cpu");
  EXPECT_NEAR(found.stages[0].forward.value, 1.5, 1e-9);
  EXPECT_NEAR(found.stages[0].backward.value, 0.8, 1e-9);
  EXPECT_NEAR(found.stages[0].update.value, 3, 1e-9);
  EXPECT_EQ(found.stages[0].forward.count, 8u); // two replicas, four micro-batches
  EXPECT_NEAR(found.stages[1].forward.value, 1.25, 1e-9);
  EXPECT_NEAR(link(found, "bus").ratio.value, 4, 1e-9);
  EXPECT_NEAR(link(found, "ethernet").ratio.value, 2, 1e-9);
  EXPECT_NE(found.predicted, found.measured);
  EXPECT_NEAR(found.corrected.value(), found.measured.value(), 1e-9);
}

TEST(Calibration, RefusesSumsThatOverlapPasses) {
  Program overlapping = program();
  overlapping.overlapsSums = true;
  auto result = calibrate(overlapping, cluster(), {measured({})}, {std::string("run.trace.json")});
  ASSERT_FALSE(bool(result));
  EXPECT_NE(toText(result.takeError()).find("without --overlap-grad-reduce"), std::string::npos);
}

TEST(Calibration, RefusesTransfersThatOverlapPasses) {
  Program overlapping = program();
  overlapping.overlapsTransfers = true;
  auto result = calibrate(overlapping, cluster(), {measured({})}, {std::string("run.trace.json")});
  ASSERT_FALSE(bool(result));
  EXPECT_NE(toText(result.takeError()).find("without --overlap-transfers"), std::string::npos);
}

TEST(Calibration, OneSlowStepOfThreeIsLeftOut) {
  Distortion usual{1.5, 1.5, 1, 1, 1, 1}, disturbed{15, 15, 15, 15, 15, 15};
  Calibration found = calibrated({measured(usual), measured(disturbed), measured(usual)});
  EXPECT_NEAR(found.stages[0].forward.value, 1.5, 1e-9);
  EXPECT_NEAR(found.stages[1].backward.value, 1, 1e-9);
  EXPECT_NEAR(link(found, "ethernet").ratio.value, 1, 1e-9);
  EXPECT_EQ(found.measured, measured(usual).iteration);
}

TEST(Calibration, WaitingForTheSenderIsNoTimeOfTheLink) {
  Timeline timeline = measured({});
  for (TimelineEvent &event : timeline.events) // as the runtime has it: ready and waiting
    if (event.op == Op::Receive && event.microBatch == 0)
      event.begin = Seconds(0);
  EXPECT_NEAR(link(calibrated({timeline}), "ethernet").ratio.value, 1, 1e-9);
}

TEST(Calibration, TheCorrectedProfilePricesStagesAsTheyRan) {
  // Per sample, a and b take 0.4 s and 0.6 s forward on the CPU: three samples as the plan says.
  ProfileDatabase database;
  Profile base;
  base.model = "small";
  for (auto [layer, type, seconds] :
       {std::tuple("a", "cpu", 0.4), {"b", "cpu", 0.6}, {"c", "gpu", 0.5}})
    for (int64_t batch : {1, 3, 4, 8}) {
      ProfileEntry entry;
      entry.layer = layer;
      entry.deviceType = type;
      entry.batch = Samples(batch);
      entry.forward = Seconds(seconds * double(batch));
      entry.backward = entry.forward * 2;
      entry.update = Seconds(0.5);
      entry.spread = 0.02;
      base.entries.push_back(entry);
    }
  base.date = "2026-01-31";
  database.add(base, "base");
  ProfiledModel costs(database, "small", nullptr);
  Calibration found = calibrated({measured({1.5, 0.8, 3, 1.25, 4, 2})});
  auto profile = correctedProfile(found, smallPlan(), smallGraph(), cluster(), costs, database);
  ASSERT_TRUE(bool(profile)) << toText(profile.takeError());
  EXPECT_FALSE(bool(profile->verify()));
  EXPECT_EQ(profile->entries.size(), 3u * 4);
  for (const ProfileEntry &entry : profile->entries) {
    EXPECT_TRUE(entry.calibrated);
    EXPECT_EQ(entry.origin, Provenance::Measured);
    EXPECT_EQ(entry.spread, 0.02);
  }
  ASSERT_EQ(profile->links.size(), 2u);
  EXPECT_EQ(profile->links[0].name, "bus");
  EXPECT_NEAR(profile->links[0].bandwidth.value(), 1e10 / 4, 1);
  EXPECT_NEAR(profile->links[0].allReduce->bandwidth.value(), 1e10 / 4, 1);
  EXPECT_TRUE(profile->links[0].calibrated);
  EXPECT_EQ(profile->links[0].origin, Provenance::Modelled);
  EXPECT_NEAR(profile->links[1].latency.value(), 2e-3, 1e-12);

  profile->date = "2026-02-01";
  EXPECT_TRUE(database.add(*profile, "corrected").empty()) << "a correction is no conflict";
  LayerCost a = *costs.price(smallGraph().layers[0], cluster().types[0], Samples(3));
  LayerCost b = *costs.price(smallGraph().layers[1], cluster().types[0], Samples(3));
  EXPECT_NEAR((a.forward + b.forward).value(), 3 * 1.5, 1e-9);
  EXPECT_NEAR((a.backward + b.backward).value(), 6 * 0.8, 1e-9);
  EXPECT_NEAR(a.update.value(), 0.5 * 3, 1e-9);
  EXPECT_EQ(a.provenance, Provenance::Interpolated);
}

TEST(Calibration, WhatWasModelledStaysSoInTheProfile) {
  ProfileDatabase database;
  ConstantCostModel constant({Seconds(1), Seconds(2), Seconds(0.5)});
  ProfiledModel costs(database, "small", &constant);
  auto profile = correctedProfile(calibrated({measured({})}), smallPlan(), smallGraph(), cluster(),
                                  costs, database);
  ASSERT_TRUE(bool(profile)) << toText(profile.takeError());
  EXPECT_EQ(profile->entries.size(), 5u); // a and b at one and three samples, c at four
  for (const ProfileEntry &entry : profile->entries)
    EXPECT_EQ(entry.origin, Provenance::Modelled);
}

TEST(Calibration, RefusesTimelinesOfSomethingElse) {
  Timeline predicted = measured({});
  predicted.measured = false;
  EXPECT_EQ(refused(predicted), "run.trace.json: error: [HP1603] is a prediction, not a measured "
                                "timeline");
  Timeline foreign = measured({});
  foreign.events[2].op = foreign.events[2].op == Op::Load ? Op::Step : Op::Load;
  EXPECT_NE(refused(foreign).find("is not one of the plan"), std::string::npos);
  Timeline longer = measured({});
  longer.events.back().index = 1 << 30;
  EXPECT_NE(refused(longer).find("[HP1603]"), std::string::npos);
  Timeline shorter = measured({});
  shorter.events.pop_back();
  EXPECT_NE(refused(shorter).find("rank 2 of the plan is missing"), std::string::npos);
}

TEST(Calibration, StepsThatTookNoTimeSayNothing) {
  Timeline empty = measured({});
  for (TimelineEvent &event : empty.events)
    event.begin = event.end = Seconds(0);
  empty.iteration = Seconds(0);
  Calibration found = calibrated({empty});
  for (const StageRatio &stage : found.stages) {
    EXPECT_EQ(stage.forward.value, 1);
    EXPECT_EQ(stage.forward.count, 0u);
  }
}
} // namespace
