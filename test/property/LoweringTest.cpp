// Laws of lowering: what it makes is a valid program, moves every sample once and carries the
// plan's times.
#include "RandomPipeline.h"

#include "ir/MicroBatches.h"
#include "support/Diagnostic.h"

#include <gtest/gtest.h>

#include <map>

using namespace heterplan;
using heterplan::test::RandomPipeline;
using heterplan::test::Ratio;

namespace {
constexpr uint64_t rounds = 1000;

Program lowered(const RandomPipeline &pipeline) {
  auto program = lower(pipeline.plan, pipeline.graph, pipeline.cluster);
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  return std::move(*program);
}

template <typename Check> void forEachProgram(Check check) {
  for (Schedule schedule : {Schedule::OneForwardOneBackward, Schedule::GPipe})
    for (uint64_t seed = 0; seed < rounds; ++seed) {
      RandomPipeline pipeline(seed, Ratio::Independent, schedule);
      SCOPED_TRACE(seed);
      check(pipeline, lowered(pipeline));
      if (testing::Test::HasFailure())
        return;
    }
}
} // namespace

TEST(LoweringLaws, ProgramsAreValid) {
  forEachProgram([](const RandomPipeline &, const Program &program) {
    auto error = program.verify();
    ASSERT_FALSE(bool(error)) << toText(std::move(error));
  });
}

TEST(LoweringLaws, RanksOfAStageCoverTheMicroBatchInOrder) {
  forEachProgram([](const RandomPipeline &pipeline, const Program &program) {
    std::map<int, int64_t> covered;
    for (const RankProgram &rank : program.ranks) {
      const ProgramPart &part = rank.parts.front();
      ASSERT_EQ(part.samples.begin, covered[part.stage]);
      covered[part.stage] += part.samples.count;
    }
    MicroBatches microBatches{pipeline.plan.globalBatch, program.microBatches};
    for (auto [stage, samples] : covered)
      ASSERT_EQ(samples, microBatches.fullSize());
  });
}

TEST(LoweringLaws, DurationsAreThoseOfThePlan) {
  forEachProgram([](const RandomPipeline &pipeline, const Program &program) {
    for (const RankProgram &rank : program.ranks) {
      std::map<Op, double> sums;
      for (const Instruction &instruction : rank.instructions)
        sums[instruction.op] += instruction.seconds.value();
      const Stage &stage = pipeline.plan.stages[rank.parts.front().stage];
      const Replica &replica = stage.replicas[rank.parts.front().replica];
      double m = program.microBatches;
      // A replica without samples of a micro-batch receives nothing, and waits as long; if
      // transfers overlap, nobody waits within a pass.
      const bool isApart = !program.overlapsTransfers;
      const double receive = isApart ? m * stage.receive.value() : sums[Op::Receive];
      const double gradient =
          isApart ? m * stage.receiveGradient.value() : sums[Op::ReceiveGradient];
      ASSERT_LE(sums[Op::Receive], m * stage.receive.value() + 1e-9);
      ASSERT_NEAR(sums[Op::Lookup], m * stage.lookup.value(), 1e-9);
      ASSERT_NEAR(sums[Op::LookupGradient], m * stage.lookupGradient.value(), 1e-9);
      ASSERT_NEAR(sums[Op::Receive] + sums[Op::Forward], receive + m * replica.forward.value(),
                  1e-9);
      ASSERT_LE(sums[Op::ReceiveGradient], m * stage.receiveGradient.value() + 1e-9);
      ASSERT_NEAR(sums[Op::ReceiveGradient] + sums[Op::Backward] + sums[Op::GradientReduceScatter],
                  gradient + m * replica.backward.value(), 1e-9);
      ASSERT_NEAR(sums[Op::AllReduce] + sums[Op::ReduceScatter] + sums[Op::Step] +
                      sums[Op::AllGather],
                  stage.sync.value(), 1e-9);
      ASSERT_EQ(sums[Op::Send] + sums[Op::SendGradient], 0);
    }
  });
}

TEST(LoweringLaws, NoMoreMicroBatchesAreInFlightThanMemoryAllows) {
  forEachProgram([](const RandomPipeline &, const Program &program) {
    for (const RankProgram &rank : program.ranks) {
      int inFlight = 0, most = 0;
      for (const Instruction &instruction : rank.instructions) {
        inFlight += (instruction.op == Op::Forward) - (instruction.op == Op::Backward);
        most = std::max(most, inFlight);
      }
      const int behind = program.stages - rank.parts.front().stage; // this one included
      const int allowed = program.overlapsTransfers ? 2 * behind - 1 : behind;
      ASSERT_EQ(most, program.schedule == Schedule::GPipe
                          ? program.microBatches
                          : std::min(program.microBatches, allowed));
    }
  });
}
