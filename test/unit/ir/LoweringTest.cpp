#include "ir/PlanShards.h"
#include "ir/Program.h"

#include "Diagnosed.h"
#include "SmallPlan.h"

#include <gtest/gtest.h>

#include <set>

using namespace heterplan;
using heterplan::test::diagnosed;
using llvm::ArrayRef;
using namespace heterplan::test;

namespace {
Program lowered(const Plan &plan) {
  auto program = lower(plan, smallGraph(), smallCluster());
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  auto error = program->verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
  return std::move(*program);
}

/// "F0 F1 B0 ...": the passes of a rank in order, "A" all-reduce, "S" step.
std::string passes(const RankProgram &rank) {
  std::string text;
  for (const Instruction &instruction : rank.instructions) {
    if (instruction.op == Op::Forward)
      text += "F" + std::to_string(instruction.microBatch) + " ";
    if (instruction.op == Op::Backward)
      text += "B" + std::to_string(instruction.microBatch) + " ";
    if (instruction.op == Op::AllReduce)
      text += "A ";
    if (instruction.op == Op::Step)
      text += "S";
  }
  return text;
}

/// "load receive receive forward ...": the instructions of one micro-batch of a rank.
std::string instructionsOf(const RankProgram &rank, int microBatch) {
  std::string text;
  for (const Instruction &instruction : rank.instructions)
    if (instruction.microBatch == microBatch)
      text += std::string(text.empty() ? "" : " ") + nameOf(instruction.op);
  return text;
}

DiagnosticError refused(const Plan &plan) {
  return diagnosed(lower(plan, smallGraph(), smallCluster()));
}
} // namespace

TEST(Lowering, RanksAreNumberedStageByStage) {
  Program program = lowered(smallPlan());
  ASSERT_EQ(program.ranks.size(), 3u);
  EXPECT_EQ(program.ranks[1].parts[0].stage, 0);
  EXPECT_EQ(program.ranks[1].parts[0].replica, 1);
  EXPECT_EQ(program.ranks[1].parts[0].samples, (SampleRange{3, 1}));
  EXPECT_EQ(program.ranks[1].deviceClass, DeviceClass::Cpu);
  EXPECT_EQ(program.ranks[2].parts[0].stage, 1);
  EXPECT_EQ(program.ranks[2].parts[0].samples, (SampleRange{0, 4}));
  EXPECT_EQ(program.ranks[2].deviceClass, DeviceClass::Gpu);
  EXPECT_EQ(program.ranks[2].device, (DeviceRef{"gpu", "node", 0}));
}

TEST(Lowering, RanksAreNumberedNodeByNode) {
  Plan plan = smallPlan();
  // The planner mentions the devices of a stage type by type.
  std::vector<Replica> &replicas = plan.stages[0].replicas;
  replicas.clear();
  for (const char *type : {"cpu", "gpu"})
    for (const char *node : {"b", "a"}) {
      replicas.push_back(smallReplica(4, 3, type, 0));
      replicas.back().devices[0].node = node;
    }
  plan.stages[1].replicas[0].devices = {{"gpu", "b", 1}};
  Program program = lowered(plan);
  std::string devices;
  for (const RankProgram &rank : program.ranks)
    devices += rank.device.type + "@" + rank.device.node + " ";
  EXPECT_EQ(devices, "cpu@b gpu@b gpu@b cpu@a gpu@a ");
  EXPECT_EQ(program.stageGroups()[0], (RankGroup{0, 1, 3, 4}));
  EXPECT_EQ(program.stageGroups()[1], (RankGroup{2}));
  EXPECT_EQ(program.ranks[3].parts[0].replica, 1);
  EXPECT_EQ(program.ranks[3].parts[0].samples, (SampleRange{1, 1}));
}

