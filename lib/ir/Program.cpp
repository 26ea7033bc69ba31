#include "ir/Program.h"

#include "ir/MicroBatches.h"
#include "ir/PartVerifier.h"
#include "ir/ProgramExecution.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
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

std::vector<RankGroup> Program::stageGroups(int shard) const {
  std::vector<RankGroup> groups(stages);
  for (const RankProgram &rank : ranks)
    for (const ProgramPart &part : rank.parts)
      if (part.shard == shard)
        groups[part.stage].add(rank.rank);
  return groups;
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
Error refuse(const std::string &message) {
  return Diagnostic(Diag::InvalidProgram, Location{}) << message;
}

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
  if (rank.parts.front().stage < 0 || rank.parts.back().stage >= program.stages)
    return refuse(name + " belongs to a stage that does not exist");
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

/// The ranks by stage and shard.
using GroupsOfShards = std::map<std::pair<int, int>, RankGroup>;

GroupsOfShards groupsOfShards(const Program &program) {
  GroupsOfShards groups;
  for (const RankProgram &rank : program.ranks)
    for (const ProgramPart &part : rank.parts)
      groups[{part.stage, part.shard}].add(rank.rank);
  return groups;
}

/// Checks the instructions of one rank, each by itself and in their order.
Error verifyRank(const Program &program, const StageGraph &graph, const GroupsOfShards &groups,
                 int number, const PartSamples &samples) {
  const RankProgram &rank = program.ranks[number];
  std::vector<PartVerifier> parts;
  for (size_t part = 0; part < rank.parts.size(); ++part) {
    const RankGroup &members = groups.at({rank.parts[part].stage, rank.parts[part].shard});
    parts.emplace_back(program, graph, members, number, static_cast<int>(part), samples[part]);
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

/// Messages of the schedules without several parts a rank go from each stage to the next.
Error verifyLinks(const Program &program, const StageGraph &graph) {
  if (program.links.empty())
    return Error::success();
  if (program.schedule != Schedule::Burst || graph.isChain())
    return refuse("links are stated, which programs of burst plans with branches alone do");
  for (size_t i = 0; i < program.links.size(); ++i) {
    const StageLink &link = program.links[i];
    bool leads = link.from >= 0 && link.from < link.to && link.to < program.stages;
    const StageLink *before = i ? &program.links[i - 1] : nullptr;
    if (!leads || (before && std::tie(link.from, link.to) <= std::tie(before->from, before->to)))
      return refuse("link " + std::to_string(i) +
                    " leads to no later stage, or is not behind the one before it");
  }
  return Error::success();
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
  if (!links.empty() && size_t(stages) > mostLinkedStages)
    return refuse("links are stated between more than " + std::to_string(mostLinkedStages) +
                  " stages");
  StageGraph graph = stageGraph();
  if (Error error = verifyLinks(*this, graph))
    return error;
  if (overlapsTransfers &&
      (sharesDevices(schedule) || schedule == Schedule::GPipe || !links.empty()))
    return refuse("transfers overlap computing in pipelines of the schedule 1f1b only");
  std::vector<PartSamples> samples;
  for (const RankProgram &rank : ranks)
    samples.push_back(samplesOf(rank, microBatches));
  const GroupsOfShards groups = groupsOfShards(*this);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (Error error = verifyRank(*this, graph, groups, static_cast<int>(rank), samples[rank]))
      return error;
  for (int stage = 0; stage < stages; ++stage)
    if (Error error = verifyCoverage(*this, stage, samples))
      return error;
  return verifyExecution(*this);
}

} // namespace heterplan
