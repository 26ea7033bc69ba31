#include "ir/Program.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
Location placeOf(size_t stage, const char *field = "") {
  return {"", 0, 0, "stages[" + std::to_string(stage) + "]" + field};
}

/// The part that two ranges have in common; its count is 0 when there is none.
SampleRange intersect(SampleRange a, SampleRange b) {
  int64_t begin = std::max(a.begin, b.begin);
  int64_t end = std::min(a.begin + a.count, b.begin + b.count);
  return {begin, std::max<int64_t>(0, end - begin)};
}

struct Pass {
  bool forward;
  int microBatch;
};

/// Order of the passes of stage `stage` of `stages`. 1F1B: min(m, S−s) forward passes, then
/// backward and forward in turn, then the backward passes that are left. GPipe: all forward passes
/// first. Narayanan et al., PipeDream-Flush (ICML 2021); Huang et al., GPipe (NeurIPS 2019).
std::vector<Pass> passOrder(Schedule schedule, int stage, int stages, int microBatches) {
  int warmUp = schedule == Schedule::GPipe ? microBatches : std::min(microBatches, stages - stage);
  std::vector<Pass> order;
  order.reserve(2 * size_t(microBatches));
  for (int i = 0; i < warmUp; ++i)
    order.push_back({true, i});
  for (int i = 0; i < microBatches; ++i) {
    order.push_back({false, i});
    if (i + warmUp < microBatches)
      order.push_back({true, i + warmUp});
  }
  return order;
}

class Lowering {
public:
  Lowering(const Plan &plan, const LayerGraph &graph, const Cluster &cluster)
      : plan(plan), graph(graph), cluster(cluster) {}

