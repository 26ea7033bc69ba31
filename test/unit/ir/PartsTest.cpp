// Programs in which ranks hold parts of several stages: lowering, and what their verifier finds.
#include "ir/FileForms.h"
#include "ir/PassOrder.h"

#include "Diagnosed.h"
#include "SharedPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>

using namespace heterplan;
using namespace heterplan::test;

namespace {
Program lowered(const Plan &plan) {
  auto program = lower(plan, smallGraph(), smallCluster());
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  if (!program)
    return {};
  auto error = program->verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
  return std::move(*program);
}

/// "F00 F10 B10 ...": the passes of a rank, each with its stage and micro-batch, then "A2 A0 S2".
std::string passes(const Program &program, int rank) {
  std::string text;
  for (const Instruction &instruction : program.ranks[rank].instructions) {
    int stage = program.ranks[rank].partOf(instruction).stage;
    bool pass = instruction.op == Op::Forward || instruction.op == Op::Backward;
    if (!pass && infoOf(instruction.op).phase != Phase::Iteration)
      continue;
    text += std::string(text.empty() ? "" : " ") + char(std::toupper(nameOf(instruction.op)[0])) +
            std::to_string(stage);
    if (pass)
      text += std::to_string(instruction.microBatch);
  }
  return text;
}
} // namespace

TEST(Parts, RanksAreTheDevicesOfThePlan) {
  Program program = lowered(nestedPlan());
  ASSERT_EQ(program.ranks.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(program.ranks[rank].device, (DeviceRef{"cpu", "node", rank}));
    EXPECT_EQ(program.ranks[rank].parts.size(), rank < 2 ? 3u : 2u);
  }
  const RankProgram &third = program.ranks[3];
  EXPECT_EQ(third.parts[1].stage, 2);
  EXPECT_EQ(third.parts[1].replica, 0);
  EXPECT_EQ(third.parts[1].samples, (SampleRange{0, 2}));
  EXPECT_EQ(program.stageGroups()[1], (RankGroup{0, 1}));
  EXPECT_EQ(program.stageGroups()[2], (RankGroup{0, 1, 2, 3}));
}

TEST(Parts, BurstTakesOneMicroBatchAfterAnother) {
  Program program = lowered(nestedPlan());
  EXPECT_EQ(passes(program, 0),
            "F00 F10 F20 B20 B10 B00 F01 F11 F21 B21 A2 B11 A1 B01 A0 S2 S1 S0");
  EXPECT_EQ(passes(program, 3), "F00 F20 B20 B00 F01 F21 B21 A2 B01 A0 S2 S0");
}

TEST(Parts, InterleavedStagesAreEachIn1F1BOrder) {
  Program program = lowered(interleavedPlan());
  EXPECT_EQ(passes(program, 1), "F10 F11 B10 F12 B11 F13 B12 B13 S1");
  std::string both = passes(program, 0);
  EXPECT_EQ(both, "F00 F01 F02 F20 B20 F21 B21 B00 F22 B22 F03 B01 F23 B23 B02 B03 S2 S0");
}

TEST(Parts, WhatStaysOnADeviceTakesNoTime) {
  Program program = lowered(nestedPlan());
  int local = 0, remote = 0;
  for (const RankProgram &rank : program.ranks)
    for (const Instruction &instruction : rank.instructions)
      if (isReceive(instruction.op)) {
        bool self = instruction.peer == rank.rank;
        EXPECT_EQ(instruction.seconds == Seconds(), self);
        ++(self ? local : remote);
      }
  EXPECT_GT(local, 0);
  EXPECT_GT(remote, 0);
}

TEST(Parts, TablesHaveTheirRowsByRank) {
  // The replicas of a stage name the devices in another order than the ranks have.
  Plan plan = nestedPlan();
  LayerGraph graph = smallGraph();
  graph.layers[2].parameters = {"c.table"};
  graph.layers[2].tables = {{"c.table", 10, 4, DataType::Float32, 2}};
  plan.stages[2].tables = {{"c.table", {1, 2, 3, 4}}}; // of CPUs 3, 0, 2, 1
  auto program = lower(plan, graph, smallCluster());
  ASSERT_TRUE(bool(program)) << toText(program.takeError());
  auto error = program->verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
  EXPECT_EQ(program->ranks[0].parts[2].tables[0].rows, (std::vector<int64_t>{2, 4, 3, 1}));
  EXPECT_EQ(program->ranks[3].parts[1].tables[0].rows, (std::vector<int64_t>{2, 4, 3, 1}));
}

