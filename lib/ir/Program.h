// The executable plan: for each rank the instructions of one iteration, in order. The simulator
// and the runtime interpret the same list, so what was predicted is what runs.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/Plan.h"
#include "ir/RankGroup.h"
#include "ir/StageGraph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// One enumerator for each line of Instructions.def.
enum class Op : int {
#define HETERPLAN_INSTRUCTION(enumerator, name, class, phase, help) enumerator,
#include "ir/Instructions.def"
};
/// The need of an instruction for other ranks: nothing, a message to one, a message from one, or a
/// collective that all members of its group execute together.
enum class InstructionClass { Compute, Send, Receive, Collective };
/// The pass that an instruction belongs to, or the iteration as a whole.
enum class Phase { Forward, Backward, Iteration };

struct InstructionInfo {
  const char *name;
  InstructionClass kind;
  Phase phase;
};
/// The lines of Instructions.def, in order.
llvm::ArrayRef<InstructionInfo> instructionInfos();
inline const InstructionInfo &infoOf(Op op) { return instructionInfos()[static_cast<int>(op)]; }
inline const char *nameOf(Op op) { return infoOf(op).name; }
inline bool isSend(Op op) { return infoOf(op).kind == InstructionClass::Send; }
inline bool isReceive(Op op) { return infoOf(op).kind == InstructionClass::Receive; }
inline bool isCollective(Op op) { return infoOf(op).kind == InstructionClass::Collective; }

/// Sums of the gradients of a stage: they run beside the passes that follow, one after another on
/// each rank, and end before its first update.
inline bool runsBesidePasses(Op op) { return op == Op::AllReduce || op == Op::ReduceScatter; }

/// A contiguous run of the samples of one micro-batch, counted from its first sample.
struct SampleRange {
  int64_t begin = 0, count = 0;
  bool operator==(const SampleRange &) const = default;
};

struct Instruction {
  Op op{};
  int part = 0;        // of its rank
  int microBatch = -1; // -1: of the whole iteration
  int peer = -1;       // rank at the other end of a send or receive; may be the rank itself
  SampleRange samples; // what is moved or computed
  int boundary = -1;   // transfers: the link of StageGraph; in a chain b leads from b to b+1
  RankGroup group;     // of a collective
  Seconds seconds{};   // predicted duration; waiting not included
  bool operator==(const Instruction &) const = default;
};

/// A tensor that crosses a stage boundary.
struct BoundaryTensor {
  std::string name;
  DataType type = DataType::Float32;
  Shape shape;
  bool differentiable = true;
  int boundary = 0; // the link that it crosses, as of an instruction
  bool operator==(const BoundaryTensor &) const = default;
};

/// A sparse table that the ranks of a stage hold together.
struct ProgramTable {
  std::string name; // of the parameter
  DataType type = DataType::Float32;
  int64_t columns = 0;
  std::vector<int64_t> rows; // of each rank of the stage, ascending
  bool operator==(const ProgramTable &) const = default;
};

/// The part of a stage that a rank runs: the whole stage, or the shard of a replica, for some
/// samples. In a micro-batch that is not full (MicroBatches.h) it may have fewer samples, or none;
/// the instructions state them.
struct ProgramPart {
  int stage = 0, replica = 0;
  int shard = 0;                        // which of the devices of the replica
  SampleRange samples;                  // of a full micro-batch; all shards of a replica have them
  std::vector<BoundaryTensor> receives; // of the links to its stage, one after another
  std::vector<BoundaryTensor> sends;    // of the links from its stage
  std::vector<ProgramTable> tables;     // equal on all ranks of the stage
  std::vector<std::string> recompute;   // first layers of the segments that are computed again
  StageSharding sharding;               // over the ranks of the stage, where several
  bool operator==(const ProgramPart &) const = default;
};

/// A device and what it executes, one instruction after another. It has at most one part of a
/// stage.
struct RankProgram {
  int rank = 0;
  DeviceRef device;
  DeviceClass deviceClass = DeviceClass::Cpu;
  std::vector<ProgramPart> parts; // by stage, ascending
  std::vector<Instruction> instructions;
  bool operator==(const RankProgram &) const = default;

  const ProgramPart &partOf(const Instruction &instruction) const {
    return parts[instruction.part];
  }
  /// Its part of `stage`, or null.
  const ProgramPart *findPart(int stage) const;
};

struct Program {
  std::string model;
  Schedule schedule = Schedule::DataParallel;
  Optimizer optimizer = Optimizer::Sgd;
  OptimizerKernels optimizerKernels = OptimizerKernels::Fused;
  int stages = 0;
  std::vector<StageLink> links; // as StageGraph takes them; empty: the stages are a chain
  int microBatches = 1;
  Samples globalBatch{};
  Seconds predictedIteration{};
  /// All-reduces begin within the last backward pass of their stage; their instructions stand for
  /// what is left then (ModeRequest::overlapsSums).
  bool overlapsSums = false;
  /// Receives are posted ahead, so that messages travel beside the passes of their ranks
  /// (ModeRequest::overlapsTransfers). For 1F1B in a chain.
  bool overlapsTransfers = false;
  std::vector<RankProgram> ranks;
  bool operator==(const Program &) const = default;

  StageGraph stageGraph() const { return {stages, links}; }
  /// The ranks with shard `shard` of a part of each stage, ascending.
  std::vector<RankGroup> stageGroups(int shard = 0) const;

  /// The parts of each stage cover each micro-batch, every send has one receive (and the reverse)
  /// with the same samples and order, collectives name the same group on every member, and no
  /// circular wait: executed abstractly to the end.
  llvm::Error verify() const;
};

/// Plan → Program. Ranks are the devices of the plan, node by node. Nodes, and the devices of a
/// node, stand in the order in which the plan mentions them first, stage by stage, replica by
/// replica.
/// Passes of each stage stand in the order of the schedule, those of a rank with several parts in
/// one order for all ranks (see docs/rationale/parts.md).
llvm::Expected<Program> lower(const Plan &plan, const LayerGraph &graph, const Cluster &cluster);

} // namespace heterplan