  Expected<Program> lower() {
    if (Error error = plan.verify())
      return error;
    if (Error error = findBoundaries())
      return error;
    program.model = plan.model;
    program.schedule = plan.schedule;
    program.optimizer = plan.optimizer;
    program.stages = static_cast<int>(plan.stages.size());
    program.microBatches = plan.microBatches;
    program.globalBatch = plan.globalBatch;
    program.predictedIteration = plan.iteration;
    for (int stage = 0; stage < program.stages; ++stage)
      if (Error error = createRanks(stage))
        return error;
    for (RankProgram &rank : program.ranks)
      if (Error error = addTables(rank))
        return error;
    for (RankProgram &rank : program.ranks)
      emit(rank);
    return std::move(program);
  }

private:
  /// Checks that the stages are the layers in order, and notes where each begins.
  Error findBoundaries() {
    StringMap<int> positions;
    for (int i = 0; i < graph.size(); ++i)
      positions.try_emplace(graph.layers[i].name, i);
    int position = 0;
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      begins.push_back(position);
      for (const std::string &layer : plan.stages[stage].layers) {
        auto match = positions.find(layer);
        if (match == positions.end())
          return Diagnostic(Diag::UnknownLayer, placeOf(stage, ".layers"))
                 << "the model has no layer '" << layer << "'";
        if (match->second != position)
          return Diagnostic(Diag::InvalidPlan, placeOf(stage, ".layers"))
                 << "layer '" << layer << "' is out of order; '"
                 << graph.layers[std::min(position, graph.size() - 1)].name << "' comes next";
        ++position;
      }
    }
    if (position == graph.size())
      return Error::success();
    return Diagnostic(Diag::InvalidPlan, placeOf(plan.stages.size() - 1, ".layers"))
           << "layer '" << graph.layers[position].name << "' is in no stage";
  }

  /// One rank for each replica, with its samples; instructions come later, when all ranks are
  /// known.
  Error createRanks(int stage) {
    firstRanks.push_back(static_cast<int>(program.ranks.size()));
    int64_t begin = 0;
    for (size_t replica = 0; replica < plan.stages[stage].replicas.size(); ++replica) {
      const Replica &source = plan.stages[stage].replicas[replica];
      if (source.devices.size() != 1)
        return Diagnostic(Diag::NotSupported, placeOf(stage, ".replicas"))
               << "a replica of " << source.devices.size()
               << " devices cannot be lowered yet; give each replica one device";
      int type = cluster.typeIndex(source.devices[0].type);
      if (type < 0)
        return Diagnostic(Diag::UnknownDevice, placeOf(stage, ".replicas"))
               << "cluster '" << cluster.name << "' has no device type '" << source.devices[0].type
               << "'";
      RankProgram rank;
      rank.rank = static_cast<int>(program.ranks.size());
      rank.stage = stage;
      rank.replica = static_cast<int>(replica);
      rank.device = source.devices[0];
      rank.kind = cluster.types[type].kind;
      rank.samples = {begin, source.share.value() / plan.microBatches};
      begin += rank.samples.count;
      program.ranks.push_back(std::move(rank));
    }
    return Error::success();
  }

  /// The sparse tables of the stage, as the plan shards them.
  Error addTables(RankProgram &rank) {
    const std::vector<TableShards> &shards = plan.stages[rank.stage].tables;
    size_t end = begins[rank.stage] + plan.stages[rank.stage].layers.size();
    size_t next = 0;
    for (size_t layer = begins[rank.stage]; layer < end; ++layer)
      for (const SparseTable &table : graph.layers[layer].tables) {
        if (next == shards.size() || shards[next].table != table.parameter)
          return Diagnostic(Diag::InvalidPlan, placeOf(rank.stage, ".tables"))
                 << "the shards of table '" << table.parameter << "' are missing or out of order";
        const std::vector<int64_t> &rows = shards[next++].rows;
        if (int64_t sum = std::accumulate(rows.begin(), rows.end(), int64_t(0)); sum != table.rows)
          return Diagnostic(Diag::InvalidPlan, placeOf(rank.stage, ".tables"))
                 << "the shards of table '" << table.parameter << "' have " << sum << " rows, not "
                 << table.rows;
        rank.tables.push_back({table.parameter, table.type, table.columns, rows});
      }
    if (next == shards.size())
      return Error::success();
    return Diagnostic(Diag::InvalidPlan, placeOf(rank.stage, ".tables"))
           << "no layer of the stage has a table '" << shards[next].table << "'";
  }

  std::vector<BoundaryTensor> tensorsAt(int boundary) {
    if (boundary < 0 || boundary + 1 >= program.stages)
      return {};
    if (cuts.empty())
      cuts = graph.cuts();
    std::vector<BoundaryTensor> result;
    for (int index : cuts[begins[boundary + 1]].tensors) {
      const LayerTensor &tensor = graph.tensors[index];
      result.push_back({tensor.name, tensor.type, tensor.shape, tensor.differentiable});
    }
    return result;
  }

  ArrayRef<RankProgram> ranksOf(int stage) const {
    if (stage < 0 || stage >= program.stages)
      return {};
    size_t begin = firstRanks[stage];
    size_t end = stage + 1 < program.stages ? firstRanks[stage + 1] : program.ranks.size();
    return ArrayRef<RankProgram>(program.ranks).slice(begin, end - begin);
  }

  void emit(RankProgram &rank) {
    rank.receives = tensorsAt(rank.stage - 1);
    rank.sends = tensorsAt(rank.stage);
    for (Pass pass : passOrder(plan.schedule, rank.stage, program.stages, plan.microBatches))
      pass.forward ? emitForward(rank, pass.microBatch) : emitBackward(rank, pass.microBatch);
    emitEnd(rank);
  }

  void emitForward(RankProgram &rank, int microBatch) {
    const Stage &stage = plan.stages[rank.stage];
    emitPass(rank, Op::Load, microBatch, Seconds());
    emitLookup(rank, Op::Lookup, microBatch, stage.lookup);
    emitTransfers(rank, Op::Receive, microBatch, rank.stage - 1, stage.receive);
    emitPass(rank, Op::Forward, microBatch, stage.replicas[rank.replica].forward);
    emitTransfers(rank, Op::Send, microBatch, rank.stage + 1, Seconds());
  }

  void emitBackward(RankProgram &rank, int microBatch) {
    const Stage &stage = plan.stages[rank.stage];
    emitTransfers(rank, Op::ReceiveGradient, microBatch, rank.stage + 1, stage.receiveGradient);
    emitPass(rank, Op::Backward, microBatch, stage.replicas[rank.replica].backward);
    emitLookup(rank, Op::LookupGradient, microBatch, stage.lookupGradient);
    emitTransfers(rank, Op::SendGradient, microBatch, rank.stage - 1, Seconds());
  }

  /// The rows do not depend on what is received, so that their exchange fills the wait for it.
  void emitLookup(RankProgram &rank, Op op, int microBatch, Seconds seconds) {
    if (rank.tables.empty())
      return;
    emitPass(rank, op, microBatch, seconds);
    for (const RankProgram &member : ranksOf(rank.stage))
      rank.instructions.back().group.push_back(member.rank);
  }

  void emitPass(RankProgram &rank, Op op, int microBatch, Seconds seconds) {
    Instruction instruction;
    instruction.op = op;
    instruction.microBatch = microBatch;
    instruction.samples = rank.samples;
    instruction.seconds = seconds;
    rank.instructions.push_back(std::move(instruction));
  }

  /// One message with each rank of `peerStage` that has samples of this rank. They share `total` by
  /// their samples; the last one takes what rounding leaves.
  void emitTransfers(RankProgram &rank, Op op, int microBatch, int peerStage, Seconds total) {
    int64_t left = rank.samples.count;
    Seconds spent{};
    ArrayRef<RankProgram> peers = ranksOf(peerStage);
    const RankProgram *peer = partition_point(peers, [&](const RankProgram &candidate) {
      return candidate.samples.begin + candidate.samples.count <= rank.samples.begin;
    });
    for (; left > 0 && peer != peers.end(); ++peer) {
      SampleRange common = intersect(rank.samples, peer->samples);
      left -= common.count;
      Seconds part = total * (double(common.count) / double(rank.samples.count));
      Instruction instruction;
      instruction.op = op;
      instruction.microBatch = microBatch;
      instruction.peer = peer->rank;
      instruction.samples = common;
      instruction.boundary = std::min(rank.stage, peerStage);
      instruction.seconds = left ? part : std::max(Seconds(), total - spent);
      spent += part;
      rank.instructions.push_back(std::move(instruction));
    }
  }

  void emitEnd(RankProgram &rank) {
    const Stage &stage = plan.stages[rank.stage];
    Instruction step;
    step.op = Op::Step;
    step.seconds = stage.sync;
    if (ArrayRef<RankProgram> members = ranksOf(rank.stage); members.size() > 1) {
      Instruction allReduce;
      allReduce.op = Op::AllReduce;
      for (const RankProgram &member : members)
        allReduce.group.push_back(member.rank);
      allReduce.seconds = std::max(Seconds(), stage.sync - stage.update);
      step.seconds = stage.update;
      rank.instructions.push_back(std::move(allReduce));
    }
    rank.instructions.push_back(std::move(step));
  }

  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  Program program;
  std::vector<int> begins;     // layer at which each stage begins
  std::vector<int> firstRanks; // of each stage
  std::vector<Cut> cuts;
};
} // namespace

Expected<Program> lower(const Plan &plan, const LayerGraph &graph, const Cluster &cluster) {
  return Lowering(plan, graph, cluster).lower();
}

} // namespace heterplan
