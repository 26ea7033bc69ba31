#include "ir/Program.h"

#include "ir/MicroBatches.h"
#include "ir/ProgramExecution.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace llvm;

namespace heterplan {

ArrayRef<InstructionInfo> instructionInfos() {
  static constexpr InstructionInfo infos[] = {
#define HETERPLAN_INSTRUCTION(enumerator, name, class, phase, help)                                \
  {name, InstructionClass::class, Phase::phase},
#include "ir/Instructions.def"
  };
  return infos;
}

const ProgramPart *RankProgram::findPart(int stage) const {
  auto found = find_if(parts, [&](const ProgramPart &part) { return part.stage == stage; });
  return found == parts.end() ? nullptr : &*found;
}

std::vector<int> Program::ranksOf(int stage) const {
  std::vector<int> result;
  for (const RankProgram &rank : ranks)
    if (rank.findPart(stage))
      result.push_back(rank.rank);
  return result;
}

std::string describe(const Program &program, int rank, int index) {
  const RankProgram &of = program.ranks[rank];
  const Instruction &instruction = of.instructions[index];
  std::string text = "rank " + std::to_string(rank) + ", instruction " + std::to_string(index) +
                     " (" + nameOf(instruction.op);
  if (of.parts.size() > 1 && instruction.part >= 0 && instruction.part < int(of.parts.size()))
    text += " of stage " + std::to_string(of.partOf(instruction).stage);
  if (instruction.microBatch >= 0)
    text += " of micro-batch " + std::to_string(instruction.microBatch);
  if (instruction.peer >= 0)
    text += ", peer rank " + std::to_string(instruction.peer);
  return text + ")";
}

namespace {
bool contains(SampleRange outer, SampleRange inner) {
  return inner.count >= 0 && inner.begin >= outer.begin && inner.count <= outer.count &&
         inner.begin - outer.begin <= outer.count - inner.count;
}

/// What a part has of one micro-batch, as its forward pass says, and what it has done of it.
struct Passes {
  SampleRange samples;
  int64_t received = 0, gradientsReceived = 0;
  bool forward = false, backward = false;
  bool lookup = false, lookupGradient = false;
  bool summed = false; // its gradients, where they are sharded
};

Error refuse(const std::string &message) {
  return Diagnostic(Diag::InvalidProgram, Location{}) << message;
}

/// Checks one part of a rank: by itself, then its instructions, each and in their order.
class PartVerifier {
public:
  /// `samples`: of each micro-batch.
  PartVerifier(const Program &program, int rank, int part, ArrayRef<SampleRange> samples)
      : program(program), part(program.ranks[rank].parts[part]), microBatches{program.globalBatch,
                                                                              program.microBatches},
        rank(rank), samples(samples) {}

  Error verifyHeader() {
    if (part.stage < 0 || part.stage >= program.stages)
      return refuse(name() + " belongs to a stage that does not exist");
    if (part.replica < 0 || part.shard < 0)
      return refuse(name() + " has a negative replica or shard");
    if (part.stateSharding != StateSharding::None)
      members = program.ranksOf(part.stage);
    if (Error error = verifyTables())
      return error;
    SampleRange all{0, microBatches.fullSize()};
    if (part.samples.count < 1 || !contains(all, part.samples))
      return refuse(name() + " has samples that are not in the micro-batch");
    passes.resize(program.microBatches);
    for (size_t i = 0; i < passes.size(); ++i)
      passes[i].samples = samples[i];
    return Error::success();
  }

  /// What is wrong with the next instruction, or null.
  const char *check(const Instruction &instruction) {
    const InstructionInfo &info = infoOf(instruction.op);
    if (info.phase == Phase::Iteration)
      return checkWhole(instruction);
    if (instruction.microBatch < 0 || instruction.microBatch >= program.microBatches)
      return "there is no such micro-batch";
    switch (info.kind) {
    case InstructionClass::Compute:
      return checkPass(instruction);
    case InstructionClass::Collective:
      return instruction.op == Op::GradientReduceScatter ? checkGradientSum(instruction)
                                                         : checkLookup(instruction);
    default:
      return checkTransfer(instruction);
    }
  }

  Error verifyEnd() const {
    for (const Passes &done : passes)
      if (!done.backward || done.lookupGradient == part.tables.empty() || done.summed != sums())
        return refuse(name() + " leaves a micro-batch unfinished");
    if (scattered != (part.stateSharding == StateSharding::Optimizer))
      return refuse(name() + " does not sum the gradients of which it updates a slice");
    if (gathered != (part.stateSharding != StateSharding::None))
      return refuse(name() + " does not gather the parameters of which it has updated a slice");
    return Error::success();
  }

private:
  std::string name() const {
    bool several = program.ranks[rank].parts.size() > 1;
    return "rank " + std::to_string(rank) +
           (several ? ", stage " + std::to_string(part.stage) + "," : "");
  }