TEST(PlanShards, MakesARankOfEveryDeviceOfAGroup) {
  const Program groups = lowered(smallPlan());
  const Program program = withShardRanks(groups, 4);
  EXPECT_EQ(toText(program.verify()), "");
  ASSERT_EQ(program.ranks.size(), 4 * groups.ranks.size());
  for (const RankProgram &rank : program.ranks) {
    const RankProgram &group = groups.ranks[rank.rank / 4];
    const int shard = rank.rank % 4;
    EXPECT_EQ(rank.device,
              (DeviceRef{group.device.type, group.device.node, 4 * group.device.index + shard}));
    EXPECT_EQ(rank.parts[0].shard, shard);
    ASSERT_EQ(rank.instructions.size(), group.instructions.size());
    for (size_t i = 0; i < rank.instructions.size(); ++i) {
      const Instruction &own = rank.instructions[i], &theirs = group.instructions[i];
      EXPECT_EQ(own.peer, theirs.peer < 0 ? -1 : 4 * theirs.peer + shard);
      EXPECT_EQ(own.group.size(), theirs.group.size());
      for (int member : own.group)
        EXPECT_EQ(member % 4, shard);
    }
  }
  EXPECT_EQ(program.stageGroups(3)[0], (RankGroup{3, 7}));
  EXPECT_EQ(withShardRanks(groups, 1), groups);
}

/// The small plan, each of whose stages is on groups of as many devices as `degrees` says.
Program ofDegrees(std::vector<int> degrees) {
  Plan plan = smallPlan();
  Cluster cluster = smallCluster();
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (Replica &replica : plan.stages[stage].replicas) {
      DeviceRef &device = replica.devices.front();
      const int single = cluster.typeIndex(device);
      DeviceType group = cluster.types[single];
      group.name = shardTypeName(device.type, degrees[stage]);
      group.shards = degrees[stage];
      group.ofType = single;
      if (cluster.typeIndex({group.name, device.node, device.index}) < 0) {
        cluster.types.push_back(group);
        for (NodeGroup &node : cluster.nodes)
          if (auto found = node.devices.find(device.type); found != node.devices.end())
            node.devices[group.name] = found->second;
      }
      device.type = group.name;
    }
  auto program = lower(plan, smallGraph(), cluster);
  EXPECT_TRUE(bool(program)) << toText(program.takeError());
  return withShardRanks(std::move(*program), cluster);
}

/// "0>4 1>4 ...": the ranks between which messages of a kind go.
std::string messages(const Program &program, Op op) {
  std::set<std::pair<int, int>> found;
  for (const RankProgram &rank : program.ranks)
    for (const Instruction &instruction : rank.instructions)
      if (instruction.op == op)
        found.insert(isSend(op) ? std::pair(rank.rank, instruction.peer)
                                : std::pair(instruction.peer, rank.rank));
  std::string text;
  for (auto [from, to] : found)
    text += std::to_string(from) + ">" + std::to_string(to) + " ";
  return text;
}

TEST(PlanShards, SendsFromFewShardsToMany) {
  const Program program = ofDegrees({1, 4}); // ranks 0 and 1; 2 to 5
  EXPECT_EQ(toText(program.verify()), "");
  ASSERT_EQ(program.ranks.size(), 6u);
  EXPECT_EQ(program.ranks[5].parts[0].shard, 3);
  const std::string forward = "0>2 0>3 0>4 0>5 1>2 1>3 1>4 1>5 ";
  EXPECT_EQ(messages(program, Op::Send), forward);
  EXPECT_EQ(messages(program, Op::Receive), forward);
  EXPECT_EQ(messages(program, Op::SendGradient), "2>0 2>1 ");
  EXPECT_EQ(messages(program, Op::ReceiveGradient), "2>0 2>1 ");
}

TEST(PlanShards, SendsFromManyShardsToFew) {
  const Program program = ofDegrees({4, 2}); // ranks 0 to 3 and 4 to 7; 8 and 9
  EXPECT_EQ(toText(program.verify()), "");
  EXPECT_EQ(messages(program, Op::Send), "0>8 2>9 4>8 6>9 ");
  EXPECT_EQ(messages(program, Op::SendGradient), "8>0 8>1 8>4 8>5 9>2 9>3 9>6 9>7 ");
  EXPECT_EQ(program.stageGroups(3)[0], (RankGroup{3, 7}));
}

