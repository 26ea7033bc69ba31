#include "ir/ExecutionModeForm.h"
#include "ir/FileForms.h"
#include "ir/FormParts.h"
#include "ir/JsonForm.h"

#include "heterplan.pb.h"

#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace heterplan {

namespace {

void writeSamples(SampleRange samples, v1::SampleRange &form) {
  form.set_begin(double(samples.begin));
  form.set_count(double(samples.count));
}

SampleRange readSamples(const v1::SampleRange &form) {
  return {int64_t(form.begin()), int64_t(form.count())};
}

void writeGroup(const RankGroup &group, v1::Instruction &form) {
  for (const RankRange &range : group.ranges()) {
    v1::RankRange &rangeForm = *form.add_ranges();
    rangeForm.set_first(range.first);
    rangeForm.set_count(range.count);
    rangeForm.set_stride(range.stride);
  }
}

RankRange readRange(const v1::RankRange &form) {
  return {form.first(), form.count(), form.stride()};
}

RankGroup readGroup(const v1::Instruction &form) {
  RankGroup group;
  for (int rank : form.group())
    group.add(rank);
  for (const v1::RankRange &range : form.ranges())
    group.add(readRange(range));
  return group;
}

/// Whether `range` has ranks below `worldSize` alone, all behind `before`.
bool isBehind(int64_t before, const RankRange &range, int worldSize) {
  return range.count > 0 && range.stride > 0 && range.first > before && range.last() < worldSize;
}

/// Checks that a group is stated in one way and ascends. Comes before readGroup().
Error checkGroup(const v1::Instruction &form, const Twine &place, int worldSize,
                 const JsonSource &source) {
  if (form.group_size() && form.ranges_size())
    return Diagnostic(Diag::InvalidProgram, source.at(place))
           << "an instruction has both 'group' and 'ranges'; accepted is one of them";
  int64_t last = -1;
  auto check = [&](const RankRange &range, const Twine &element) -> Error {
    if (!isBehind(last, range, worldSize))
      return Diagnostic(Diag::InvalidProgram, source.at(element))
             << range.count << " ranks from " << range.first << " on, " << range.stride
             << " apart; accepted are ranks below " << worldSize << " that ascend";
    last = range.last();
    return Error::success();
  };
  for (int i = 0; i < form.group_size(); ++i)
    if (Error error = check({form.group(i)}, place + ".group[" + Twine(i) + "]"))
      return error;
  for (int i = 0; i < form.ranges_size(); ++i)
    if (Error error = check(readRange(form.ranges(i)), place + ".ranges[" + Twine(i) + "]"))
      return error;
  return Error::success();
}

void writeInstruction(const Instruction &instruction, v1::Instruction &form) {
  form.set_op(nameOf(instruction.op));
  form.set_part(instruction.part);
  if (instruction.microBatch >= 0)
    form.set_micro_batch(instruction.microBatch);
  if (instruction.peer >= 0)
    form.set_peer(instruction.peer);
  if (!(instruction.samples == SampleRange()))
    writeSamples(instruction.samples, *form.mutable_samples());
  if (instruction.boundary >= 0)
    form.set_boundary(instruction.boundary);
  writeGroup(instruction.group, form);
  form.set_seconds(instruction.seconds.value());
}

Instruction readInstruction(const v1::Instruction &form, const Twine &place, NameReader &names) {
  Instruction instruction;
  instruction.op =
      names.named<Op>(form.op(), static_cast<int>(instructionInfos().size()), place + ".op");
  instruction.part = form.part();
  if (form.has_micro_batch())
    instruction.microBatch = form.micro_batch();
  if (form.has_peer())
    instruction.peer = form.peer();
  instruction.samples = readSamples(form.samples());
  if (form.has_boundary())
    instruction.boundary = form.boundary();
  instruction.group = readGroup(form);
  instruction.seconds = Seconds(form.seconds());
  return instruction;
}

void writeTensor(const BoundaryTensor &tensor, v1::BoundaryTensor &form) {
  form.set_name(tensor.name);
  form.set_type(heterplan::nameOf(tensor.type));
  form.set_differentiable(tensor.differentiable);
  form.set_boundary(tensor.boundary);
  writeShape(tensor.shape, form);
}

BoundaryTensor readTensor(const v1::BoundaryTensor &form, const Twine &place, NameReader &names) {
  BoundaryTensor tensor;
  tensor.name = form.name();
  if (!form.type().empty())
    tensor.type = names.named<DataType>(form.type(), dataTypeCount, place + ".type");
  tensor.differentiable = form.differentiable();
  tensor.boundary = form.boundary();
  tensor.shape = readShape(form);
  return tensor;
}

void writeTable(const ProgramTable &table, v1::ProgramTable &form) {
  form.set_name(table.name);
  form.set_type(heterplan::nameOf(table.type));
  form.set_columns(double(table.columns));
  for (int64_t rows : table.rows)
    form.add_rows(double(rows));
}

ProgramTable readTable(const v1::ProgramTable &form, const Twine &place, NameReader &names) {
  ProgramTable table;
  table.name = form.name();
  if (!form.type().empty())
    table.type = names.named<DataType>(form.type(), dataTypeCount, place + ".type");
  table.columns = int64_t(form.columns());
  table.rows.assign(form.rows().begin(), form.rows().end());
  return table;
}

void readCommon(const v1::RankProgram &form, NameReader &names, Program &program) {
  program.model = form.model();
  program.schedule =
      names.named<Schedule>(form.schedule(), static_cast<int>(schedules().size()), "schedule");
  program.optimizer = names.named<Optimizer>(form.optimizer(), 3, "optimizer");
  if (!form.optimizer_kernels().empty())
    program.optimizerKernels =
        names.named<OptimizerKernels>(form.optimizer_kernels(), 2, "optimizerKernels");
  program.stages = form.stages();
  program.microBatches = form.micro_batches();
  program.globalBatch = Samples(int64_t(form.global_batch()));
  program.predictedIteration = Seconds(form.predicted_iteration_seconds());
  program.overlapsSums = form.overlap_grad_reduce();
  program.overlapsTransfers = form.overlap_transfers();
  for (const v1::StageLink &link : form.links())
    program.links.push_back({link.from(), link.to()});
}

void writePart(const ProgramPart &part, v1::ProgramPart &form) {
  form.set_stage(part.stage);
  form.set_replica(part.replica);
  form.set_shard(part.shard);
  writeSamples(part.samples, *form.mutable_samples());
  for (const BoundaryTensor &tensor : part.receives)
    writeTensor(tensor, *form.add_receives());
  for (const BoundaryTensor &tensor : part.sends)
    writeTensor(tensor, *form.add_sends());
  for (const ProgramTable &table : part.tables)
    writeTable(table, *form.add_tables());
  for (const std::string &layer : part.recompute)
    form.add_recompute(layer);
  writeSharding(part.sharding, form);
}

ProgramPart readPart(const v1::ProgramPart &form, const Twine &place, NameReader &names) {
  ProgramPart part;
  part.stage = form.stage();
  part.replica = form.replica();
  part.shard = form.shard();
  part.samples = readSamples(form.samples());
  for (int i = 0; i < form.receives_size(); ++i)
    part.receives.push_back(
        readTensor(form.receives(i), place + ".receives[" + Twine(i) + "]", names));
  for (int i = 0; i < form.sends_size(); ++i)
    part.sends.push_back(readTensor(form.sends(i), place + ".sends[" + Twine(i) + "]", names));
  for (int i = 0; i < form.tables_size(); ++i)
    part.tables.push_back(readTable(form.tables(i), place + ".tables[" + Twine(i) + "]", names));
  part.recompute.assign(form.recompute().begin(), form.recompute().end());
  part.sharding = readSharding(form, place, names);
  return part;
}

RankProgram readRank(const v1::RankProgram &form, NameReader &names) {
  RankProgram rank;
  rank.rank = form.rank();
  rank.device = readDevice(form.device());
  rank.deviceClass = deviceClassOf(form.device_kind()).value_or(DeviceClass::Cpu); // see below
  for (int i = 0; i < form.parts_size(); ++i)
    rank.parts.push_back(readPart(form.parts(i), "parts[" + Twine(i) + "]", names));
  for (int i = 0; i < form.instructions_size(); ++i)
    rank.instructions.push_back(
        readInstruction(form.instructions(i), "instructions[" + Twine(i) + "]", names));
  return rank;
}

/// Whether two files belong to one program.
bool sameProgram(const Program &a, const Program &b) {
  return a.model == b.model && a.schedule == b.schedule && a.optimizer == b.optimizer &&
         a.optimizerKernels == b.optimizerKernels && a.stages == b.stages && a.links == b.links &&
         a.microBatches == b.microBatches && a.globalBatch == b.globalBatch &&
         a.predictedIteration == b.predictedIteration && a.overlapsSums == b.overlapsSums &&
         a.overlapsTransfers == b.overlapsTransfers;
}

Expected<RankFile> readRankFile(StringRef folder, int rank) {
  SmallString<128> path(folder);
  sys::path::append(path, rankFileName(rank));
  auto text = readFile(path, largestJson);
  if (!text)
    return text.takeError();
  auto file = parseRankFile(*text, path);
  if (file && file->program.ranks[0].rank != rank)
    return Diagnostic(Diag::InvalidProgram, Location{path.str().str(), 0, 0, "rank"})
           << "the file of rank " << rank << " says that it is of rank "
           << file->program.ranks[0].rank;
  return file;
}
} // namespace

