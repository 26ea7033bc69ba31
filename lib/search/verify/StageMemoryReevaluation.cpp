#include "search/verify/StageMemoryReevaluation.h"

#include "cost/Memory.h"

#include <algorithm>
#include <cmath>

namespace heterplan {

namespace {
/// The rows that the plan states; the whole table if it states none.
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
  size_t behind = plan.stages.size() - stage - 1; // and as many messages on their way
  size_t held = 1 + behind + (plan.overlapsTransfers ? behind : 0);
  return int(std::min<size_t>(size_t(plan.microBatches), held));
}

/// Parameters are whole; gradients and the optimizer's state (a copy each) by equal slices of
/// 4-byte numbers where the replicas divide them, but for the gradients of two buffers at a time.
Bytes StageMemoryReevaluator::parameterMemory(const ReevaluatedStage &facts) const {
  if (facts.gathersParameters)
    return slicedParameters(facts);
  double states = parameterCopies(plan.optimizer) - 2;
  Bytes dense = facts.denseBytes, gradients = dense, largest{};
  double quarters = std::ceil(dense.value() / 4 / double(facts.replicas.size()));
  Bytes slice = facts.updatesSlices ? Bytes(4 * quarters) : dense;
  for (int i = facts.begin; i < facts.end; ++i) {
    Bytes own = graph.layers[i].parameterBytes;
    for (const SparseTable &table : graph.layers[i].tables)
      own -= table.bytes();
    if (auto copy = facts.copies.find(i); copy != facts.copies.end())
      own += copy->second;
    largest = std::max(largest, own);
  }
  // One layer's new gradients and the sums so far, or two steps of Adam's; else two buffers' sums.
  Bytes passing = largest * (plan.optimizer == Optimizer::Adam ? 2.0 : 1.0);
  if (facts.updatesSlices)
    passing = std::min(dense, largest * 2 + gradientBuffer * 2);
  if (facts.scattersGradients)
    gradients = slice;
  return dense + gradients + passing + slice * states;
}

/// Memory of sharded parameters. Parameters, gradients and state are slices. Parameters that other
/// stages use are whole, and so are their gradients, twice at the end. Beside the slices there are
/// the gathered parameters of the largest segment (of the largest layer, if activations are kept).
/// Under autocast a recomputed segment keeps rounded ones, and only a layer has its own. The
/// gradients of the largest layer and a slice of their sum come last.
Bytes StageMemoryReevaluator::slicedParameters(const ReevaluatedStage &facts) const {
  const double parts = double(facts.replicas.size());
  const auto part = [&](Bytes all) { return Bytes(4 * std::ceil(all.value() / 4 / parts)); };
  const double copies = parameterCopies(plan.optimizer);
  Bytes layer{}, segment{}, most{};
  for (int i = facts.begin; i < facts.end; ++i) {
    const Bytes own = facts.gathered[size_t(i - facts.begin)].bytes;
    const bool begins =
        std::find(facts.segments.begin(), facts.segments.end(), i) != facts.segments.end();
    segment = begins || facts.segments.empty() ? own : segment + own;
    most = std::max(most, segment);
    layer = std::max(layer, own);
  }
  if (!facts.segments.empty() && isHalf(plan.precision))
    most = most / 2 + layer;
  return part(facts.denseBytes - facts.wholeBytes) * copies + facts.wholeBytes * 3 +
         part(facts.wholeBytes) * (copies - 2) + most + layer + part(layer);
}

/// Memory of activations and rounded weights. Each micro-batch in flight keeps the inputs of its
/// segments (a plan without recomputation has none). One keeps the activations of the largest
/// segment. The passes of a step share rounded weights, unless each gathers those that it keeps.
Bytes StageMemoryReevaluator::activationMemory(const ReevaluatedStage &facts, Samples samples,
                                               int inFlight) const {
  double count = double(samples.value());
  Bytes buffers{}, largest{}, segment{}, entering{};
  for (int i = facts.begin; i < facts.end; ++i) {
    const Layer &layer = graph.layers[i];
    bool begins =
        std::find(facts.segments.begin(), facts.segments.end(), i) != facts.segments.end();
    const Cut &in = i == facts.begin ? facts.received : cuts[i];
    if (begins || i == facts.begin)
      entering += in.forwardBytes * count + in.fixedBytes;
    segment = begins ? layer.activationBytes : segment + layer.activationBytes;
    largest = std::max(largest, segment);
    buffers += layer.bufferBytes;
  }
  const bool recomputes = !facts.segments.empty();
  Bytes kept = largest * count * double(recomputes ? 1 : inFlight);
  if (isHalf(plan.precision)) // gathered ones that are rounded again are counted where they are
    kept += (facts.gathersParameters && recomputes ? facts.wholeBytes : facts.denseBytes) / 2 *
            double(facts.gathersParameters && !recomputes ? inFlight : 1);
  const Cut &in = facts.received, &out = facts.sent; // what was sent waits for its gradient
  Bytes leaving = out.forwardBytes * count + out.fixedBytes;
  Bytes messages = (in.backwardBytes + out.backwardBytes) * count + in.fixedGradientBytes +
                   out.fixedGradientBytes;
  if (plan.overlapsTransfers) // of another micro-batch, and its input
    messages = messages * 2 + in.forwardBytes * count + in.fixedBytes;
  return (entering + leaving) * double(inFlight) + kept + buffers + messages;
}

/// The transient memory of the layer with the most.
Bytes StageMemoryReevaluator::workspace(const ReevaluatedStage &facts, Samples samples) const {
  Bytes most{};
  for (int i = facts.begin; i < facts.end; ++i)
    most = std::max(most, graph.layers[i].workspaceBytes);
  return most * double(samples.value());
}

/// The operands of the largest convolution whose kernels may transform them.
Bytes StageMemoryReevaluator::convolution(const ReevaluatedStage &facts, Samples samples) const {
  Bytes most{};
  for (int i = facts.begin; i < facts.end; ++i)
    most = std::max(most, graph.layers[i].convolutionBytes);
  return most * double(samples.value());
}

/// The workspace at the moment with the most activations: in the backward pass of a layer the
/// layers behind it are done.
Bytes StageMemoryReevaluator::workspaceLast(const ReevaluatedStage &facts, Samples samples) const {
  Bytes through{}, most{};
  for (int i = facts.begin; i < facts.end; ++i) {
    through += graph.layers[i].activationBytes;
    most = std::max(most, through + graph.layers[i].workspaceBytes);
  }
  return (std::max(through, most) - through) * double(samples.value());
}

/// Memory of all devices with so many samples, without tables.
Bytes StageMemoryReevaluator::denseOf(size_t stage, const ReevaluatedStage &facts, Samples samples,
                                      DenseNeeds &known) const {
  auto [entry, isNew] = known.try_emplace(samples.value());
  if (isNew)
    entry->second = parameterMemory(facts) + activationMemory(facts, samples, inFlight(stage));
  return entry->second;
}

Bytes StageMemoryReevaluator::needOf(size_t stage, const ReevaluatedStage &facts, size_t replica,
                                     Samples samples, DenseNeeds &known) const {
  Bytes need = denseOf(stage, facts, samples, known);
  for (int i = facts.begin; i < facts.end; ++i)
    for (const SparseTable &table : graph.layers[i].tables)
      need += tableMemory(table, rowsHeld(plan.stages[stage], table, replica), plan.optimizer,
                          plan.globalBatch);
  const MemoryOverhead &beside = cluster.types[facts.replicas[replica].type].overhead;
  Bytes passing = workspace(facts, samples);
  need += facts.segments.empty() ? workspaceLast(facts, samples) : passing;
  return beside.constant + need * beside.factor +
         passing * std::max(0.0, beside.underWay - beside.factor) +
         convolution(facts, samples) * beside.convolutions;
}

void StageMemoryReevaluator::addNeeds(size_t stage, ReevaluatedStage &facts) const {
  DenseNeeds known; // thousands of replicas have few numbers of samples
  for (size_t r = 0; r < facts.replicas.size(); ++r) {
    ReevaluatedReplica &replica = facts.replicas[r];
    replica.process = cluster.types[replica.type].overhead.constant;
    replica.need = needOf(stage, facts, r, replica.samples, known);
    replica.statedMost = plan.stages[stage].replicas[r].mostSamples;
    replica.needAtStatedMost = needOf(stage, facts, r, Samples(replica.statedMost), known);
  }
}

} // namespace heterplan