TEST(PlanShards, RefusesSumsOverOtherShards) {
  Plan plan = smallPlan();
  plan.stages[0].sharding.state = StateSharding::Optimizer;
  Program program = withShardRanks(lowered(plan), 2);
  EXPECT_EQ(toText(program.verify()), "");
  for (RankProgram &rank : program.ranks)
    for (Instruction &instruction : rank.instructions)
      if (instruction.op == Op::ReduceScatter)
        instruction.group = RankGroup{0, 1, 2, 3};
  EXPECT_NE(toText(program.verify()).find("another shard"), std::string::npos);
}

TEST(Lowering, OneForwardOneBackwardOrder) {
  Program program = lowered(smallPlan());
  EXPECT_EQ(passes(program.ranks[0]), "F0 F1 B0 F2 B1 F3 B2 B3 A S");
  EXPECT_EQ(passes(program.ranks[2]), "F0 B0 F1 B1 F2 B2 F3 B3 S");
}

TEST(Lowering, GPipeOrder) {
  Plan plan = smallPlan();
  plan.schedule = Schedule::GPipe;
  Program program = lowered(plan);
  EXPECT_EQ(passes(program.ranks[0]), "F0 F1 F2 F3 B0 B1 B2 B3 A S");
  EXPECT_EQ(passes(program.ranks[2]), "F0 F1 F2 F3 B0 B1 B2 B3 S");
}

TEST(Lowering, FewMicroBatchesShortenTheWarmUp) {
  Plan plan = smallPlan();
  plan.microBatches = 1;
  EXPECT_EQ(passes(lowered(plan).ranks[0]), "F0 B0 A S");
}

TEST(Lowering, InstructionsOfAMicroBatch) {
  Program program = lowered(smallPlan());
  EXPECT_EQ(instructionsOf(program.ranks[0], 1), "load forward send receiveGradient backward");
  EXPECT_EQ(instructionsOf(program.ranks[2], 1), "load receive receive forward backward "
                                                 "sendGradient sendGradient");
}

TEST(Lowering, TransfersCoverTheCommonSamplesAndShareTheTime) {
  const RankProgram last = lowered(smallPlan()).ranks[2];
  const Instruction &first = last.instructions[1], &second = last.instructions[2];
  EXPECT_EQ(first.peer, 0);
  EXPECT_EQ(first.samples, (SampleRange{0, 3}));
  EXPECT_EQ(second.peer, 1);
  EXPECT_EQ(second.samples, (SampleRange{3, 1}));
  EXPECT_EQ(first.boundary, 0);
  EXPECT_DOUBLE_EQ(first.seconds.value(), 1.5 * 3 / 4);
  EXPECT_EQ(first.seconds + second.seconds, Seconds(1.5));
}

TEST(Lowering, SynchronisationIsSplitIntoAllReduceAndStep) {
  Program program = lowered(smallPlan());
  const std::vector<Instruction> &shared = program.ranks[1].instructions;
  EXPECT_EQ(shared[shared.size() - 2].group, (RankGroup{0, 1}));
  EXPECT_EQ(shared[shared.size() - 2].seconds, Seconds(4));
  EXPECT_EQ(shared.back().seconds, Seconds(1));
  EXPECT_EQ(program.ranks[2].instructions.back().seconds, Seconds(2));
}

