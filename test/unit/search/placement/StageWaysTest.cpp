// In which way a stage runs where several fit.
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

TEST(StageWays, anotherThanThePlainestIsNeverWorseWhereMemoryLimitsShares) {
  int limited = 0, faster = 0;
  for (int seed = 0; seed < 400; ++seed) {
    test::RandomProblem random = tightProblem(seed);
    Problem problem = llvm::cantFail(random.problem());
    Evaluator evaluator(problem);
    LayerRange all{0, problem.graph.size()};
    for (const GroupOption &option : evaluator.space.options) {
      if (option.group.counts.size() == 1 || option.group.size() > evaluator.stages.fullSize(1))
        continue;
      StageWay first = evaluator.stages.waysFor(option.group.size()).front();
      StageEvaluation plain = evaluator.stages.evaluate(all, option.group, 1, {}, first);
      StageEvaluation taken = evaluator.stages.evaluate(all, option.group, 1, {});
      if (!plain.fits || !taken.fits)
        continue;
      ++limited;
      Seconds before = plain.cost.forward + plain.cost.backward,
              after = taken.cost.forward + taken.cost.backward;
      EXPECT_LE(after, before) << "seed " << seed;
      EXPECT_LE(taken.cost.synchronization, plain.cost.synchronization) << "seed " << seed;
      EXPECT_LE(taken.cost.largestShare, plain.cost.largestShare) << "seed " << seed;
      faster += after < before;
    }
  }
  EXPECT_GT(limited, 100);
  EXPECT_GT(faster, 10);
}
