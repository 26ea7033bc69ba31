#include "ir/Program.h"

#include "ir/FileForms.h"
#include "support/Files.h"

#include "Diagnosed.h"
#include "SmallPlan.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

using namespace heterplan;
using namespace heterplan::test;

namespace {
Program smallProgram() {
  auto program = lower(smallPlan(), smallGraph(), smallCluster());
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  return std::move(*program);
}

/// The first instruction `op` of `rank`.
Instruction &first(Program &program, int rank, Op op) {
  for (Instruction &instruction : program.ranks[rank].instructions)
    if (instruction.op == op)
      return instruction;
  ADD_FAILURE() << "rank " << rank << " has no " << nameOf(op);
  return program.ranks[rank].instructions[0];
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

void drop(Program &program, int rank, Op op) {
  auto &list = program.ranks[rank].instructions;
  list.erase(list.begin() + (&first(program, rank, op) - list.data()));
}

struct Mutation {
  const char *message;
  std::function<void(Program &)> change;
};
class ProgramDefect : public testing::TestWithParam<Mutation> {};

TEST_P(ProgramDefect, IsDiagnosed) {
  Program program = smallProgram();
  GetParam().change(program);
  DiagnosticError error = diagnosed(program.verify());
  EXPECT_EQ(error.code, Diag::InvalidProgram);
  EXPECT_NE(error.message.find(GetParam().message), std::string::npos) << error.message;
}

INSTANTIATE_TEST_SUITE_P(
    Header, ProgramDefect,
    testing::Values(
        Mutation{"as many micro-batches as samples", [](Program &p) { p.microBatches = 0; }},
        Mutation{"as many micro-batches as samples", [](Program &p) { p.ranks.clear(); }},
        Mutation{"a stage has no ranks", [](Program &p) { p.stages = 2147483647; }},
        Mutation{"a stage has no ranks", [](Program &p) { p.stages = 3; }},
        Mutation{"not a time", [](Program &p) { p.predictedIteration = Seconds(-1); }},
        Mutation{"is called", [](Program &p) { p.ranks[1].rank = 0; }},
        Mutation{"does not exist", [](Program &p) { p.stages = 1; }},
        Mutation{"not in the micro-batch",
                 [](Program &p) { p.ranks[1].parts[0].samples.count = 5; }},
        Mutation{"not in the micro-batch",
                 [](Program &p) { p.ranks[1].parts[0].samples.begin = -1; }},
        Mutation{"fewer instructions", [](Program &p) {
                   p.globalBatch = Samples(int64_t(1) << 32);
                   p.microBatches = 1 << 30;
                 }}));

INSTANTIATE_TEST_SUITE_P(
    Instructions, ProgramDefect,
    testing::Values(
        Mutation{"duration",
                 [](Program &p) {
                   first(p, 0, Op::Forward).seconds =
                       Seconds(std::numeric_limits<double>::infinity());
                 }},
        Mutation{"no such micro-batch",
                 [](Program &p) { first(p, 0, Op::Forward).microBatch = 4; }},
        Mutation{"whole iteration", [](Program &p) { first(p, 0, Op::Step).microBatch = 0; }},
        Mutation{"ascending",
                 [](Program &p) {
                   first(p, 0, Op::AllReduce).group = {1, 0};
                 }},
        Mutation{"ascending",
                 [](Program &p) {
                   first(p, 0, Op::AllReduce).group = {0, 7};
                 }},
        Mutation{"ascending",
                 [](Program &p) {
                   first(p, 0, Op::AllReduce).group = {0, 0, 1};
                 }},
        Mutation{"ascending",
                 [](Program &p) {
                   first(p, 0, Op::AllReduce).group.add(RankRange{2, 1 << 30, 1});
                 }},
        Mutation{"lacks the rank", [](Program &p) { first(p, 0, Op::AllReduce).group = {1}; }},
        Mutation{"lacks the rank",
                 [](Program &p) { first(p, 0, Op::AllReduce).group = RankGroup(); }},
        Mutation{"not those of the rank",
                 [](Program &p) { first(p, 0, Op::Forward).samples.count = 1; }},
        Mutation{"twice", [](Program &p) { first(p, 0, Op::Load).op = Op::Forward; }},
        Mutation{"bring exactly", [](Program &p) { drop(p, 2, Op::Receive); }},
        Mutation{"follows one forward", [](Program &p) { drop(p, 2, Op::Forward); }},
        Mutation{"of exactly its samples", [](Program &p) { drop(p, 0, Op::ReceiveGradient); }},
        Mutation{"neighbouring stage", [](Program &p) { first(p, 0, Op::Send).peer = 1; }},
        Mutation{"neighbouring stage", [](Program &p) { first(p, 0, Op::Send).peer = 9; }},
        Mutation{"another stage boundary", [](Program &p) { first(p, 0, Op::Send).boundary = 1; }},
        Mutation{"among those", [](Program &p) { first(p, 0, Op::Send).samples.begin = 1; }},
        Mutation{"before it is computed", [](Program &p) { first(p, 0, Op::Send).microBatch = 3; }},
        Mutation{"unfinished", [](Program &p) {
                   auto &list = p.ranks[0].instructions;
                   list.erase(list.end() - 3); // the last backward pass
                 }}));

INSTANTIATE_TEST_SUITE_P(Together, ProgramDefect,
                         testing::Values(Mutation{"no receiver",
                                                  [](Program &p) {
                                                    auto &list = p.ranks[0].instructions;
                                                    Instruction send = first(p, 0, Op::Send);
                                                    list.push_back(send);
                                                  }},
                                         Mutation{"no sender",
                                                  [](Program &p) {
                                                    auto &list = p.ranks[0].instructions;
                                                    for (size_t i = list.size(); i-- > 0;)
                                                      if (list[i].op == Op::Send) {
                                                        list.erase(list.begin() + i);
                                                        break;
                                                      }
                                                  }},
                                         Mutation{"does not match",
                                                  [](Program &p) {
                                                    std::vector<Instruction *> sends;
                                                    for (Instruction &instruction :
                                                         p.ranks[0].instructions)
                                                      if (instruction.op == Op::Send)
                                                        sends.push_back(&instruction);
                                                    sends[3]->microBatch = 2;
                                                  }},
                                         Mutation{"as often",
                                                  [](Program &p) { drop(p, 1, Op::AllReduce); }},
                                         Mutation{"as often", [](Program &p) {
                                                    first(p, 1, Op::AllReduce).group = {0, 1, 2};
                                                  }}));
} // namespace

namespace {
Program shardedProgram(StateSharding sharding) {
  auto program = lower(smallShardedPlan(sharding), smallGraph(), smallCluster());
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  return std::move(*program);
}

std::string problemOf(StateSharding sharding, std::function<void(Program &)> change) {
  Program program = shardedProgram(sharding);
  change(program);
  DiagnosticError error = diagnosed(program.verify());
  EXPECT_EQ(error.code, Diag::InvalidProgram);
  return error.message;
}

/// On both ranks of the stage, so that the collectives still match.
void onBoth(Program &, const std::function<void(int)> &change) {
  change(0);
  change(1);
}

void swapWithNext(Program &program, int rank, Op op) {
  Instruction *found = &first(program, rank, op);
  std::swap(found[0], found[1]);
}
} // namespace

TEST(Program, ShardedStateEndsWithAGather) {
  using S = StateSharding;
  EXPECT_PRED2(
      contains,
      problemOf(S::Optimizer,
                [](Program &p) { onBoth(p, [&](int rank) { drop(p, rank, Op::AllGather); }); }),
      "does not gather the parameters");
  EXPECT_PRED2(
      contains,
      problemOf(S::Optimizer,
                [](Program &p) { onBoth(p, [&](int rank) { swapWithNext(p, rank, Op::Step); }); }),
      "parameters are gathered once, after the step");
  EXPECT_PRED2(
      contains,
      problemOf(S::None,
                [](Program &p) {
                  onBoth(p, [&](int rank) { first(p, rank, Op::AllReduce).op = Op::AllGather; });
                }),
      "parameters are gathered once, after the step");
}

TEST(Program, ShardedStateSumsSlices) {
  using S = StateSharding;
  EXPECT_PRED2(
      contains,
      problemOf(S::Optimizer,
                [](Program &p) { onBoth(p, [&](int rank) { drop(p, rank, Op::ReduceScatter); }); }),
      "does not sum the gradients of which it updates a slice");
  EXPECT_PRED2(contains,
               problemOf(S::Optimizer,
                         [](Program &p) {
                           onBoth(p, [&](int rank) { swapWithNext(p, rank, Op::ReduceScatter); });
                         }),
               "gradients are summed once, before the step");
  EXPECT_PRED2(contains,
               problemOf(S::Optimizer,
                         [](Program &p) {
                           onBoth(p, [&](int rank) {
                             first(p, rank, Op::ReduceScatter).op = Op::AllReduce;
                           });
                         }),
               "gradients are summed by slices where the state");
  EXPECT_PRED2(contains,
               problemOf(S::None,
                         [](Program &p) {
                           onBoth(p, [&](int rank) {
                             first(p, rank, Op::AllReduce).op = Op::ReduceScatter;
                           });
                         }),
               "only where the optimizer's state alone is sharded");
}

TEST(Program, ShardedGradientsAreSummedOnceAMicroBatch) {
  using S = StateSharding;
  EXPECT_PRED2(contains,
               problemOf(S::Gradients,
                         [](Program &p) {
                           onBoth(p, [&](int rank) { drop(p, rank, Op::GradientReduceScatter); });
                         }),
               "leaves a micro-batch unfinished");
  EXPECT_PRED2(contains,
               problemOf(S::Gradients,
                         [](Program &p) {
                           onBoth(p, [&](int rank) { swapWithNext(p, rank, Op::Backward); });
                         }),
               "gradients are summed once, after the backward pass");
  EXPECT_PRED2(contains,
               problemOf(S::Gradients,
                         [](Program &p) { first(p, 0, Op::GradientReduceScatter).group = {0}; }),
               "not that of the ranks of a stage with sharded gradients");
  EXPECT_PRED2(contains,
               problemOf(S::Gradients,
                         [](Program &p) {
                           for (int rank : {0, 1})
                             p.ranks[rank].parts[0].sharding.state = S::Optimizer;
                         }),
               "not that of the ranks of a stage with sharded gradients");
}

TEST(Program, ShardedOnesAreKeptByTheirFiles) {
  for (StateSharding sharding :
       {StateSharding::Optimizer, StateSharding::Gradients, StateSharding::Parameters}) {
    Program program = shardedProgram(sharding);
    program.ranks[0].parts[0].recompute = {"a", "b"};
    auto read = parseRankFile(toJson(program, 0), "0000.json");
    ASSERT_TRUE(bool(read)) << toText(read.takeError());
    EXPECT_EQ(read->program.ranks[0], program.ranks[0]);
  }
}

TEST(Program, SmallOneIsValid) {
  auto error = smallProgram().verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
}

TEST(Program, CircularWaitIsADeadlock) {
  // Rank 2 wants the gradient's all-reduce with the others before it has sent them gradients.
  Program program = smallProgram();
  Instruction barrier;
  barrier.op = Op::AllReduce;
  barrier.group = {0, 1, 2};
  auto &last = program.ranks[2].instructions;
  last.insert(last.begin(), barrier);
  for (int rank : {0, 1}) {
    auto &list = program.ranks[rank].instructions;
    list.insert(list.end() - 2, barrier);
  }
  DiagnosticError error = diagnosed(program.verify());
  EXPECT_EQ(error.code, Diag::Deadlock);
  EXPECT_NE(error.message.find("3 of 3 ranks"), std::string::npos) << error.message;
  ASSERT_EQ(error.notes.size(), 1u);
  EXPECT_NE(error.notes[0].text.find("rank 0, instruction 6 (receiveGradient of micro-batch 0, "
                                     "peer rank 2)"),
            std::string::npos)
      << error.notes[0].text;
}

namespace {
class ProgramFiles : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("heterplan-program", folder));
    llvm::SmallString<128> ranks(folder);
    llvm::sys::path::append(ranks, "ranks");
    ASSERT_FALSE(llvm::sys::fs::create_directory(ranks));
  }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  void write(int rank, const std::string &text) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "ranks", rankFileName(rank));
    auto error = writeFile(path, text);
    ASSERT_FALSE(bool(error)) << toText(std::move(error));
  }

  llvm::SmallString<128> folder;
};
} // namespace