TEST(Lowering, ShardedStateIsSummedUpdatedAndGathered) {
  Program program = lowered(smallShardedPlan(StateSharding::Optimizer));
  const std::vector<Instruction> &shared = program.ranks[1].instructions;
  ArrayRef<Instruction> end = ArrayRef<Instruction>(shared).take_back(3);
  EXPECT_EQ(end[0].op, Op::ReduceScatter);
  EXPECT_EQ(end[1].op, Op::Step);
  EXPECT_EQ(end[2].op, Op::AllGather);
  EXPECT_EQ(end[0].group, (RankGroup{0, 1}));
  EXPECT_EQ(end[2].group, (RankGroup{0, 1}));
  EXPECT_EQ(end[0].seconds, Seconds(2)); // a half each of what an all-reduce takes
  EXPECT_EQ(end[1].seconds, Seconds(1));
  EXPECT_EQ(end[2].seconds, Seconds(2));
  EXPECT_EQ(instructionsOf(program.ranks[0], 1), "load forward send receiveGradient backward");
  EXPECT_EQ(program.ranks[1].parts[0].sharding.state, StateSharding::Optimizer);
  EXPECT_EQ(program.ranks[2].instructions.back().op, Op::Step);
}

TEST(Lowering, ShardedGradientsAreSummedInEachBackwardPass) {
  Program program = lowered(smallShardedPlan(StateSharding::Gradients));
  EXPECT_EQ(instructionsOf(program.ranks[0], 1),
            "load forward send receiveGradient backward gradientReduceScatter");
  const std::vector<Instruction> &shared = program.ranks[0].instructions;
  ArrayRef<Instruction> end = ArrayRef<Instruction>(shared).take_back(4);
  EXPECT_EQ(end[0].op, Op::Backward);
  EXPECT_EQ(end[0].seconds, Seconds(6)); // of 7, without the sum
  EXPECT_EQ(end[1].op, Op::GradientReduceScatter);
  EXPECT_EQ(end[1].seconds, Seconds(1));
  EXPECT_EQ(end[1].group, (RankGroup{0, 1}));
  EXPECT_EQ(end[2].op, Op::Step);
  EXPECT_EQ(end[3].op, Op::AllGather);
  EXPECT_EQ(end[3].seconds, Seconds(4));
}

TEST(Lowering, ShardedParametersStaySlices) {
  Program program = lowered(smallShardedPlan(StateSharding::Parameters));
  EXPECT_EQ(instructionsOf(program.ranks[0], 1),
            "load forward send receiveGradient backward gradientReduceScatter");
  const std::vector<Instruction> &shared = program.ranks[0].instructions;
  ArrayRef<Instruction> end = ArrayRef<Instruction>(shared).take_back(3);
  EXPECT_EQ(end[0].op, Op::Backward);
  EXPECT_EQ(end[0].seconds, Seconds(6.5)) << "with gathers, without the sum";
  EXPECT_EQ(end[1].op, Op::GradientReduceScatter);
  EXPECT_EQ(end[2].op, Op::Step);
  EXPECT_EQ(end[2].seconds, Seconds(1));
}

TEST(Lowering, StateOfOneReplicaStaysWhole) {
  Plan plan = smallPlan();
  plan.stages[1].sharding.state = StateSharding::Gradients;
  Program program = lowered(plan);
  EXPECT_EQ(program.ranks[2].parts[0].sharding.state, StateSharding::None);
  EXPECT_EQ(passes(program.ranks[2]), "F0 B0 F1 B1 F2 B2 F3 B3 S");
}

TEST(Lowering, SegmentsBelongToTheParts) {
  Plan plan = smallPlan();
  plan.stages[0].recompute = {"a", "b"};
  Program program = lowered(plan);
  EXPECT_EQ(program.ranks[1].parts[0].recompute, plan.stages[0].recompute);
  EXPECT_TRUE(program.ranks[2].parts[0].recompute.empty());
}

TEST(Lowering, BoundariesListTheTensorsThatCross) {
  Program program = lowered(smallPlan());
  ASSERT_EQ(program.ranks[0].parts[0].sends.size(), 1u); // "ab" stays within the stage
  EXPECT_EQ(program.ranks[0].parts[0].sends[0].name, "ac");
  EXPECT_EQ(program.ranks[0].parts[0].sends[0].type, DataType::Int64);
  EXPECT_FALSE(program.ranks[0].parts[0].sends[0].differentiable);
  EXPECT_TRUE(program.ranks[0].parts[0].receives.empty());
  EXPECT_EQ(program.ranks[2].parts[0].receives, program.ranks[0].parts[0].sends);
}