std::string rankFileName(int rank) {
  std::string name;
  raw_string_ostream(name) << format("%04d.json", rank);
  return name;
}

std::string toJson(const Program &program, int rankIndex) {
  const RankProgram &rank = program.ranks[rankIndex];
  v1::RankProgram form;
  form.set_schema_version(schemaVersion);
  form.set_model(program.model);
  form.set_rank(rank.rank);
  form.set_world_size(static_cast<int>(program.ranks.size()));
  form.set_stages(program.stages);
  writeDevice(rank.device, *form.mutable_device());
  form.set_device_kind(heterplan::nameOf(rank.deviceClass));
  form.set_global_batch(double(program.globalBatch.value()));
  form.set_micro_batches(program.microBatches);
  form.set_schedule(heterplan::nameOf(program.schedule));
  form.set_optimizer(heterplan::nameOf(program.optimizer));
  if (program.optimizerKernels != OptimizerKernels::Fused)
    form.set_optimizer_kernels(heterplan::nameOf(program.optimizerKernels));
  for (const ProgramPart &part : rank.parts)
    writePart(part, *form.add_parts());
  for (const Instruction &instruction : rank.instructions)
    writeInstruction(instruction, *form.add_instructions());
  form.set_predicted_iteration_seconds(program.predictedIteration.value());
  if (program.overlapsSums)
    form.set_overlap_grad_reduce(true);
  if (program.overlapsTransfers)
    form.set_overlap_transfers(true);
  for (const StageLink &link : program.links) {
    v1::StageLink &linkForm = *form.add_links();
    linkForm.set_from(link.from);
    linkForm.set_to(link.to);
  }
  return printMessage(form, Defaults::LeftOut);
}

