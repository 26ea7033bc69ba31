// Small plans in which devices run several stages, with the model and cluster of SmallPlan.h.
#pragma once

#include "SmallPlan.h"

namespace heterplan::test {

/// Stage `id` with layer `layer`; each replica on CPU `cpus[i]` with `shares[i]` samples.
inline Stage sharedStage(int id, const char *layer, std::vector<int> cpus,
                         std::vector<int64_t> shares, double forward) {
  Stage stage;
  stage.id = id;
  stage.layers = {layer};
  for (size_t i = 0; i < cpus.size(); ++i)
    stage.replicas.push_back(smallReplica(shares[i], forward, "cpu", cpus[i]));
  stage.receive = Seconds(id ? 1 : 0);
  stage.receiveGradient = Seconds(id < 2 ? 1 : 0);
  stage.forward = stage.receive + Seconds(forward);
  stage.backward = stage.receiveGradient + Seconds(2 * forward);
  stage.update = Seconds(1);
  stage.sync = Seconds(cpus.size() > 1 ? 3 : 1);
  return stage;
}

/// Nested device sets: stage 0 on CPUs 0 to 3, stage 1 on 0 and 1, stage 2 on 0 to 3, in another
/// order. Two micro-batches of eight samples.
inline Plan nestedPlan() {
  Plan plan;
  plan.model = plan.cluster = "small";
  plan.globalBatch = Samples(16);
  plan.microBatches = 2;
  plan.schedule = Schedule::Burst;
  plan.stages = {sharedStage(0, "a", {0, 1, 2, 3}, {4, 4, 4, 4}, 2),
                 sharedStage(1, "b", {0, 1}, {10, 6}, 3),
                 sharedStage(2, "c", {3, 0, 2, 1}, {4, 2, 6, 4}, 1)};
  return plan;
}

/// Two ranks: stages 0 and 2 on the first, stage 1 on the second.
inline Plan interleavedPlan() {
  Plan plan;
  plan.model = plan.cluster = "small";
  plan.globalBatch = Samples(8);
  plan.microBatches = 4;
  plan.schedule = Schedule::Interleaved;
  plan.stages = {sharedStage(0, "a", {0}, {8}, 1), sharedStage(1, "b", {1}, {8}, 2),
                 sharedStage(2, "c", {0}, {8}, 1)};
  return plan;
}

} // namespace heterplan::test