TEST(Lowering, PlanMustFitTheModel) {
  Plan plan = smallPlan();
  plan.stages[0].layers = {"a", "x"};
  EXPECT_EQ(refused(plan).code, Diag::UnknownLayer);
  plan.stages[0].layers = {"b", "a"};
  DiagnosticError error = refused(plan);
  EXPECT_EQ(error.code, Diag::InvalidPlan);
  EXPECT_NE(error.message.find("out of order"), std::string::npos);
  plan = smallPlan();
  plan.stages.pop_back();
  plan.schedule = Schedule::DataParallel;
  EXPECT_NE(refused(plan).message.find("in no stage"), std::string::npos);
}

TEST(Lowering, PlanMustFitTheCluster) {
  Plan plan = smallPlan();
  plan.stages[1].replicas[0].devices[0].type = "tpu";
  EXPECT_EQ(refused(plan).code, Diag::UnknownDevice);
}

TEST(Lowering, GroupsOfDevicesAreRefused) {
  Plan plan = smallPlan();
  plan.stages[1].replicas[0].devices.push_back({"gpu", "node", 1});
  EXPECT_EQ(refused(plan).code, Diag::NotSupported);
}

TEST(Lowering, InvalidPlanIsRefused) {
  Plan plan = smallPlan();
  plan.globalBatch = Samples(17);
  EXPECT_EQ(refused(plan).code, Diag::InvalidPlan);
}

TEST(Lowering, TablesAreLookedUpBeforeThePassAndTheirGradientsFollowIt) {
  auto program = lower(smallPlanWithTable(), smallGraphWithTable(), smallCluster());
  ASSERT_TRUE(bool(program)) << toText(program.takeError());
  auto error = program->verify();
  EXPECT_FALSE(bool(error)) << toText(std::move(error));
  EXPECT_EQ(instructionsOf(program->ranks[1], 0),
            "load lookup forward send receiveGradient backward lookupGradient");
  EXPECT_EQ(instructionsOf(program->ranks[2], 0),
            "load receive receive forward backward sendGradient sendGradient");
  ProgramTable table{"a.table", DataType::Float32, 4, {7, 3}};
  for (int rank : {0, 1})
    EXPECT_EQ(program->ranks[rank].parts[0].tables, std::vector{table});
  EXPECT_TRUE(program->ranks[2].parts[0].tables.empty());
  const Instruction &lookup = program->ranks[1].instructions[1];
  EXPECT_EQ(lookup.group, (RankGroup{0, 1}));
  EXPECT_EQ(lookup.samples, (SampleRange{3, 1}));
  EXPECT_EQ(lookup.seconds, Seconds(1));
}

TEST(Lowering, TablesOfThePlanMustBeThoseOfTheLayers) {
  auto refusal = [](auto change) {
    Plan plan = smallPlanWithTable();
    change(plan.stages[0].tables);
    DiagnosticError error = diagnosed(lower(plan, smallGraphWithTable(), smallCluster()));
    EXPECT_EQ(error.code, Diag::InvalidPlan);
    EXPECT_EQ(error.location.element, "stages[0].tables");
    return error.message;
  };
  using Tables = std::vector<TableShards>;
  EXPECT_NE(refusal([](Tables &t) { t.clear(); }).find("missing"), std::string::npos);
  EXPECT_NE(refusal([](Tables &t) { t[0].table = "b"; }).find("missing"), std::string::npos);
  EXPECT_NE(refusal([](Tables &t) {
              t[0].rows = {7, 4};
            }).find("11 rows, not 10"),
            std::string::npos);
  EXPECT_NE(refusal([](Tables &t) {
              t.push_back({"b", {1, 1}});
            }).find("no layer"),
            std::string::npos);
}
