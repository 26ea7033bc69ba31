// The search over the time of the slowest stage where memory is tight, against lists of all plans.
#include "search/exact/steady/Bottleneck.h"
#include "support/RandomProblem.h"

#include "search/placement/Strategy.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
/// A random problem in steady state whose devices hold a few micro-batches of some stages.
class TightProblem : public test::RandomProblem {
public:
  explicit TightProblem(int seed) : RandomProblem(seed) {
    request.iterationModel = IterationModel::SteadyState;
    request.globalBatch = Samples(8 + seed % 5);
    request.microBatches = 4;
    for (size_t i = 0; i < graph.layers.size(); ++i)
      graph.layers[i].activationBytes = Bytes(10 + (seed * 37 + int(i) * 101) % 300);
    for (DeviceType &type : cluster.types)
      type.memory = Bytes(400 + (seed * 613) % 3600);
  }
};
} // namespace

TEST(CountTable, tellsStagesBehindApartWhereMemoryDoes) {
  int apart = 0, alike = 0;
  for (int seed = 0; seed < 200; ++seed) {
    const TightProblem tight(seed);
    const Problem problem = llvm::cantFail(tight.problem());
    Evaluator evaluator(problem);
    const int microBatches = evaluator.space.microBatches.front();
    const int deepest = std::min(3, microBatches - 1);
    const CountTable table(evaluator, microBatches, /*limit=*/1e9, deepest);
    (table.depths() > 1 ? apart : alike) += 1;
    const std::vector<int> &at = evaluator.space.positions;
    const auto mayHave = [&](int begin, int end) {
      const bool isWhole = begin == 0 && end + 1 == table.positions;
      return isWhole ? evaluator.space.minStages <= 1 : evaluator.space.maxStages > 1;
    };
    for (int end = 1; end < table.positions; ++end)
      for (int begin = 0; begin < end; ++begin)
        for (int type = 0; type < table.types; ++type)
          for (int behind = 0; mayHave(begin, end) && behind <= deepest; ++behind)
            EXPECT_EQ(table.at(begin, end, type, std::min(behind, table.depths() - 1)),
                      evaluator.stages.leastCount({at[begin], at[end]}, type, table.limit,
                                                  microBatches, std::min(behind + 1, microBatches)))
                << "seed " << seed;
  }
  EXPECT_GT(apart, 20);
  EXPECT_GT(alike, 20);
}

TEST(Bottleneck, boundsWithTightMemoryNeverPassTheOptimum) {
  int compared = 0, proven = 0;
  for (int seed = 0; seed < 400; ++seed) {
    const TightProblem tight(seed);
    const Problem problem = llvm::cantFail(tight.problem());
    Evaluator evaluator(problem);
    const Solution best = llvm::cantFail(Exhaustive::run(evaluator, {}));
    const Solution found = llvm::cantFail(Parametric::run(evaluator, {}));
    EXPECT_TRUE(best.placement || !found.placement) << "seed " << seed;
    if (!best.placement)
      continue;
    EXPECT_LE(*found.bound, *best.bound * (1 + 1e-9)) << "seed " << seed;
    proven += found.placement && *found.bound >= *best.bound * (1 - 1e-6);
    ++compared;
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(proven, 40);
}
