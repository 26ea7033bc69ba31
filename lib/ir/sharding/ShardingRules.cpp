#include "ir/sharding/ShardingRules.h"

#include "ir/sharding/FactorRules.h"
#include "ir/sharding/MovementRules.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cstring>

using namespace llvm;

namespace heterplan {

namespace {

using namespace sharding;

enum Linear { No, All, Scaled };
enum Begin { Follows, Begins };

struct OperatorRule {
  std::optional<ShardStrategy> (*apply)(const RuleNode &, ShardPlace, const ShardState &);
  Linear linear;
  Begin begin;
};

const StringMap<OperatorRule> &rules() {
  static const StringMap<OperatorRule> table = {
#define HETERPLAN_SHARDING_RULE(op, rule, linear, begins) {op, {rule, linear, begins}},
#include "ir/sharding/ShardingRules.def"
  };
  return table;
}

const OperatorRule *ruleOf(const GraphNode &node) {
  if (!node.domain.empty() || !node.bodies.empty())
    return nullptr;
  auto found = rules().find(node.op);
  return found == rules().end() ? nullptr : &found->second;
}

/// Whether tensors are such that shapes can be relied on.
bool isPlain(const RuleNode &n) {
  auto plain = [&](TensorId id) {
    return id == noTensor ||
           (!n.graph.tensors[id].dynamic && n.graph.tensors[id].container == Container::None);
  };
  return all_of(n.node.inputs, plain) && all_of(n.node.outputs, plain);
}

bool isFeasible(const RuleNode &n, const ShardStrategy &strategy) {
  for (size_t i = 0; i < strategy.operands.size(); ++i)
    if (n.has(i) ? !canShard(n.shape(i), strategy.operands[i], n.degree)
                 : strategy.operands[i].isSharded())
      return false;
  for (size_t i = 0; i < strategy.results.size(); ++i)
    if (n.makes(i) ? !canShard(n.result(i), strategy.results[i], n.degree)
                   : strategy.results[i].isSharded())
      return false;
  return true;
}

} // namespace

std::optional<std::vector<int64_t>> RuleNode::integers(size_t operand) const {
  if (!has(operand))
    return std::nullopt;
  const auto &data = graph.tensors[node.inputs[operand]].data;
  bool isWide = data && data->type == DataType::Int64;
  if (!data || (!isWide && data->type != DataType::Int32))
    return std::nullopt;
  size_t size = isWide ? sizeof(int64_t) : sizeof(int32_t);
  std::vector<int64_t> values;
  for (size_t offset = 0; offset + size <= data->bytes.size(); offset += size) {
    int32_t narrow = 0;
    int64_t wide = 0;
    std::memcpy(isWide ? static_cast<void *>(&wide) : &narrow, data->bytes.data() + offset, size);
    values.push_back(isWide ? wide : narrow);
  }
  return values;
}

ShardStrategy replicatedStrategy(const GraphNode &node) {
  return {std::vector<ShardState>(node.inputs.size()), std::vector<ShardState>(node.outputs.size()),
          false};
}

std::optional<ShardStrategy> shardedStrategy(const RuleNode &node, ShardPlace place,
                                             const ShardState &state) {
  const OperatorRule *rule = ruleOf(node.node);
  if (!rule || !state.isSharded() || !isPlain(node))
    return std::nullopt;
  auto strategy = rule->apply(node, place, state);
  return strategy && isFeasible(node, *strategy) ? strategy : std::nullopt;
}

std::vector<ShardStrategy> partialStrategies(const RuleNode &node) {
  const OperatorRule *rule = ruleOf(node.node);
  if (!rule || rule->linear == No || !isPlain(node))
    return {};
  ShardStrategy summed = replicatedStrategy(node.node);
  for (size_t i = 0; i < summed.results.size(); ++i)
    if (node.makes(i) && isFloating(node.tensor({true, i}).type))
      summed.results[i] = ShardState::partial();
  std::vector<ShardStrategy> result;
  int carriers = 0;
  for (size_t i = 0; i < summed.operands.size(); ++i) {
    if (!node.has(i) || !isFloating(node.tensor({false, i}).type))
      continue;
    carriers += node.tensor({false, i}).differentiable;
    if (rule->linear == All)
      summed.operands[i] = ShardState::partial();
  }
  if (rule->linear == All && carriers)
    result.push_back(summed);
  for (size_t i = 0; rule->linear == Scaled && carriers == 1 && i < summed.operands.size(); ++i)
    if (node.has(i) && node.tensor({false, i}).differentiable) {
      summed.operands[i] = ShardState::partial();
      result.push_back(summed);
    }
  return result;
}

bool beginsSharding(const GraphNode &node) {
  const OperatorRule *rule = ruleOf(node);
  return rule && rule->begin == Begins;
}

std::vector<std::string> operatorsWithShardingRule() {
  return {
#define HETERPLAN_SHARDING_RULE(op, rule, linear, begins) op,
#include "ir/sharding/ShardingRules.def"
  };
}

} // namespace heterplan