  Error verifyTables() {
    if (part.tables.empty())
      return Error::success();
    members = program.ranksOf(part.stage);
    for (const ProgramTable &table : part.tables) {
      bool negative = any_of(table.rows, [](int64_t rows) { return rows < 0; });
      if (table.name.empty() || table.columns < 1 || negative ||
          table.rows.size() != members.size())
        return refuse(name() + " has a table '" + table.name +
                      "' without columns, or without a number of rows for each rank of its stage");
    }
    if (part.tables != program.ranks[members.front()].findPart(part.stage)->tables)
      return refuse("ranks " + std::to_string(members.front()) + " and " + std::to_string(rank) +
                    " of one stage disagree on its tables");
    return Error::success();
  }

  /// Whether each micro-batch sums its gradients.
  bool sums() const { return part.stateSharding == StateSharding::Gradients; }

  /// How the end of an iteration follows from what the ranks of the stage share.
  const char *checkEnd(Op op) {
    bool sharded = part.stateSharding != StateSharding::None;
    if (op == Op::AllReduce && sharded)
      return "gradients are summed by slices where the state of the optimizer is sharded";
    if (op == Op::ReduceScatter && part.stateSharding != StateSharding::Optimizer)
      return "gradients are summed by slices at the end only where the optimizer's state alone is "
             "sharded";
    if (op == Op::ReduceScatter && (stepped || scattered))
      return "gradients are summed once, before the step";
    if (op == Op::AllGather && (!sharded || !stepped || gathered))
      return "parameters are gathered once, after the step, where the state of the optimizer is "
             "sharded";
    scattered |= op == Op::ReduceScatter;
    stepped |= op == Op::Step;
    gathered |= op == Op::AllGather;
    return nullptr;
  }

  const char *checkGradientSum(const Instruction &instruction) {
    Passes &done = passes[instruction.microBatch];
    if (!sums() || instruction.group != members)
      return "its group is not that of the ranks of a stage with sharded gradients";
    if (!done.backward || done.summed)
      return "gradients are summed once, after the backward pass";
    done.summed = true;
    return nullptr;
  }

  const char *checkWhole(const Instruction &instruction) {
    if (instruction.microBatch != -1)
      return "it belongs to the whole iteration, not to a micro-batch";
    if (const char *problem = checkEnd(instruction.op))
      return problem;
    if (!isCollective(instruction.op))
      return nullptr;
    bool member = false;
    for (size_t i = 0; i < instruction.group.size(); ++i) {
      int other = instruction.group[i];
      if (other < 0 || other >= static_cast<int>(program.ranks.size()) ||
          (i && other <= instruction.group[i - 1]))
        return "its group is not an ascending list of ranks";
      member |= other == rank;
    }
    if (!member)
      return "its group lacks the rank itself";
    if (program.ranks[rank].parts.size() > 1 && instruction.group != program.ranksOf(part.stage))
      return "its group is not that of the ranks of its stage";
    return nullptr;
  }

  /// As many samples as the part may have of this micro-batch.
  bool hasRoom(const Instruction &instruction) const {
    return microBatches.isFull(instruction.microBatch)
               ? instruction.samples == part.samples
               : instruction.samples.count >= 0 && instruction.samples.count <= part.samples.count;
  }

  const char *checkPass(const Instruction &instruction) {
    Passes &done = passes[instruction.microBatch];
    if (!(instruction.samples == done.samples) || !hasRoom(instruction))
      return "its samples are not those of the rank";
    if (instruction.op == Op::Load)
      return nullptr;
    if (instruction.op == Op::Forward) {
      if (done.forward)
        return "the forward pass is there twice";
      if (!part.tables.empty() && !done.lookup)
        return "the rows of its tables are not looked up before it";
      if (part.stage > 0 && done.received != done.samples.count)
        return "the receives before it do not bring exactly its samples";
      done.forward = true;
      return nullptr;
    }
    if (!done.forward || done.backward)
      return "a backward pass follows one forward pass, once";
    if (part.stage + 1 < program.stages && done.gradientsReceived != done.samples.count)
      return "the gradients received before it are not those of exactly its samples";
    done.backward = true;
    return nullptr;
  }

