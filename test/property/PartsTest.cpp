// Laws of programs in which ranks hold parts of several stages: they are valid, run to their end,
// compute every sample of every stage once, and a planted fault is found.
#include "SharedDevices.h"

#include "cost/Simulator.h"
#include "ir/MicroBatches.h"
#include "support/Diagnostic.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace heterplan;
using heterplan::test::SharedDevices;

namespace {
constexpr uint64_t rounds = 1500;

Program lowered(const SharedDevices &shared) {
  auto program = lower(shared.plan, shared.pipeline.graph, shared.pipeline.cluster);
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  return program ? std::move(*program) : Program();
}

template <typename Check> void forEachProgram(Check check) {
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    SharedDevices shared(seed);
    SCOPED_TRACE(seed);
    check(shared, lowered(shared));
    if (testing::Test::HasFailure())
      return;
  }
}

/// The passes of `stage` on a rank, in order: micro-batch i forward as i, backward as -1 - i.
std::vector<int> passesOf(const RankProgram &rank, int stage) {
  std::vector<int> result;
  for (const Instruction &each : rank.instructions)
    if (rank.partOf(each).stage == stage && (each.op == Op::Forward || each.op == Op::Backward))
      result.push_back(each.op == Op::Forward ? each.microBatch : -1 - each.microBatch);
  return result;
}
} // namespace

TEST(PartsLaws, ProgramsAreValidAndRunToTheirEnd) {
  size_t several = 0;
  forEachProgram([&](const SharedDevices &, const Program &program) {
    auto error = program.verify();
    ASSERT_FALSE(bool(error)) << toText(std::move(error));
    auto simulation = simulate(program);
    ASSERT_TRUE(bool(simulation)) << toText(simulation.takeError());
    auto overlap = simulation->timeline.verify(); // a rank is never in two parts at once
    ASSERT_FALSE(bool(overlap)) << toText(std::move(overlap));
    size_t instructions = 0;
    for (const RankProgram &rank : program.ranks) {
      instructions += rank.instructions.size();
      several += rank.parts.size() > 1;
    }
    ASSERT_EQ(simulation->timeline.events.size(), instructions);
  });
  EXPECT_GT(several, rounds);
}

TEST(PartsLaws, RanksAreTheDevices) {
  forEachProgram([](const SharedDevices &shared, const Program &program) {
    std::set<DeviceRef> planned, ranked;
    size_t parts = 0, replicas = 0;
    for (const Stage &stage : shared.plan.stages)
      for (const Replica &replica : stage.replicas) {
        planned.insert(replica.devices[0]);
        ++replicas;
      }
    for (const RankProgram &rank : program.ranks) {
      ranked.insert(rank.device);
      parts += rank.parts.size();
    }
    ASSERT_EQ(planned, ranked);
    ASSERT_EQ(ranked.size(), program.ranks.size());
    ASSERT_EQ(parts, replicas);
  });
}

TEST(PartsLaws, EverySampleOfEveryStageIsComputedOnce) {
  forEachProgram([](const SharedDevices &, const Program &program) {
    MicroBatches microBatches{program.globalBatch, program.microBatches};
    std::map<std::tuple<int, int, bool>, std::vector<int>> computed; // stage, micro-batch, forward
    for (const RankProgram &rank : program.ranks)
      for (const Instruction &each : rank.instructions)
        if (each.op == Op::Forward || each.op == Op::Backward) {
          auto &samples =
              computed[{rank.partOf(each).stage, each.microBatch, each.op == Op::Forward}];
          samples.resize(microBatches.sizeOf(each.microBatch));
          for (int64_t i = 0; i < each.samples.count; ++i)
            ++samples[each.samples.begin + i];
        }
    ASSERT_EQ(computed.size(), size_t(program.stages) * program.microBatches * 2);
    for (const auto &[pass, samples] : computed)
      ASSERT_EQ(samples, std::vector<int>(microBatches.sizeOf(std::get<1>(pass)), 1));
  });
}

