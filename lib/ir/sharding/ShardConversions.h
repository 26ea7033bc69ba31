// Changes of state. A tensor is made in one state, and its consumers need it in others; each change
// is a chain of operators of ShardOperators.def with the collectives that they take.
#pragma once

#include "ir/sharding/ShardCollective.h"
#include "ir/sharding/ShardingRules.h"
#include "support/Units.h"

#include <vector>

namespace heterplan {

enum class ShardOperator : int {
#define HETERPLAN_SHARD_OPERATOR(name, forward, backward) name,
#include "ir/sharding/ShardOperators.def"
};
const char *nameOf(ShardOperator op);
/// The operator of a node of the domain "heterplan"; nothing for other nodes.
std::optional<ShardOperator> shardOperator(const GraphNode &node);
constexpr const char *shardDomain = "heterplan";
/// An attribute of these operators: they cast their operand if autocast is on.
constexpr const char *halfAttribute = "half";
/// Whether `node` is one of them and has it.
bool castsToHalf(const GraphNode &node);

ShardCollective forwardCollective(ShardOperator op);
ShardCollective backwardCollective(ShardOperator op);

/// A state in which a consumer needs a tensor. `summed`: the tensor is replicated and the consumer
/// divides its work, so that the shards have summands of the gradient.
struct ShardNeed {
  ShardState state;
  bool summed = false;
  auto operator<=>(const ShardNeed &) const = default;
};

/// The need of `node` for its operand `operand` under `strategy`.
ShardNeed needOf(const Graph &graph, const GraphNode &node, const ShardStrategy &strategy,
                 size_t operand);

/// One operator of a chain. `state` is the sharded state that it takes apart or makes whole, if
/// there is one.
struct ShardStep {
  ShardOperator op;
  ShardState state;
  bool operator==(const ShardStep &) const = default;
};

/// The operators that make `need` of a tensor in the state and use `from`; a need that is met
/// already takes none. A summed tensor serves no other need.
std::vector<ShardStep> conversion(const ShardNeed &from, const ShardNeed &need);

/// The devices for which sharding is chosen.
struct ShardMachine {
  int degree = 2;
  int64_t batch = 1;           // samples of a micro-batch
  BytesPerSecond link{100e9};  // between neighbours in a ring of the shards
  Seconds latency{10e-6};      // of a collective
  BytesPerSecond memory{1e12}; // of a device
  double parameterPasses = 0;  // over the parameters of a shard, for each micro-batch
};

/// The time of `collective` for a tensor of `size` as a ring takes it: the shards send
/// (degree − 1)/degree of it, twice in an all-reduce (Patarasuk and Yuan, JPDC 2009).
Seconds collectiveTime(ShardCollective collective, Bytes size, const ShardMachine &machine);

/// The time of `steps` on `tensor`, both passes: collectives, and local copies of tensors that have
/// gradients. Others are the masks and positions that all blocks of a model share. Infinite if a
/// forward pass would gather slices of a weight, which can be stored as a whole.
Seconds conversionTime(const std::vector<ShardStep> &steps, const GraphTensor &tensor,
                       const ShardMachine &machine);

/// The versions of one tensor at hand: the state in which it is made, and those that consumers have
/// needed so far.
class ShardVersions {
public:
  /// `made`: the state of the tensor. A tensor without a gradient needs no sum of it.
  ShardVersions(const GraphTensor &tensor, ShardState made, const ShardMachine &machine)
      : tensor(&tensor), machine(&machine), known{{std::move(made), false}} {}

  struct Source {
    int index = -1; // in versions()
    std::vector<ShardStep> steps;
    Seconds time{};
  };
  /// The cheapest way to `need` from a version at hand, of several the first.
  Source sourceOf(const ShardNeed &need) const;
  /// Adds the version, if it is a new one.
  void add(const ShardNeed &need);
  const std::vector<ShardNeed> &versions() const { return known; }

private:
  const GraphTensor *tensor;
  const ShardMachine *machine;
  std::vector<ShardNeed> known;
};

} // namespace heterplan
