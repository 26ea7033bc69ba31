// The allowed order of instructions in one part of a rank: the rules of Program::verify() for each
// part by itself. Rules that relate several parts are in Program.cpp.
#pragma once

#include "ir/MicroBatches.h"
#include "ir/Program.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// Checks one part of a rank: by itself, then its instructions, each and in their order.
class PartVerifier {
public:
  /// `graph`: of the stages. `members`: the ranks of its stage. `samples`: of each micro-batch, as
  /// the forward passes of the part say. All outlive this.
  PartVerifier(const Program &program, const StageGraph &graph, const RankGroup &members, int rank,
               int part, llvm::ArrayRef<SampleRange> samples);

  /// Comes first. InvalidProgram.
  llvm::Error verifyHeader();
  /// The defect of the next instruction, or null.
  const char *check(const Instruction &instruction);
  /// Checks that no micro-batch and no step is left unfinished. Fails with InvalidProgram.
  llvm::Error verifyEnd() const;

private:
  /// The state of one micro-batch in the part: its size by the forward pass, and the instructions
  /// done so far.
  struct Passes {
    SampleRange samples;
    std::vector<int64_t> received, gradientsReceived; // by link to the stage, from it
    bool forward = false, backward = false;
    bool lookup = false, lookupGradient = false;
    bool summed = false; // its gradients, where they are sharded
  };

  std::string name() const;
  llvm::Error verifyTables();
  llvm::Error verifyTensors() const;
  /// Whether each micro-batch sums its gradients.
  bool sums() const { return part.sharding.scattersGradients(); }
  const char *checkEnd(Op op);
  const char *checkGradientSum(const Instruction &instruction);
  const char *checkWhole(const Instruction &instruction);
  bool hasRoom(const Instruction &instruction) const;
  const char *checkPass(const Instruction &instruction);
  const char *checkLookup(const Instruction &instruction);
  const char *checkTransfer(const Instruction &instruction);

  const Program &program;
  const StageGraph &graph;
  const RankGroup &members;
  const ProgramPart &part;
  const MicroBatches microBatches;
  int rank;
  llvm::ArrayRef<SampleRange> samples;
  std::vector<Passes> passes;
  bool scattered = false, stepped = false, gathered = false; // at the end of the iteration
};

} // namespace heterplan