TEST(Parts, FilesReadBack) {
  for (const Plan &plan : {nestedPlan(), interleavedPlan()}) {
    Program program = lowered(plan);
    for (const RankProgram &rank : program.ranks) {
      auto file = parseRankFile(toJson(program, rank.rank), "ranks/x.json");
      ASSERT_TRUE(bool(file)) << toText(file.takeError());
      EXPECT_EQ(file->program.ranks[0], rank);
      EXPECT_EQ(file->program.schedule, plan.schedule);
    }
  }
}

TEST(Parts, OtherSchedulesHaveADeviceInOneStage) {
  for (Schedule schedule : {Schedule::OneForwardOneBackward, Schedule::GPipe}) {
    Plan plan = nestedPlan();
    plan.schedule = schedule;
    DiagnosticError error = diagnosed(lower(plan, smallGraph(), smallCluster()));
    EXPECT_EQ(error.code, Diag::InvalidPlan);
    EXPECT_EQ(error.location.element, "stages[1]");
    EXPECT_NE(error.message.find("device 0 of type 'cpu' in node 'node' is in two stages"),
              std::string::npos)
        << error.message;
    Program program = lowered(nestedPlan());
    program.schedule = schedule;
    EXPECT_NE(diagnosed(program.verify()).message.find("has parts of several stages"),
              std::string::npos);
  }
}

TEST(Parts, ForwardPassesAhead) {
  EXPECT_EQ(forwardPassesAhead(Schedule::Interleaved, 1, 4, 8), 3);
  EXPECT_EQ(forwardPassesAhead(Schedule::OneForwardOneBackward, 1, 4, 2), 2);
  EXPECT_EQ(forwardPassesAhead(Schedule::GPipe, 3, 4, 8), 8);
  EXPECT_EQ(forwardPassesAhead(Schedule::Burst, 0, 4, 8), 1);
  ModeRequest overlapping;
  overlapping.overlapsTransfers = true; // a message on its way before each of the two stages behind
  EXPECT_EQ(forwardPassesAhead(Schedule::OneForwardOneBackward, 1, 4, 8, overlapping), 5);
  EXPECT_EQ(forwardPassesAhead(Schedule::OneForwardOneBackward, 1, 4, 3, overlapping), 3);
  EXPECT_EQ(forwardPassesAhead(Schedule::OneForwardOneBackward, 3, 4, 8, overlapping), 1);
}

namespace {
/// The instruction `op` of `stage` on `rank`, of micro-batch 0 or of the iteration, with `peer` if
/// that is given.
Instruction &find(Program &program, int rank, int stage, Op op, int peer = -1) {
  for (Instruction &instruction : program.ranks[rank].instructions)
    if (instruction.op == op && program.ranks[rank].partOf(instruction).stage == stage &&
        instruction.microBatch < 1 && (peer < 0 || instruction.peer == peer))
      return instruction;
  ADD_FAILURE() << "rank " << rank << " has no " << nameOf(op) << " of stage " << stage;
  return program.ranks[rank].instructions[0];
}

void drop(Program &program, int rank, const Instruction &instruction) {
  auto &list = program.ranks[rank].instructions;
  list.erase(list.begin() + (&instruction - list.data()));
}

struct Fault {
  const char *name, *message;
  std::function<void(Program &)> plant;
};
void PrintTo(const Fault &fault, std::ostream *out) { *out << fault.name; }

class PlantedFault : public testing::TestWithParam<Fault> {};
} // namespace

TEST_P(PlantedFault, IsFound) {
  Program program = lowered(nestedPlan());
  GetParam().plant(program);
  DiagnosticError error = diagnosed(program.verify());
  EXPECT_EQ(error.code, Diag::InvalidProgram);
  EXPECT_NE(error.message.find(GetParam().message), std::string::npos) << error.message;
}

INSTANTIATE_TEST_SUITE_P(
    Parts, PlantedFault,
    testing::Values(
        Fault{"NoParts", "no part of any stage", [](Program &p) { p.ranks[3].parts.clear(); }},
        Fault{"SwappedParts", "not of ascending stages",
              [](Program &p) { std::swap(p.ranks[0].parts[0], p.ranks[0].parts[1]); }},
        Fault{"StageTwice", "not of ascending stages",
              [](Program &p) { p.ranks[0].parts[1].stage = 0; }},
        Fault{"StageThatIsNot", "does not exist",
              [](Program &p) { p.ranks[0].parts[2].stage = 3; }},
        Fault{"NegativeShard", "negative", [](Program &p) { p.ranks[0].parts[0].shard = -1; }},
        Fault{"LoneShard", "another shard of their replicas",
              [](Program &p) { p.ranks[0].parts[0].shard = 1; }},
        Fault{"ReplicaTwice", "numbered one after another",
              [](Program &p) { p.ranks[1].parts[0].replica = 0; }},
        Fault{"ReplicasExchanged", "does not hold the samples after those before it",
              [](Program &p) {
                std::swap(p.ranks[0].parts[0].replica, p.ranks[1].parts[0].replica);
              }},
        Fault{"NoSuchPart", "no such part",
              [](Program &p) { find(p, 0, 1, Op::Forward).part = 3; }},
        Fault{"OtherPart", "not those of the rank",
              [](Program &p) { find(p, 0, 1, Op::Forward).part = 0; }},
        Fault{"OtherPartOfATransfer", "another stage boundary",
              [](Program &p) { find(p, 0, 0, Op::Send, 0).part = 1; }}));

