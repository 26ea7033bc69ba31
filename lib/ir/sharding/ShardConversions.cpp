#include "ir/sharding/ShardConversions.h"

#include "ir/NodeAttributes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {

struct OperatorFacts {
  const char *name;
  ShardCollective forward, backward;
};

constexpr OperatorFacts facts[] = {
#define HETERPLAN_SHARD_OPERATOR(name, forward, backward)                                          \
  {#name, ShardCollective::forward, ShardCollective::backward},
#include "ir/sharding/ShardOperators.def"
};

const OperatorFacts &factsOf(ShardOperator op) { return facts[static_cast<int>(op)]; }

using Steps = std::vector<ShardStep>;

Steps fromSharded(const ShardState &state, const ShardNeed &need) {
  if (need.state == state)
    return {};
  if (need.summed)
    return {{ShardOperator::ShardGatherSum, state}};
  Steps steps = {{ShardOperator::ShardGather, state}};
  if (need.state.isSharded())
    steps.push_back({ShardOperator::ShardSlice, need.state});
  else if (need.state.kind == ShardState::Partial)
    steps.push_back({ShardOperator::ShardSummand, {}});
  return steps;
}

Steps fromPartial(const ShardNeed &need) {
  if (need.state.kind == ShardState::Partial)
    return {};
  if (need.state.isSharded())
    return {{ShardOperator::ShardReduceScatter, need.state}};
  Steps steps = {{ShardOperator::ShardAllReduce, {}}};
  if (need.summed)
    steps.push_back({ShardOperator::ShardCopy, {}});
  return steps;
}

Steps fromReplicated(const ShardNeed &need) {
  if (need.state.isSharded())
    return {{ShardOperator::ShardSlice, need.state}};
  if (need.state.kind == ShardState::Partial)
    return {{ShardOperator::ShardSummand, {}}};
  return need.summed ? Steps{{ShardOperator::ShardCopy, {}}} : Steps{};
}

} // namespace

const char *nameOf(ShardOperator op) { return factsOf(op).name; }

std::optional<ShardOperator> shardOperator(const GraphNode &node) {
  if (node.domain != shardDomain)
    return std::nullopt;
  for (size_t i = 0; i < std::size(facts); ++i)
    if (node.op == facts[i].name)
      return static_cast<ShardOperator>(i);
  return std::nullopt;
}

const char *nameOf(ShardCollective collective) {
  static constexpr const char *names[] = {"none", "all-reduce", "all-gather", "reduce-scatter"};
  return names[static_cast<int>(collective)];
}

bool castsToHalf(const GraphNode &node) {
  return node.domain == shardDomain && integerAttribute(node, halfAttribute);
}

ShardCollective forwardCollective(ShardOperator op) { return factsOf(op).forward; }
ShardCollective backwardCollective(ShardOperator op) { return factsOf(op).backward; }

ShardNeed needOf(const Graph &graph, const GraphNode &node, const ShardStrategy &strategy,
                 size_t operand) {
  const ShardState &state = strategy.operands[operand];
  bool sums = any_of(strategy.results,
                     [](const ShardState &result) { return result.kind == ShardState::Partial; });
  bool summed = strategy.divided && !sums && state.kind == ShardState::Replicated &&
                graph.tensors[node.inputs[operand]].differentiable;
  return {state, summed};
}

std::vector<ShardStep> conversion(const ShardNeed &from, const ShardNeed &need) {
  switch (from.state.kind) {
  case ShardState::Sharded:
    return fromSharded(from.state, need);
  case ShardState::Partial:
    return fromPartial(need);
  case ShardState::Replicated:
    break;
  }
  return from == need ? Steps{} : fromReplicated(need);
}

Seconds collectiveTime(ShardCollective collective, Bytes size, const ShardMachine &machine) {
  if (collective == ShardCollective::None)
    return Seconds();
  double passes = collective == ShardCollective::AllReduce ? 2 : 1;
  double share = double(machine.degree - 1) / machine.degree;
  return machine.latency + size * (passes * share) / machine.link;
}

Seconds conversionTime(const std::vector<ShardStep> &steps, const GraphTensor &tensor,
                       const ShardMachine &machine) {
  Bytes size(elementCount(tensor.shape, machine.batch) * double(sizeOf(tensor.type)));
  Seconds time;
  for (const ShardStep &step : steps) {
    const OperatorFacts &facts = factsOf(step.op);
    if (isWeight(tensor.role) && facts.forward != ShardCollective::None)
      return Seconds(std::numeric_limits<double>::infinity());
    time += collectiveTime(facts.forward, size, machine);
    if (tensor.differentiable)
      time += collectiveTime(facts.backward, size, machine);
    if (tensor.differentiable && facts.forward == ShardCollective::None &&
        step.op != ShardOperator::ShardCopy)
      time += size / machine.memory; // a copy on the device
  }
  return time;
}

ShardVersions::Source ShardVersions::sourceOf(const ShardNeed &need) const {
  Source best;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].summed && known[i] != need)
      continue;
    std::vector<ShardStep> steps =
        known[i] == need ? std::vector<ShardStep>() : conversion(known[i], need);
    Seconds time = conversionTime(steps, *tensor, *machine);
    if (best.index < 0 || time < best.time)
      best = {static_cast<int>(i), std::move(steps), time};
  }
  return best;
}

void ShardVersions::add(const ShardNeed &need) {
  if (!is_contained(known, need))
    known.push_back(need);
}

} // namespace heterplan