TEST_F(ProgramFiles, AllRanksReadBack) {
  Program program = smallProgram();
  for (int rank = 0; rank < 3; ++rank)
    write(rank, toJson(program, rank));
  auto copy = readProgram(folder);
  ASSERT_TRUE(bool(copy)) << toText(copy.takeError());
  EXPECT_EQ(*copy, program);
}

TEST_F(ProgramFiles, MissingRankIsNamed) {
  Program program = smallProgram();
  write(0, toJson(program, 0));
  write(2, toJson(program, 2));
  DiagnosticError error = diagnosed(readProgram(folder));
  EXPECT_EQ(error.code, Diag::CannotRead);
  EXPECT_NE(error.location.file.find("0001.json"), std::string::npos);
}

TEST_F(ProgramFiles, FilesOfDifferentProgramsAreRefused) {
  Program program = smallProgram();
  write(0, toJson(program, 0));
  program.optimizer = Optimizer::Adam;
  write(1, toJson(program, 1));
  write(2, toJson(program, 2));
  EXPECT_EQ(diagnosed(readProgram(folder)).code, Diag::InvalidProgram);
}

TEST_F(ProgramFiles, SwappedFilesAreRefused) {
  Program program = smallProgram();
  write(0, toJson(program, 1));
  EXPECT_EQ(diagnosed(readProgram(folder)).code, Diag::InvalidProgram);
}

