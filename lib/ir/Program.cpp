#include "ir/Program.h"

#include "ir/ProgramExecution.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

const char *nameOf(Op op) {
  static constexpr const char *names[] = {
#define HETERPLAN_INSTRUCTION(enumerator, name, help) name,
#include "ir/Instructions.def"
  };
  return names[static_cast<int>(op)];
}

std::string describe(const Program &program, int rank, int index) {
  const Instruction &instruction = program.ranks[rank].instructions[index];
  std::string text = "rank " + std::to_string(rank) + ", instruction " + std::to_string(index) +
                     " (" + nameOf(instruction.op);
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

/// What a rank has done of one micro-batch.
struct Passes {
  int64_t received = 0, gradientsReceived = 0;
  bool forward = false, backward = false;
  bool lookup = false, lookupGradient = false;
};

/// The ranks of `stage`, ascending.
std::vector<int> ranksOf(const Program &program, int stage) {
  std::vector<int> ranks;
  for (const RankProgram &rank : program.ranks)
    if (rank.stage == stage)
      ranks.push_back(rank.rank);
  return ranks;
}

/// Checks the instructions of one rank, each by itself and in their order.
class RankVerifier {
public:
  RankVerifier(const Program &program, int rank)
      : program(program), rank(program.ranks[rank]), number(rank) {}

  Error verify() {
    if (Error error = verifyHeader())
      return error;
    passes.resize(program.microBatches);
    for (index = 0; index < static_cast<int>(rank.instructions.size()); ++index)
      if (const char *problem = check(rank.instructions[index]))
        return refuse(describe(program, number, index) + ": " + problem);
    for (const Passes &done : passes)
      if (!done.backward || done.lookupGradient == rank.tables.empty())
        return refuse("rank " + std::to_string(number) + " leaves a micro-batch unfinished");
    return Error::success();
  }

private:
  Error refuse(const std::string &message) const {
    return Diagnostic(Diag::InvalidProgram, Location{}) << message;
  }

  Error verifyHeader() {
    std::string name = "rank " + std::to_string(number);
    if (rank.rank != number)
      return refuse(name + " is called rank " + std::to_string(rank.rank));
    if (rank.stage < 0 || rank.stage >= program.stages)
      return refuse(name + " belongs to a stage that does not exist");
    if (Error error = verifyTables())
      return error;
    SampleRange all{0, program.globalBatch.value() / program.microBatches};
    if (rank.samples.count < 1 || !contains(all, rank.samples))
      return refuse(name + " has samples that are not in the micro-batch");
    // Also keeps a hostile count of micro-batches from being allocated.
    if (rank.instructions.size() < static_cast<size_t>(program.microBatches))
      return refuse(name + " has fewer instructions than micro-batches");
    return Error::success();
  }

  Error verifyTables() {
    if (rank.tables.empty())
      return Error::success();
    members = ranksOf(program, rank.stage);
    for (const ProgramTable &table : rank.tables) {
      bool negative =
          std::any_of(table.rows.begin(), table.rows.end(), [](int64_t rows) { return rows < 0; });
      if (table.name.empty() || table.columns < 1 || negative ||
          table.rows.size() != members.size())
        return refuse("rank " + std::to_string(number) + " has a table '" + table.name +
                      "' without columns, or without a number of rows for each rank of its stage");
    }
    if (rank.tables != program.ranks[members.front()].tables)
      return refuse("ranks " + std::to_string(members.front()) + " and " + std::to_string(number) +
                    " of one stage disagree on its tables");
    return Error::success();
  }

  const char *check(const Instruction &instruction) {
    if (!std::isfinite(instruction.seconds.value()) || instruction.seconds.value() < 0)
      return "its duration is negative or not finite";
    if (instruction.op == Op::AllReduce || instruction.op == Op::Step)
      return checkWhole(instruction);
    if (instruction.microBatch < 0 || instruction.microBatch >= program.microBatches)
      return "there is no such micro-batch";
    if (instruction.op == Op::Load || instruction.op == Op::Forward ||
        instruction.op == Op::Backward)
      return checkPass(instruction);
    if (instruction.op == Op::Lookup || instruction.op == Op::LookupGradient)
      return checkLookup(instruction);
    return checkTransfer(instruction);
  }

  const char *checkWhole(const Instruction &instruction) const {
    if (instruction.microBatch != -1)
      return "it belongs to the whole iteration, not to a micro-batch";
    if (instruction.op == Op::Step)
      return nullptr;
    bool member = false;
    for (size_t i = 0; i < instruction.group.size(); ++i) {
      int other = instruction.group[i];
      if (other < 0 || other >= static_cast<int>(program.ranks.size()) ||
          (i && other <= instruction.group[i - 1]))
        return "its group is not an ascending list of ranks";
      member |= other == number;
    }
    return member ? nullptr : "its group lacks the rank itself";
  }

  const char *checkPass(const Instruction &instruction) {
    Passes &done = passes[instruction.microBatch];
    if (!(instruction.samples == rank.samples))
      return "its samples are not those of the rank";
    if (instruction.op == Op::Load)
      return nullptr;
    if (instruction.op == Op::Forward) {
      if (done.forward)
        return "the forward pass is there twice";
      if (!rank.tables.empty() && !done.lookup)
        return "the rows of its tables are not looked up before it";
      if (rank.stage > 0 && done.received != rank.samples.count)
        return "the receives before it do not bring exactly its samples";
      done.forward = true;
      return nullptr;
    }
    if (!done.forward || done.backward)
      return "a backward pass follows one forward pass, once";
    if (rank.stage + 1 < program.stages && done.gradientsReceived != rank.samples.count)
      return "the gradients received before it are not those of exactly its samples";
    done.backward = true;
    return nullptr;
  }

  const char *checkLookup(const Instruction &instruction) {
    if (rank.tables.empty() || instruction.group != members)
      return "its group is not that of the ranks of a stage with tables";
    if (!(instruction.samples == rank.samples))
      return "its samples are not those of the rank";
    Passes &done = passes[instruction.microBatch];
    bool isForward = instruction.op == Op::Lookup;
    if (isForward ? done.forward || done.lookup : !done.backward || done.lookupGradient)
      return "rows are looked up once, before the forward pass, and their gradients follow the "
             "backward pass, once";
    (isForward ? done.lookup : done.lookupGradient) = true;
    return nullptr;
  }

  const char *checkTransfer(const Instruction &instruction) {
    bool isSend = instruction.op == Op::Send || instruction.op == Op::SendGradient;
    bool toNext = instruction.op == Op::Send || instruction.op == Op::ReceiveGradient;
    int peerStage = rank.stage + (toNext ? 1 : -1);
    if (instruction.peer < 0 || instruction.peer >= static_cast<int>(program.ranks.size()) ||
        program.ranks[instruction.peer].stage != peerStage)
      return "its peer is not a rank of the neighbouring stage";
    if (instruction.boundary != (toNext ? rank.stage : rank.stage - 1))
      return "it names another stage boundary than its own";
    if (instruction.samples.count < 1 || !contains(rank.samples, instruction.samples))
      return "its samples are not among those of the rank";
    Passes &done = passes[instruction.microBatch];
    if (isSend)
      return (toNext ? done.forward : done.backward) ? nullptr : "it is sent before it is computed";
    int64_t &received = toNext ? done.gradientsReceived : done.received;
    if (received > rank.samples.count - instruction.samples.count)
      return "more samples are received than the rank has";
    received += instruction.samples.count;
    return nullptr;
  }

  const Program &program;
  const RankProgram &rank;
  int number;
  int index = 0;
  std::vector<Passes> passes;
  std::vector<int> members; // ranks of the stage, where it has tables
};

/// Also keeps a hostile count of stages from being allocated.
bool everyStageHasRanks(const Program &program) {
  std::vector<bool> present(std::min<size_t>(program.stages, program.ranks.size()));
  for (const RankProgram &rank : program.ranks)
    if (rank.stage >= 0 && rank.stage < static_cast<int>(present.size()))
      present[rank.stage] = true;
  return static_cast<size_t>(program.stages) == present.size() &&
         std::find(present.begin(), present.end(), false) == present.end();
}
} // namespace

Error Program::verify() const {
  Location place{"", 0, 0, ""};
  if (ranks.empty() || stages < 1 || microBatches < 1 || globalBatch.value() < 1 ||
      globalBatch.value() % microBatches)
    return Diagnostic(Diag::InvalidProgram, place)
           << "a program has ranks, stages, and micro-batches that divide the global batch";
  if (!everyStageHasRanks(*this))
    return Diagnostic(Diag::InvalidProgram, place) << "a stage has no ranks";
  if (!std::isfinite(predictedIteration.value()) || predictedIteration.value() < 0)
    return Diagnostic(Diag::InvalidProgram, place) << "the predicted iteration is not a time";
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (Error error = RankVerifier(*this, static_cast<int>(rank)).verify())
      return error;
  return verifyExecution(*this);
}

} // namespace heterplan
