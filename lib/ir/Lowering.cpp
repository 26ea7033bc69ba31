#include "ir/MicroBatches.h"
#include "ir/PassOrder.h"
#include "ir/Program.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

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

/// The part of a rank that belongs to a stage.
struct Member {
  int rank = 0, part = 0;
};

class Lowering {
public:
  Lowering(const Plan &plan, const LayerGraph &graph, const Cluster &cluster)
      : plan(plan), graph(graph),
        cluster(cluster), microBatches{plan.globalBatch, plan.microBatches},
        stageGraph(plan.stages), tied(graph.tiedParameters()) {}

  Expected<Program> lower() {
    if (Error error = plan.verify())
      return error;
    if (Error error = findBoundaries())
      return error;
    if (!stageGraph.isChain())
      program.links = stageGraph.links();
    auto routed = stageGraph.route(graph, begins);
    if (!routed)
      return routed.takeError();
    crossing = std::move(*routed);
    program.model = plan.model;
    program.schedule = plan.schedule;
    program.optimizer = plan.optimizer;
    program.optimizerKernels = plan.optimizerKernels;
    program.stages = static_cast<int>(plan.stages.size());
    program.microBatches = plan.microBatches;
    program.globalBatch = plan.globalBatch;
    program.predictedIteration = plan.iteration;
    program.overlapsSums = plan.overlapsSums;
    program.overlapsTransfers = plan.overlapsTransfers;
    numberDevices();
    for (int stage = 0; stage < program.stages; ++stage)
      if (Error error = createParts(stage))
        return error;
    groups = program.stageGroups();
    for (int stage = 0; stage < program.stages; ++stage)
      if (Error error = describeParts(stage))
        return error;
    for (const StagePass &pass : passOrder(plan))
      emitPasses(pass);
    emitEnd();
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

  /// A part for each replica, with its samples; instructions come later, when all parts are known.
  Error createParts(int stage) {
    members.emplace_back();
    lastSamples.emplace_back();
    const std::vector<Replica> &replicas = plan.stages[stage].replicas;
    areUnequal.push_back(any_of(replicas, [&](const Replica &each) {
      return each.forward != replicas.front().forward || each.backward != replicas.front().backward;
    }));
    int64_t begin = 0, lastBegin = 0;
    for (size_t replica = 0; replica < replicas.size(); ++replica) {
      const Replica &source = replicas[replica];
      if (source.devices.size() != 1)
        return Diagnostic(Diag::NotSupported, placeOf(stage, ".replicas"))
               << "a replica of " << source.devices.size()
               << " devices cannot be lowered yet; give each replica one device";
      Expected<RankProgram *> rank = rankOf(source.devices[0], stage);
      if (!rank)
        return rank.takeError();
      ProgramPart part;
      part.stage = stage;
      part.replica = static_cast<int>(replica);
      part.samples = {begin, microBatches.fullPartOf(source.share)};
      begin += part.samples.count;
      lastSamples.back().push_back(
          {lastBegin, microBatches.partOf(source.share, plan.microBatches - 1)});
      lastBegin += lastSamples.back().back().count;
      members.back().push_back({(*rank)->rank, static_cast<int>((*rank)->parts.size())});
      (*rank)->parts.push_back(std::move(part));
    }
    return Error::success();
  }

  /// Numbers the ranks node by node: a launcher starts consecutive ranks on each host. Nodes, and
  /// the devices of a node, stand in the order in which the plan mentions them first.
  void numberDevices() {
    std::set<DeviceRef> known;
    std::vector<std::vector<DeviceRef>> nodes;
    StringMap<size_t> positions;
    for (const Stage &stage : plan.stages)
      for (const Replica &replica : stage.replicas)
        for (const DeviceRef &device : replica.devices) {
          if (!known.insert(device).second)
            continue;
          auto [node, isNew] = positions.try_emplace(device.node, nodes.size());
          if (isNew)
            nodes.emplace_back();
          nodes[node->second].push_back(device);
        }
    for (const std::vector<DeviceRef> &node : nodes)
      for (const DeviceRef &device : node)
        numbers.try_emplace(device, static_cast<int>(numbers.size()));
    program.ranks.resize(numbers.size());
  }

  /// The rank of a device, which may have parts of stages before `stage`.
  Expected<RankProgram *> rankOf(const DeviceRef &device, int stage) {
    auto known = numbers.find(device);
    RankProgram &rank = program.ranks[known->second];
    if (!rank.parts.empty())
      return &rank;
    int type = cluster.typeIndex(device);
    if (type < 0)
      return Diagnostic(Diag::UnknownDevice, placeOf(stage, ".replicas"))
             << "cluster '" << cluster.name << "' has no device of type '" << device.type
             << "' in node '" << device.node << "'";
    rank.rank = known->second;
    rank.device = device;
    rank.deviceClass = cluster.types[type].deviceClass;
    return &rank;
  }

  /// Describes the common parts of a stage: tensors at its boundaries, and its sparse tables.
  Error describeParts(int stage) {
    Expected<std::vector<ProgramTable>> tables = tablesOf(stage);
    if (!tables)
      return tables.takeError();
    std::vector<BoundaryTensor> receives = tensorsOf(stageGraph.into(stage));
    std::vector<BoundaryTensor> sends = tensorsOf(stageGraph.outOf(stage));
    for (Member member : members[stage]) {
      ProgramPart &part = partOf(member);
      part.receives = receives;
      part.sends = sends;
      part.tables = *tables;
      part.recompute = plan.stages[stage].recompute;
      if (members[stage].size() > 1)
        part.sharding.state = plan.stages[stage].sharding.state;
    }
    return Error::success();
  }

  /// The sparse tables of the stage, as the plan shards them.
  Expected<std::vector<ProgramTable>> tablesOf(int stage) {
    std::vector<ProgramTable> result;
    const std::vector<TableShards> &shards = plan.stages[stage].tables;
    size_t end = begins[stage] + plan.stages[stage].layers.size();
    size_t next = 0;
    for (size_t layer = begins[stage]; layer < end; ++layer)
      for (const SparseTable &table : graph.layers[layer].tables) {
        if (next == shards.size() || shards[next].table != table.parameter)
          return Diagnostic(Diag::InvalidPlan, placeOf(stage, ".tables"))
                 << "the shards of table '" << table.parameter << "' are missing or out of order";
        const std::vector<int64_t> &rows = shards[next++].rows;
        if (int64_t sum = std::accumulate(rows.begin(), rows.end(), int64_t(0)); sum != table.rows)
          return Diagnostic(Diag::InvalidPlan, placeOf(stage, ".tables"))
                 << "the shards of table '" << table.parameter << "' have " << sum << " rows, not "
                 << table.rows;
        result.push_back({table.parameter, table.type, table.columns, byRank(stage, rows)});
      }
    if (next == shards.size())
      return result;
    return Diagnostic(Diag::InvalidPlan, placeOf(stage, ".tables"))
           << "no layer of the stage has a table '" << shards[next].table << "'";
  }

  /// Rows of each device of the stage, replica by replica, in the order of the ranks.
  std::vector<int64_t> byRank(int stage, ArrayRef<int64_t> rows) const {
    std::vector<std::pair<int, int64_t>> ranked;
    for (size_t i = 0; i < rows.size(); ++i)
      ranked.emplace_back(members[stage][i].rank, rows[i]);
    sort(ranked);
    std::vector<int64_t> result;
    result.reserve(ranked.size());
    for (const auto &entry : ranked)
      result.push_back(entry.second);
    return result;
  }

  std::vector<BoundaryTensor> tensorsOf(ArrayRef<int> links) const {
    std::vector<BoundaryTensor> result;
    for (int link : links)
      for (int index : crossing[link]) {
        const LayerTensor &tensor = graph.tensors[index];
        result.push_back({tensor.name, tensor.type, tensor.shape, tensor.differentiable,
                          program.links.empty() ? 0 : link});
      }
    return result;
  }

  ProgramPart &partOf(Member member) { return program.ranks[member.rank].parts[member.part]; }
  const ProgramPart &partOf(Member member) const {
    return program.ranks[member.rank].parts[member.part];
  }

  /// There are two kinds of micro-batches: full ones, and those like the last one.
  SampleRange samplesOf(Member member, int microBatch) const {
    return samplesOf(partOf(member), microBatch);
  }
  SampleRange samplesOf(const ProgramPart &part, int microBatch) const {
    return microBatches.isFull(microBatch) ? part.samples : lastSamples[part.stage][part.replica];
  }

  Instruction &append(Member member, Op op) {
    Instruction &instruction = program.ranks[member.rank].instructions.emplace_back();
    instruction.op = op;
    instruction.part = member.part;
    return instruction;
  }

  /// Gradients are summed behind the last backward pass of their stage, in one order for all ranks,
  /// so that none waits for another in a circle. The sums run beside the passes that follow.
  void emitPasses(const StagePass &pass) {
    for (Member member : members[pass.stage])
      pass.forward ? emitForward(member, pass.microBatch) : emitBackward(member, pass.microBatch);
    if (!pass.forward && pass.microBatch + 1 == plan.microBatches)
      for (Member member : members[pass.stage])
        emitSum(member);
  }

  void emitForward(Member member, int microBatch) {
    const ProgramPart &part = partOf(member);
    const Stage &stage = plan.stages[part.stage];
    emitPass(member, Op::Load, microBatch, Seconds());
    emitLookup(member, Op::Lookup, microBatch, stage.lookup);
    Seconds received{};
    for (int link : stageGraph.into(part.stage))
      received += emitTransfers(member, Op::Receive, microBatch, link, timesOf(link).receive);
    Seconds idle = waitBeside(member, microBatch, stage.receive, received);
    emitPass(member, Op::Forward, microBatch, stage.replicas[part.replica].forward + idle);
    for (int link : stageGraph.outOf(part.stage))
      emitTransfers(member, Op::Send, microBatch, link, Seconds());
  }

  void emitBackward(Member member, int microBatch) {
    const ProgramPart &part = partOf(member);
    const Stage &stage = plan.stages[part.stage];
    Seconds received{};
    for (int link : stageGraph.outOf(part.stage))
      received += emitTransfers(member, Op::ReceiveGradient, microBatch, link,
                                timesOf(link).receiveGradient);
    Seconds idle = waitBeside(member, microBatch, stage.receiveGradient, received);
    Seconds backward = stage.replicas[part.replica].backward - stage.reduceScatter + idle;
    emitPass(member, Op::Backward, microBatch, std::max(Seconds(), backward));
    if (part.sharding.scattersGradients())
      emitPass(member, Op::GradientReduceScatter, microBatch, stage.reduceScatter).group =
          groups[part.stage];
    emitLookup(member, Op::LookupGradient, microBatch, stage.lookupGradient);
    for (int link : stageGraph.into(part.stage))
      emitTransfers(member, Op::SendGradient, microBatch, link, Seconds());
  }

  /// How long a part waits while others of its stage receive what takes `whole`: one without
  /// samples, and in bursts one of unequal parts, of which the slowest need not be those that
  /// receive most; it takes `received` itself. Nobody receives within a pass if transfers overlap.
  Seconds waitBeside(Member member, int microBatch, Seconds whole, Seconds received) const {
    if (plan.overlapsTransfers)
      return Seconds();
    bool waits = samplesOf(member, microBatch).count == 0 ||
                 (plan.schedule == Schedule::Burst && areUnequal[size_t(partOf(member).stage)]);
    return waits ? std::max(Seconds(), whole - received) : Seconds();
  }

  StageInput timesOf(int link) const { return inputOf(plan.stages, stageGraph.links()[link]); }

  /// The rows do not depend on what is received, so that their exchange fills the wait for it.
  void emitLookup(Member member, Op op, int microBatch, Seconds seconds) {
    if (partOf(member).tables.empty())
      return;
    Instruction &instruction = emitPass(member, op, microBatch, seconds);
    instruction.group = groups[partOf(member).stage];
  }

  Instruction &emitPass(Member member, Op op, int microBatch, Seconds seconds) {
    Instruction &instruction = append(member, op);
    instruction.microBatch = microBatch;
    instruction.samples = samplesOf(member, microBatch);
    instruction.seconds = seconds;
    return instruction;
  }

  /// One message with each rank at the other end of `link` that has samples of this part. Messages
  /// to other ranks share `total` by their samples; the last one gets the rest after rounding.
  /// Samples that stay on the device take no time. Returns the time of the messages together.
  Seconds emitTransfers(Member member, Op op, int microBatch, int link, Seconds total) {
    const ProgramPart &part = partOf(member);
    auto [first, second] = stageGraph.links()[link];
    int peerStage = part.stage == first ? second : first;
    const ProgramPart *before = program.ranks[member.rank].findPart(peerStage);
    SampleRange own = samplesOf(member, microBatch);
    int64_t left = own.count, kept = 0;
    if (before)
      kept = intersect(own, samplesOf(*before, microBatch)).count;
    int64_t moved = left - kept, toMove = moved;
    Seconds spent{};
    const std::vector<Member> &peers = members[peerStage];
    auto peer = partition_point(peers, [&](Member candidate) {
      SampleRange samples = samplesOf(candidate, microBatch);
      return samples.begin + samples.count <= own.begin;
    });
    for (; left > 0 && peer != peers.end(); ++peer) {
      SampleRange common = intersect(own, samplesOf(*peer, microBatch));
      if (common.count == 0) // of a replica without samples of this micro-batch
        continue;
      left -= common.count;
      Seconds share{};
      if (peer->rank != member.rank) {
        toMove -= common.count;
        share = toMove ? total * (double(common.count) / double(moved))
                       : std::max(Seconds(), total - spent);
      }
      spent += share;
      Instruction &instruction = append(member, op);
      instruction.microBatch = microBatch;
      instruction.peer = peer->rank;
      instruction.samples = common;
      instruction.boundary = link;
      instruction.seconds = share;
    }
    return spent;
  }

  /// Updates come behind the sums of all stages: a parameter that several of them use is summed
  /// once more over those stages.
  void emitEnd() {
    for (size_t stage = members.size(); stage-- > 0;)
      for (Member member : members[stage])
        append(member, Op::Step).seconds =
            members[stage].size() > 1 ? plan.stages[stage].update : plan.stages[stage].sync;
    for (size_t stage = members.size(); stage-- > 0;)
      for (Member member : members[stage])
        if (gathersAtEnd(partOf(member)))
          emitCollective(member, Op::AllGather);
  }

  /// Whether the replicas gather parameters that they have updated by slices. Sharded parameters
  /// stay slices, but for those that other stages use, too.
  bool gathersAtEnd(const ProgramPart &part) const {
    if (!part.sharding.gathersParameters())
      return part.sharding.dividesState();
    const int begin = begins[part.stage];
    const int end = begin + int(plan.stages[part.stage].layers.size());
    auto isInside = [&](int layer) { return begin <= layer && layer < end; };
    return any_of(tied, [&](const TiedParameter &parameter) {
      return any_of(parameter.layers, isInside) && !all_of(parameter.layers, isInside);
    });
  }

  /// Synchronises the gradients of all micro-batches, unless each micro-batch had its own
  /// all-reduce.
  void emitSum(Member member) {
    const ProgramPart &part = partOf(member);
    if (members[part.stage].size() > 1 && !part.sharding.scattersGradients())
      emitCollective(member, part.sharding.dividesState() ? Op::ReduceScatter : Op::AllReduce);
  }

  /// One of those that the replicas synchronise by: an all-reduce or all-gather takes all of their
  /// time, or a reduce-scatter and an all-gather a half each.
  void emitCollective(Member member, Op op) {
    const ProgramPart &part = partOf(member);
    const Stage &stage = plan.stages[part.stage];
    bool isHalf = part.sharding.scattersAtEnd();
    Instruction &collective = append(member, op);
    collective.group = groups[part.stage];
    collective.seconds = std::max(Seconds(), stage.sync - stage.update) * (isHalf ? 0.5 : 1.0);
  }

  const Plan &plan;
  const LayerGraph &graph;
  const Cluster &cluster;
  const MicroBatches microBatches;
  const StageGraph stageGraph;
  const std::vector<TiedParameter> tied;
  Program program;
  std::vector<int> begins;                           // layer at which each stage begins
  std::map<DeviceRef, int> numbers;                  // ranks
  std::vector<std::vector<Member>> members;          // by stage, replica by replica
  std::vector<std::vector<SampleRange>> lastSamples; // of the last micro-batch, likewise
  std::vector<RankGroup> groups;                     // by stage: its ranks, ascending
  std::vector<bool> areUnequal;                      // by stage: times of its replicas
  std::vector<std::vector<int>> crossing;            // by link: indices of tensors
};
} // namespace

Expected<Program> lower(const Plan &plan, const LayerGraph &graph, const Cluster &cluster) {
  return Lowering(plan, graph, cluster).lower();
}

} // namespace heterplan
