#include "search/verify/StageMemoryReevaluation.h"

#include "cost/Memory.h"

#include <algorithm>
#include <cmath>

namespace heterplan {

namespace {
/// What the plan says; all of the table where it says nothing.
int64_t rowsHeld(const Stage &stage, const SparseTable &table, size_t replica) {
  for (const TableShards &shards : stage.tables)
    if (shards.table == table.parameter && replica < shards.rows.size())
      return shards.rows[replica];
  return table.rows;
}
} // namespace

int StageMemoryReevaluator::inFlight(size_t stage) const {
  if (plan.schedule == Schedule::GPipe)
    return plan.microBatches;
  if (plan.schedule == Schedule::Burst)
    return 1;
  return int(std::min<size_t>(size_t(plan.microBatches), plan.stages.size() - stage));
}

/// Parameters are whole; gradients and the optimizer's state (a copy each) by equal slices of
/// 4-byte numbers where the replicas divide them, but for the gradients of two buffers at a time.
Bytes StageMemoryReevaluator::parameterMemory(const ReevaluatedStage &facts) const {
  double states = parameterCopies(plan.optimizer) - 2;
  Bytes dense = facts.denseBytes, gradients = dense, largest{};
  double quarters = std::ceil(dense.value() / 4 / double(facts.replicas.size()));
  Bytes slice = facts.updatesSlices ? Bytes(4 * quarters) : dense;
  for (int i = facts.begin; i < facts.end; ++i) {
    Bytes own = graph.layers[i].parameterBytes;
    for (const SparseTable &table : graph.layers[i].tables)
      own -= table.bytes();
    largest = std::max(largest, own);
  }
  if (facts.scattersGradients)
    gradients = slice + std::min(dense, largest * 2 + gradientBuffer * 2);
  return dense + gradients + slice * states;
}

/// Of each micro-batch in flight what enters the segments (one that is kept, without any); of one
/// of them the activations of the largest segment.
Bytes StageMemoryReevaluator::activationMemory(const ReevaluatedStage &facts, Samples samples,
                                               int inFlight) const {
  double count = double(samples.value());
  Bytes buffers{}, workspace{}, largest{}, segment{}, entering{};
  for (int i = facts.begin; i < facts.end; ++i) {
    const Layer &layer = graph.layers[i];
    bool begins =
        std::find(facts.segments.begin(), facts.segments.end(), i) != facts.segments.end();
    if (begins || i == facts.begin)
      entering += cuts[i].forwardBytes * count + cuts[i].fixedBytes;
    segment = begins ? layer.activationBytes : segment + layer.activationBytes;
    largest = std::max(largest, segment);
    buffers += layer.bufferBytes;
    workspace = std::max(workspace, layer.workspaceBytes);
  }
  Bytes kept = largest * count;
  if (facts.segments.empty())
    kept = kept * double(inFlight);
  return entering * double(inFlight) + kept + buffers + workspace * count;
}

Bytes StageMemoryReevaluator::needOf(size_t stage, const ReevaluatedStage &facts, size_t replica,
                                     Samples samples) const {
  Bytes need = parameterMemory(facts) + activationMemory(facts, samples, inFlight(stage));
  for (int i = facts.begin; i < facts.end; ++i)
    for (const SparseTable &table : graph.layers[i].tables)
      need += tableMemory(table, rowsHeld(plan.stages[stage], table, replica), plan.optimizer,
                          plan.globalBatch);
  return need;
}

void StageMemoryReevaluator::addNeeds(size_t stage, ReevaluatedStage &facts) const {
  for (size_t r = 0; r < facts.replicas.size(); ++r) {
    ReevaluatedReplica &replica = facts.replicas[r];
    replica.need = needOf(stage, facts, r, replica.samples);
    replica.statedMost = plan.stages[stage].replicas[r].mostSamples;
    replica.needAtStatedMost = needOf(stage, facts, r, Samples(replica.statedMost));
  }
}

} // namespace heterplan
