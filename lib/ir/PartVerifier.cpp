#include "ir/PartVerifier.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

namespace {
bool contains(SampleRange outer, SampleRange inner) {
  return inner.count >= 0 && inner.begin >= outer.begin && inner.count <= outer.count &&
         inner.begin - outer.begin <= outer.count - inner.count;
}

Error refuse(const std::string &message) {
  return Diagnostic(Diag::InvalidProgram, Location{}) << message;
}
} // namespace

PartVerifier::PartVerifier(const Program &program, const StageGraph &graph,
                           const RankGroup &members, int rank, int part,
                           ArrayRef<SampleRange> samples)
    : program(program), graph(graph), members(members),
      part(program.ranks[rank].parts[part]), microBatches{program.globalBatch,
                                                          program.microBatches},
      rank(rank), samples(samples) {}

Error PartVerifier::verifyHeader() {
  if (part.replica < 0 || part.shard < 0)
    return refuse(name() + " has a negative replica or shard");
  if (Error error = verifyTables())
    return error;
  if (Error error = verifyTensors())
    return error;
  SampleRange all{0, microBatches.fullSize()};
  if (part.samples.count < 1 || !contains(all, part.samples))
    return refuse(name() + " has samples that are not in the micro-batch");
  passes.resize(program.microBatches);
  for (size_t i = 0; i < passes.size(); ++i) {
    passes[i].samples = samples[i];
    passes[i].received.resize(graph.into(part.stage).size());
    passes[i].gradientsReceived.resize(graph.outOf(part.stage).size());
  }
  return Error::success();
}