TEST(PartsLaws, EachStageKeepsTheOrderOfItsSchedule) {
  forEachProgram([](const SharedDevices &shared, const Program &program) {
    Plan alone = shared.pipeline.plan; // devices of their own
    Program reference =
        llvm::cantFail(lower(alone, shared.pipeline.graph, shared.pipeline.cluster));
    const std::vector<RankGroup> groups = reference.stageGroups();
    for (const RankProgram &rank : program.ranks)
      for (const ProgramPart &part : rank.parts) {
        std::vector<int> order;
        for (int i = 0; i < program.microBatches && program.schedule == Schedule::Burst; ++i)
          order.insert(order.end(), {i, -1 - i});
        if (program.schedule == Schedule::Interleaved)
          order = passesOf(reference.ranks[*groups[part.stage].begin()], part.stage);
        ASSERT_EQ(passesOf(rank, part.stage), order);
      }
  });
}

TEST(PartsLaws, NoRankIsIdleWhileAllAre) {
  // In one order, something is always under way: the iteration is no longer than all work in turn,
  // and no shorter than the work of the busiest rank; sums of gradients run beside it.
  forEachProgram([](const SharedDevices &, const Program &program) {
    Seconds all{}, busiest{};
    for (const RankProgram &rank : program.ranks) {
      Seconds own{}, sums{};
      for (const Instruction &each : rank.instructions)
        (runsBesidePasses(each.op) ? sums : own) += each.seconds;
      all += own + sums;
      busiest = std::max({busiest, own, sums});
    }
    Seconds iteration = llvm::cantFail(simulate(program)).timeline.iteration;
    ASSERT_LE(iteration.value(), all.value() * (1 + 1e-9));
    ASSERT_GE(iteration.value(), busiest.value() * (1 - 1e-9));
  });
}

namespace {
/// Plants one fault that breaks the program for certain; false where this program has no place for
/// it.
bool plant(Program &program, int kind, std::mt19937_64 &engine) {
  auto any = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(engine);
  };
  RankProgram &rank = program.ranks[any(program.ranks.size())];
  Instruction &instruction = rank.instructions[any(rank.instructions.size())];
  ProgramPart &part = rank.parts[any(rank.parts.size())];
  switch (kind) {
  case 0: // another part
    if (rank.parts.size() < 2 || instruction.op == Op::Load || instruction.op == Op::Step)
      return false;
    if (instruction.op == Op::AllReduce && instruction.group.size() < 2)
      return false;
    instruction.part = (instruction.part + 1) % static_cast<int>(rank.parts.size());
    return true;
  case 1: // left out
    if (instruction.op == Op::Load || instruction.op == Op::Step)
      return false;
    rank.instructions.erase(rank.instructions.begin() + (&instruction - rank.instructions.data()));
    return true;
  case 2: // samples twice, or none
    ++part.samples.begin;
    return true;
  case 3:
    part.stage = (part.stage + 1) % program.stages;
    return program.stages > 1;
  case 4: // to another rank
    if (!isSend(instruction.op) || program.ranks.size() < 2)
      return false;
    instruction.peer = (instruction.peer + 1) % static_cast<int>(program.ranks.size());
    return true;
  default: // a backward pass before the forward pass
    for (Instruction &each : rank.instructions)
      if (each.op == Op::Forward || each.op == Op::Backward) {
        each.op = each.op == Op::Forward ? Op::Backward : Op::Forward;
        return true;
      }
    return false;
  }
}
} // namespace

TEST(PartsLaws, PlantedFaultsAreFound) {
  std::map<int, int> planted;
  for (uint64_t seed = 0; seed < rounds; ++seed) {
    SharedDevices shared(seed);
    Program program = lowered(shared);
    std::mt19937_64 engine(seed);
    int kind = static_cast<int>(seed % 6);
    if (!plant(program, kind, engine))
      continue;
    ++planted[kind];
    llvm::Error error = program.verify();
    ASSERT_TRUE(bool(error)) << "seed " << seed << ", fault " << kind << " is not found";
    ASSERT_TRUE(error.isA<DiagnosticError>());
    llvm::consumeError(std::move(error));
  }
  for (int kind = 0; kind < 6; ++kind)
    EXPECT_GT(planted[kind], 25) << "fault " << kind;
}