Expected<RankFile> parseRankFile(StringRef text, StringRef path) {
  JsonSource source{text, path};
  v1::RankProgram form;
  if (Error error = parseMessage(source, form, "schemaVersion", /*versionOptional=*/false))
    return error;
  for (int i = 0; i < form.instructions_size(); ++i)
    if (Error error = checkGroup(form.instructions(i), "instructions[" + Twine(i) + "]",
                                 form.world_size(), source))
      return error;
  NameReader names(source);
  RankFile file;
  readCommon(form, names, file.program);
  file.program.ranks.push_back(readRank(form, names));
  file.worldSize = form.world_size();
  if (Error error = names.take())
    return error;
  if (form.rank() >= form.world_size())
    return Diagnostic(Diag::InvalidProgram, source.at("rank"))
           << "rank " << form.rank() << " of " << form.world_size() << " ranks; they count from 0";
  if (!deviceClassOf(form.device_kind()))
    return Diagnostic(Diag::WrongType, source.at("deviceKind"))
           << "'" << form.device_kind() << "' is not known here; accepted are "
           << deviceClassNames();
  return file;
}

Expected<Program> readProgram(StringRef directory) {
  SmallString<128> folder(directory);
  sys::path::append(folder, "ranks");
  Program program;
  int worldSize = 1; // until rank 0 says more
  for (int rank = 0; rank < worldSize; ++rank) {
    auto file = readRankFile(folder, rank);
    if (!file)
      return file.takeError();
    RankProgram ranked = std::move(file->program.ranks[0]);
    if (rank == 0) {
      program = file->program;
      program.ranks.clear();
      worldSize = file->worldSize;
    } else if (!sameProgram(program, file->program) || worldSize != file->worldSize) {
      return Diagnostic(Diag::InvalidProgram, Location{folder.str().str(), 0, 0, ""})
             << "the files of ranks 0 and " << rank << " belong to different programs";
    }
    program.ranks.push_back(std::move(ranked));
  }
  if (Error error = program.verify())
    return error;
  return program;
}

} // namespace heterplan