const char *PartVerifier::check(const Instruction &instruction) {
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

Error PartVerifier::verifyEnd() const {
  for (const Passes &done : passes)
    if (!done.backward || done.lookupGradient == part.tables.empty() || done.summed != sums())
      return refuse(name() + " leaves a micro-batch unfinished");
  if (scattered != part.sharding.scattersAtEnd())
    return refuse(name() + " does not sum the gradients of which it updates a slice");
  const bool keepsAll = part.sharding.dividesState() && !part.sharding.gathersParameters();
  if (keepsAll && !gathered) // where parameters are sharded, only those of several stages are whole
    return refuse(name() + " does not gather the parameters of which it has updated a slice");
  return Error::success();
}

std::string PartVerifier::name() const {
  bool several = program.ranks[rank].parts.size() > 1;
  return "rank " + std::to_string(rank) +
         (several ? ", stage " + std::to_string(part.stage) + "," : "");
}

Error PartVerifier::verifyTables() {
  if (part.tables.empty())
    return Error::success();
  for (const ProgramTable &table : part.tables) {
    bool negative = any_of(table.rows, [](int64_t rows) { return rows < 0; });
    if (table.name.empty() || table.columns < 1 || negative ||
        int64_t(table.rows.size()) != members.size())
      return refuse(name() + " has a table '" + table.name +
                    "' without columns, or without a number of rows for each rank of its stage");
  }
  int first = *members.begin();
  if (part.tables != program.ranks[first].findPart(part.stage)->tables)
    return refuse("ranks " + std::to_string(first) + " and " + std::to_string(rank) +
                  " of one stage disagree on its tables");
  return Error::success();
}

/// If stages are no chain, tensors name links of their stage, one link after another.
Error PartVerifier::verifyTensors() const {
  if (program.links.empty())
    return Error::success();
  auto belong = [](ArrayRef<BoundaryTensor> tensors, const std::vector<int> &links) {
    return is_sorted(tensors,
                     [](const auto &a, const auto &b) { return a.boundary < b.boundary; }) &&
           all_of(tensors,
                  [&](const auto &tensor) { return is_contained(links, tensor.boundary); });
  };
  if (belong(part.receives, graph.into(part.stage)) && belong(part.sends, graph.outOf(part.stage)))
    return Error::success();
  return refuse(name() + " has tensors that cross no link of its stage, or out of order");
}

/// How the end of an iteration follows from what the ranks of the stage share.
const char *PartVerifier::checkEnd(Op op) {
  bool sharded = part.sharding.dividesState();
  if (op == Op::AllReduce && sharded)
    return "gradients are summed by slices where the state of the optimizer is sharded";
  if (op == Op::ReduceScatter && !part.sharding.scattersAtEnd())
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

const char *PartVerifier::checkGradientSum(const Instruction &instruction) {
  Passes &done = passes[instruction.microBatch];
  if (!sums() || instruction.group != members)
    return "its group is not that of the ranks of a stage with sharded gradients";
  if (!done.backward || done.summed)
    return "gradients are summed once, after the backward pass";
  done.summed = true;
  return nullptr;
}

const char *PartVerifier::checkWhole(const Instruction &instruction) {
  if (instruction.microBatch != -1)
    return "it belongs to the whole iteration, not to a micro-batch";
  if (const char *problem = checkEnd(instruction.op))
    return problem;
  if (!isCollective(instruction.op))
    return nullptr;
  const RankGroup &group = instruction.group;
  if (!group.ascends() ||
      (!group.empty() && group.ranges().back().last() >= int64_t(program.ranks.size())))
    return "its group is not an ascending list of ranks";
  if (!group.contains(rank))
    return "its group lacks the rank itself";
  if (program.ranks[rank].parts.size() > 1 && group != members)
    return "its group is not that of the ranks of its stage";
  if (any_of(group, [&](int other) { return program.ranks[other].parts[0].shard != part.shard; }))
    return "its group has ranks that are another shard of their replicas";
  return nullptr;
}

/// As many samples as the part may have of this micro-batch.
bool PartVerifier::hasRoom(const Instruction &instruction) const {
  return microBatches.isFull(instruction.microBatch)
             ? instruction.samples == part.samples
             : instruction.samples.count >= 0 && instruction.samples.count <= part.samples.count;
}

const char *PartVerifier::checkPass(const Instruction &instruction) {
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
    if (any_of(done.received, [&](int64_t count) { return count != done.samples.count; }))
      return "the receives before it do not bring exactly its samples";
    done.forward = true;
    return nullptr;
  }
  if (!done.forward || done.backward)
    return "a backward pass follows one forward pass, once";
  if (any_of(done.gradientsReceived, [&](int64_t count) { return count != done.samples.count; }))
    return "the gradients received before it are not those of exactly its samples";
  done.backward = true;
  return nullptr;
}

const char *PartVerifier::checkLookup(const Instruction &instruction) {
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

const char *PartVerifier::checkTransfer(const Instruction &instruction) {
  bool toNext = instruction.op == Op::Send || instruction.op == Op::ReceiveGradient;
  const std::vector<int> &links = toNext ? graph.outOf(part.stage) : graph.into(part.stage);
  auto leadsToPeer = [&](int index) {
    const StageLink &link = graph.links()[index];
    return program.ranks[instruction.peer].findPart(toNext ? link.to : link.from) != nullptr;
  };
  if (instruction.peer < 0 || instruction.peer >= static_cast<int>(program.ranks.size()) ||
      none_of(links, leadsToPeer))
    return "its peer is not a rank of the neighbouring stage";
  auto place = find(links, instruction.boundary);
  if (place == links.end() || !leadsToPeer(*place))
    return "it names another stage boundary than its own";
  Passes &done = passes[instruction.microBatch];
  if (instruction.samples.count < 1 || !contains(done.samples, instruction.samples))
    return "its samples are not among those of the rank";
  if (isSend(instruction.op))
    return (toNext ? done.forward : done.backward) ? nullptr : "it is sent before it is computed";
  int64_t &received = (toNext ? done.gradientsReceived : done.received)[place - links.begin()];
  if (received > done.samples.count - instruction.samples.count)
    return "more samples are received than the rank has";
  received += instruction.samples.count;
  return nullptr;
}

} // namespace heterplan