  const char *checkLookup(const Instruction &instruction) {
    if (part.tables.empty() || instruction.group != members)
      return "its group is not that of the ranks of a stage with tables";
    Passes &done = passes[instruction.microBatch];
    if (!(instruction.samples == done.samples))
      return "its samples are not those of the rank";
    bool isForward = instruction.op == Op::Lookup;
    if (isForward ? done.forward || done.lookup : !done.backward || done.lookupGradient)
      return "rows are looked up once, before the forward pass, and their gradients follow the "
             "backward pass, once";
    (isForward ? done.lookup : done.lookupGradient) = true;
    return nullptr;
  }

  const char *checkTransfer(const Instruction &instruction) {
    bool toNext = instruction.op == Op::Send || instruction.op == Op::ReceiveGradient;
    int peerStage = part.stage + (toNext ? 1 : -1);
    if (instruction.peer < 0 || instruction.peer >= static_cast<int>(program.ranks.size()) ||
        !program.ranks[instruction.peer].findPart(peerStage))
      return "its peer is not a rank of the neighbouring stage";
    if (instruction.boundary != (toNext ? part.stage : part.stage - 1))
      return "it names another stage boundary than its own";
    Passes &done = passes[instruction.microBatch];
    if (instruction.samples.count < 1 || !contains(done.samples, instruction.samples))
      return "its samples are not among those of the rank";
    if (isSend(instruction.op))
      return (toNext ? done.forward : done.backward) ? nullptr : "it is sent before it is computed";
    int64_t &received = toNext ? done.gradientsReceived : done.received;
    if (received > done.samples.count - instruction.samples.count)
      return "more samples are received than the rank has";
    received += instruction.samples.count;
    return nullptr;
  }