INSTANTIATE_TEST_SUITE_P(
    Transfers, PlantedFault,
    testing::Values(Fault{"LocalReceiveDropped", "do not bring exactly its samples",
                          [](Program &p) { drop(p, 0, find(p, 0, 1, Op::Receive, 0)); }},
                    Fault{"LocalSendDropped", "has no sender",
                          [](Program &p) {
                            auto &list = p.ranks[0].instructions;
                            for (size_t i = list.size(); i-- > 0;)
                              if (list[i].op == Op::Send && list[i].peer == 0) {
                                list.erase(list.begin() + i);
                                return;
                              }
                          }},
                    Fault{"LocalSendElsewhere", "does not match",
                          [](Program &p) { find(p, 0, 0, Op::Send, 0).peer = 1; }},
                    Fault{"ToARankWithoutTheStage", "not a rank of the neighbouring stage",
                          [](Program &p) { find(p, 0, 0, Op::Send, 0).peer = 3; }},
                    Fault{"OtherSamples", "does not match",
                          [](Program &p) { find(p, 0, 0, Op::Send, 0).samples.count = 1; }}));

INSTANTIATE_TEST_SUITE_P(Collectives, PlantedFault,
                         testing::Values(Fault{"StagesInAnotherOrder", "does not match",
                                               [](Program &p) {
                                                 Instruction &last = find(p, 3, 2, Op::AllReduce),
                                                             &first = find(p, 3, 0, Op::AllReduce);
                                                 std::swap(last, first);
                                               }},
                                         Fault{"OfTheWrongStage", "does not match",
                                               [](Program &p) {
                                                 find(p, 3, 2, Op::AllReduce).part = 0;
                                               }},
                                         Fault{"Dropped", "as often", [](Program &p) {
                                                 drop(p, 1, find(p, 1, 1, Op::AllReduce));
                                               }}));

INSTANTIATE_TEST_SUITE_P(
    Passes, PlantedFault,
    testing::Values(Fault{"BackwardOfOnePartDropped", "leaves a micro-batch",
                          [](Program &p) { drop(p, 3, find(p, 3, 0, Op::Backward)); }},
                    Fault{"ForwardOfAnotherMicroBatch", "twice", [](Program &p) {
                            auto &list = p.ranks[3].instructions;
                            for (Instruction &each : list)
                              if (each.op == Op::Forward && each.part == 0)
                                each.microBatch = 0;
                          }}));

TEST(Parts, APartThatWaitsForALaterPartOfItsRankIsADeadlock) {
  Program program = lowered(interleavedPlan());
  // Rank 0 does its last stage first, which needs what its first stage has yet to compute.
  auto &list = program.ranks[0].instructions;
  std::stable_partition(list.begin(), list.end(),
                        [](const Instruction &each) { return each.part == 1; });
  DiagnosticError error = diagnosed(program.verify());
  EXPECT_EQ(error.code, Diag::Deadlock);
  ASSERT_EQ(error.notes.size(), 1u);
  EXPECT_NE(error.notes[0].text.find("rank 0, instruction 1 (receive of stage 2 of micro-batch 0"),
            std::string::npos)
      << error.notes[0].text;
}

TEST(Parts, AMessageToItselfThatComesLaterIsADeadlock) {
  Program program = lowered(nestedPlan());
  auto &list = program.ranks[0].instructions;
  Instruction &send = find(program, 0, 0, Op::Send, 0);
  auto place = list.begin() + (&send - list.data());
  auto end = std::find_if(list.begin(), list.end(), [](const Instruction &each) {
    return each.op == Op::Receive && each.part == 1;
  });
  std::rotate(place, place + 1, end + 1);
  EXPECT_EQ(diagnosed(program.verify()).code, Diag::Deadlock);
}