TEST(ProgramForm, FourDigitsAndMore) {
  EXPECT_EQ(rankFileName(7), "0007.json");
  EXPECT_EQ(rankFileName(12345), "12345.json");
}

TEST(ProgramForm, UnknownNamesAreDiagnosed) {
  std::string text = toJson(smallProgram(), 0);
  auto replaced = [&](const std::string &from, const std::string &to) {
    std::string copy = text;
    return copy.replace(copy.find(from), from.size(), to);
  };
  DiagnosticError error = diagnosed(parseRankFile(replaced("\"forward\"", "\"leap\""), "x"));
  EXPECT_EQ(error.code, Diag::WrongType);
  EXPECT_EQ(error.location.element, "instructions[1].op");
  error = diagnosed(
      parseRankFile(replaced("\"cpu\",\n \"globalBatch", "\"tpu\",\n \"globalBatch"), "x"));
  EXPECT_EQ(error.location.element, "deviceKind");
  error = diagnosed(parseRankFile(replaced("\"worldSize\": 3", "\"worldSize\": 0"), "x"));
  EXPECT_EQ(error.code, Diag::InvalidProgram);
}

namespace {
Program programWithTable() {
  auto program = lower(smallPlanWithTable(), smallGraphWithTable(), smallCluster());
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  return std::move(*program);
}

class TableDefect : public testing::TestWithParam<Mutation> {};
} // namespace

