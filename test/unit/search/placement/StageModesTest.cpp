// The execution modes of a stage that a search has to look at.
#include "search/placement/Evaluator.h"
#include "support/RandomProblem.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// Memory limits what devices may take.
test::RandomProblem tightProblem(int seed) {
  test::RandomProblem random(seed);
  random.request.optimizer = Optimizer::Adam;
  random.request.recompute = RecomputePolicy::Auto;
  random.request.shardState = std::nullopt;
  int more = seed;
  for (Layer &layer : random.graph.layers)
    layer.activationBytes = Bytes(10 + (more += 37) % 300);
  for (DeviceType &type : random.cluster.types)
    type.memory = Bytes(400 + (more += 977) % 3600);
  return random;
}
} // namespace

/// Over all stages of one cut on all groups of random problems.
TEST(StageModes, AModeIsLeftOutOnlyIfAnotherOneDominatesIt) {
  int stages = 0, several = 0, dropped = 0;
  for (int seed = 0; seed < 200; ++seed) {
    test::RandomProblem random = tightProblem(seed);
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    LayerRange all{0, problem.graph.size()};
    for (const GroupOption &option : evaluator.space.options) {
      const auto kept = evaluator.stages.evaluateModes(all, option.group, 2, {false, 2});
      stages += !kept.empty();
      several += kept.size() > 1;
      for (const ExecutionMode &mode : evaluator.stages.modesFor(option.group.replicas())) {
        StageEvaluation other = evaluator.stages.evaluate(all, option.group, 2, {false, 2}, mode);
        if (!other.fits)
          continue;
        const bool isKept =
            llvm::any_of(kept, [&](const StageEvaluation &each) { return each.mode == mode; });
        dropped += !isKept;
        EXPECT_TRUE(isKept || llvm::any_of(kept,
                                           [&](const StageEvaluation &each) {
                                             return dominates(each.cost, other.cost);
                                           }))
            << "seed " << seed;
      }
    }
  }
  EXPECT_GT(stages, 300);
  EXPECT_GT(several, 5);
  EXPECT_GT(dropped, 300);
}

/// Sharded state is updated in parts, so that the whole state is never faster.
TEST(StageModes, TheFastestModeIsNoSlowerThanAnyOther) {
  for (int seed = 0; seed < 100; ++seed) {
    test::RandomProblem random = tightProblem(seed);
    random.request.ignoreMemory = true;
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    LayerRange all{0, problem.graph.size()};
    for (const GroupOption &option : evaluator.space.options) {
      const int devices = option.group.replicas();
      if (devices > evaluator.stages.fullSize(1) || option.group.counts.size() > 1)
        continue;
      const StageEvaluation fastest = evaluator.stages.evaluate(
          all, option.group, 1, {}, evaluator.stages.fastestMode(devices));
      for (const ExecutionMode &mode : evaluator.stages.modesFor(devices)) {
        StageEvaluation other = evaluator.stages.evaluate(all, option.group, 1, {}, mode);
        EXPECT_TRUE(!other.fits || !fastest.fits || dominates(fastest.cost, other.cost))
            << "seed " << seed;
      }
    }
  }
}
