// The executable plan: for each rank the instructions of one iteration, in order. The simulator
// and the runtime interpret the same list, so what was predicted is what runs.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// One enumerator for each line of Instructions.def.
enum class Op : int {
#define HETERPLAN_INSTRUCTION(enumerator, name, help) enumerator,
#include "ir/Instructions.def"
};
const char *nameOf(Op op);

/// A contiguous run of the samples of one micro-batch, counted from its first sample.
struct SampleRange {
  int64_t begin = 0, count = 0;
  bool operator==(const SampleRange &) const = default;
};

struct Instruction {
  Op op{};
  int microBatch = -1;    // -1: of the whole iteration
  int peer = -1;          // rank at the other end of a send or receive
  SampleRange samples;    // what is moved or computed
  int boundary = -1;      // transfers: stage boundary b lies between stages b and b+1
  std::vector<int> group; // ranks of a collective
  Seconds seconds{};      // predicted duration; waiting not included
  bool operator==(const Instruction &) const = default;
};

/// A tensor that crosses a stage boundary.
struct BoundaryTensor {
  std::string name;
  DataType type = DataType::Float32;
  Shape shape;
  bool differentiable = true;
  bool operator==(const BoundaryTensor &) const = default;
};

/// A sparse table that the ranks of a stage hold together.
struct ProgramTable {
  std::string name; // of the parameter
  DataType type = DataType::Float32;
  int64_t columns = 0;
  std::vector<int64_t> rows; // of each rank of the stage, in order
  bool operator==(const ProgramTable &) const = default;
};

struct RankProgram {
  int rank = 0;
  int stage = 0, replica = 0;
  DeviceRef device;
  DeviceKind kind = DeviceKind::Cpu;
  SampleRange samples;                  // its part of each micro-batch
  std::vector<BoundaryTensor> receives; // of boundary stage−1
  std::vector<BoundaryTensor> sends;    // of boundary stage
  std::vector<ProgramTable> tables;     // equal on all ranks of the stage
  std::vector<Instruction> instructions;
  bool operator==(const RankProgram &) const = default;
};

struct Program {
  std::string model;
  Schedule schedule = Schedule::DataParallel;
  Optimizer optimizer = Optimizer::Sgd;
  int stages = 0;
  int microBatches = 1;
  Samples globalBatch{};
  Seconds predictedIteration{};
  std::vector<RankProgram> ranks;
  bool operator==(const Program &) const = default;

  /// Every send has one receive (and the reverse) with the same samples and order, collectives
  /// name the same group on every member, and no circular wait: executed abstractly to the end.
  llvm::Error verify() const;
};

/// Plan → Program. Ranks are numbered stage by stage, replica by replica, device by device.
/// Micro-batches of 1F1B: stage s starts with min(m, S−s) forward passes. GPipe: all of them.
llvm::Expected<Program> lower(const Plan &plan, const LayerGraph &graph, const Cluster &cluster);

} // namespace heterplan