  const Program &program;
  const ProgramPart &part;
  const MicroBatches microBatches;
  int rank;
  ArrayRef<SampleRange> samples;
  std::vector<Passes> passes;
  std::vector<int> members; // ranks of the stage, where they share tables or state
  bool scattered = false, stepped = false, gathered = false; // at the end of the iteration
};

Error verifyRankHeader(const Program &program, int number) {
  const RankProgram &rank = program.ranks[number];
  std::string name = "rank " + std::to_string(number);
  if (rank.rank != number)
    return refuse(name + " is called rank " + std::to_string(rank.rank));
  if (rank.parts.empty())
    return refuse(name + " has no part of any stage");
  if (rank.parts.size() > 1 && !sharesDevices(program.schedule))
    return refuse(name + " has parts of several stages, which schedule '" +
                  nameOf(program.schedule) + "' does not allow");
  for (size_t i = 1; i < rank.parts.size(); ++i)
    if (rank.parts[i].stage <= rank.parts[i - 1].stage)
      return refuse(name + " has parts that are not of ascending stages");
  // Also keeps a hostile count of micro-batches from being allocated.
  if (rank.instructions.size() / rank.parts.size() < static_cast<size_t>(program.microBatches))
    return refuse(name + " has fewer instructions than micro-batches");
  return Error::success();
}

/// By part, which samples of each micro-batch its forward passes say that it has; those of a full
/// one where it has no such pass.
using PartSamples = std::vector<std::vector<SampleRange>>;

PartSamples samplesOf(const RankProgram &rank, int microBatches) {
  PartSamples samples;
  for (const ProgramPart &part : rank.parts)
    samples.emplace_back(microBatches, part.samples);
  for (const Instruction &each : rank.instructions)
    if (each.op == Op::Forward && each.part >= 0 && each.part < static_cast<int>(samples.size()) &&
        each.microBatch >= 0 && each.microBatch < microBatches)
      samples[each.part][each.microBatch] = each.samples;
  return samples;
}

/// Checks the instructions of one rank, each by itself and in their order.
Error verifyRank(const Program &program, int number, const PartSamples &samples) {
  const RankProgram &rank = program.ranks[number];
  std::vector<PartVerifier> parts;
  for (size_t part = 0; part < rank.parts.size(); ++part) {
    parts.emplace_back(program, number, static_cast<int>(part), samples[part]);
    if (Error error = parts.back().verifyHeader())
      return error;
  }
  for (size_t i = 0; i < rank.instructions.size(); ++i) {
    const Instruction &instruction = rank.instructions[i];
    const char *problem = nullptr;
    if (!std::isfinite(instruction.seconds.value()) || instruction.seconds.value() < 0)
      problem = "its duration is negative or not finite";
    else if (instruction.part < 0 || instruction.part >= static_cast<int>(parts.size()))
      problem = "the rank has no such part";
    else
      problem = parts[instruction.part].check(instruction);
    if (problem)
      return refuse(describe(program, number, static_cast<int>(i)) + ": " + problem);
  }
  for (const PartVerifier &part : parts)
    if (Error error = part.verifyEnd())
      return error;
  return Error::success();
}

/// A part of a stage with its samples of each micro-batch.
struct CoveringPart {
  const ProgramPart *part;
  ArrayRef<SampleRange> samples;
};

/// Whether `part` has the samples after those of `before` (none: the first ones) of a micro-batch;
/// the shards of a replica have the same ones.
bool follows(const CoveringPart *before, const CoveringPart &part, int microBatch) {
  SampleRange own = part.samples[microBatch];
  if (!before)
    return part.part->shard == 0 && part.part->replica == 0 && own.begin == 0;
  SampleRange others = before->samples[microBatch];
  if (before->part->replica == part.part->replica)
    return part.part->shard == before->part->shard + 1 && own == others;
  return part.part->shard == 0 && part.part->replica == before->part->replica + 1 &&
         own.begin == others.begin + others.count;
}

/// Replica by replica, the parts of a stage hold the samples of each micro-batch, each once.
Error verifyCoverage(const Program &program, int stage, ArrayRef<PartSamples> samples) {
  std::vector<CoveringPart> parts;
  for (const RankProgram &rank : program.ranks)
    if (const ProgramPart *part = rank.findPart(stage))
      parts.push_back({part, samples[rank.rank][part - rank.parts.data()]});
  sort(parts, [](const CoveringPart &a, const CoveringPart &b) {
    return std::tie(a.part->replica, a.part->shard) < std::tie(b.part->replica, b.part->shard);
  });
  MicroBatches microBatches{program.globalBatch, program.microBatches};
  for (int microBatch = 0; microBatch < program.microBatches; ++microBatch) {
    for (size_t i = 0; i < parts.size(); ++i)
      if (!follows(i ? &parts[i - 1] : nullptr, parts[i], microBatch))
        return refuse("replica " + std::to_string(parts[i].part->replica) + " of stage " +
                      std::to_string(stage) + " does not hold the samples after those before it " +
                      "in micro-batch " + std::to_string(microBatch) +
                      ", or its replicas and shards are not numbered one after another");
    SampleRange last = parts.back().samples[microBatch];
    if (last.begin + last.count != microBatches.sizeOf(microBatch))
      return refuse("the replicas of stage " + std::to_string(stage) + " hold " +
                    std::to_string(last.begin + last.count) + " of the " +
                    std::to_string(microBatches.sizeOf(microBatch)) + " samples of micro-batch " +
                    std::to_string(microBatch));
  }
  return Error::success();
}

/// Also keeps a hostile count of stages from being allocated.
bool everyStageHasRanks(const Program &program) {
  size_t parts = 0;
  for (const RankProgram &rank : program.ranks)
    parts += rank.parts.size();
  std::vector<bool> present(std::min<size_t>(program.stages, parts));
  for (const RankProgram &rank : program.ranks)
    for (const ProgramPart &part : rank.parts)
      if (part.stage >= 0 && part.stage < static_cast<int>(present.size()))
        present[part.stage] = true;
  return static_cast<size_t>(program.stages) == present.size() &&
         std::find(present.begin(), present.end(), false) == present.end();
}
} // namespace

Error Program::verify() const {
  Location place{"", 0, 0, ""};
  if (ranks.empty() || stages < 1 || !MicroBatches{globalBatch, microBatches}.isValid())
    return Diagnostic(Diag::InvalidProgram, place)
           << "a program has ranks, stages, and at most as many micro-batches as samples";
  if (!everyStageHasRanks(*this))
    return Diagnostic(Diag::InvalidProgram, place) << "a stage has no ranks";
  if (!std::isfinite(predictedIteration.value()) || predictedIteration.value() < 0)
    return Diagnostic(Diag::InvalidProgram, place) << "the predicted iteration is not a time";
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (Error error = verifyRankHeader(*this, static_cast<int>(rank)))
      return error;
  std::vector<PartSamples> samples;
  for (const RankProgram &rank : ranks)
    samples.push_back(samplesOf(rank, microBatches));
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (Error error = verifyRank(*this, static_cast<int>(rank), samples[rank]))
      return error;
  for (int stage = 0; stage < stages; ++stage)
    if (Error error = verifyCoverage(*this, stage, samples))
      return error;
  return verifyExecution(*this);
}

} // namespace heterplan