TEST_P(TableDefect, IsDiagnosed) {
  Program program = programWithTable();
  GetParam().change(program);
  DiagnosticError error = diagnosed(program.verify());
  EXPECT_EQ(error.code, Diag::InvalidProgram);
  EXPECT_NE(error.message.find(GetParam().message), std::string::npos) << error.message;
}

INSTANTIATE_TEST_SUITE_P(
    Lookups, TableDefect,
    testing::Values(
        Mutation{"each rank of its stage",
                 [](Program &p) { p.ranks[0].parts[0].tables[0].rows = {10}; }},
        Mutation{"each rank of its stage",
                 [](Program &p) { p.ranks[0].parts[0].tables[0].columns = 0; }},
        Mutation{"each rank of its stage",
                 [](Program &p) {
                   p.ranks[0].parts[0].tables[0].rows = {-1, 11};
                 }},
        Mutation{"disagree",
                 [](Program &p) {
                   p.ranks[1].parts[0].tables[0].rows = {3, 7};
                 }},
        Mutation{"not looked up before", [](Program &p) { drop(p, 0, Op::Lookup); }},
        Mutation{"unfinished", [](Program &p) { drop(p, 0, Op::LookupGradient); }},
        Mutation{"a stage with tables", [](Program &p) { first(p, 0, Op::Lookup).group = {0}; }},
        Mutation{"a stage with tables",
                 [](Program &p) { first(p, 2, Op::Receive) = first(p, 0, Op::Lookup); }},
        Mutation{"not those of the rank",
                 [](Program &p) { first(p, 0, Op::Lookup).samples.count = 1; }},
        Mutation{"once, before the forward",
                 [](Program &p) { first(p, 0, Op::Load) = first(p, 0, Op::Lookup); }},
        Mutation{"does not match", [](Program &p) { // rank 0 looks up micro-batch 1 first
                   auto &list = p.ranks[0].instructions;
                   auto isSecond = [](const Instruction &instruction) {
                     return instruction.op == Op::Lookup && instruction.microBatch == 1;
                   };
                   auto second = std::find_if(list.begin(), list.end(), isSecond);
                   std::rotate(list.begin(), second, second + 1);
                 }}));

TEST(Program, TablesReadBack) {
  Program program = programWithTable();
  auto file = parseRankFile(toJson(program, 1), "ranks/0001.json");
  ASSERT_TRUE(bool(file)) << toText(file.takeError());
  EXPECT_EQ(file->program.ranks[0], program.ranks[1]);
}
