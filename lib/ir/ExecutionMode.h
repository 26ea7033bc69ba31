// How the devices of a stage run it: the modes that searches choose among, and what a user asks of
// them. Other files ask the predicates below, and pass these values on as a whole.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

namespace heterplan {

/// Which stages compute their activations again in the backward pass instead of keeping them. Auto:
/// those that do not fit otherwise.
enum class RecomputePolicy { Auto, Never, Always };
constexpr int recomputePolicies = 3; // how many there are
/// The state that the replicas of a stage divide among them: nothing, the state of the optimizer,
/// this state and the gradients, or these and the parameters (ZeRO stages 1 to 3, Rajbhandari et
/// al., SC 2020). A stage with sharded parameters gathers the parameters of a layer before the
/// layer computes, in the forward pass and again in the backward pass.
enum class StateSharding { None, Optimizer, Gradients, Parameters };
constexpr int stateShardings = 4;           // how many there are
const char *nameOf(RecomputePolicy policy); // "auto" | "never" | "always"
const char *nameOf(StateSharding sharding); // "none" | "optimizer" | "gradients" | "parameters"
/// The divided parts, e.g. "gradients and optimizer state"; "" if there are none.
const char *partsOf(StateSharding sharding);

/// How the devices of a stage divide what each would otherwise hold whole.
struct StageSharding {
  StateSharding state = StateSharding::None; // over the replicas
  int degree = 1;                            // devices of a replica that share every layer

  /// Whether each replica updates a slice of the parameters only.
  bool dividesState() const { return state != StateSharding::None; }
  /// Whether each micro-batch sums its gradients, of which each replica keeps a slice.
  bool scattersGradients() const {
    return state == StateSharding::Gradients || gathersParameters();
  }
  /// Whether the gradients of all micro-batches are summed at the end, by slices.
  bool scattersAtEnd() const { return dividesState() && !scattersGradients(); }
  /// Whether parameters are slices, which are gathered layer by layer.
  bool gathersParameters() const { return state == StateSharding::Parameters; }
  bool operator==(const StageSharding &) const = default;
};

/// How the devices of a stage run it, as far as that is decided: the number of recomputed segments
/// follows from memory and does not change the time.
struct ExecutionMode {
  bool recomputes = false;
  StageSharding sharding;
  bool operator==(const ExecutionMode &) const = default;
};

/// Whether devices that share layers may divide what lies between products along the sequence.
/// Auto: where that is faster.
enum class SequenceParallel { Auto, Never };
constexpr int sequenceParallels = 2;       // how many there are
const char *nameOf(SequenceParallel when); // "auto" | "never"

/// How the layers of a model were divided among devices that share them (tensor parallelism).
struct ModelDivision {
  bool byStage = false; // for a degree of each stage, which need not differ
  SequenceParallel sequence = SequenceParallel::Never;
  bool operator==(const ModelDivision &) const = default;
};

/// The modes that a user accepts, for all stages.
struct ModeRequest {
  RecomputePolicy recompute = RecomputePolicy::Auto;
  std::optional<StateSharding> shardState; // none: what each stage needs to fit
  /// The replicas of a stage sum gradients while its last backward pass still computes others, as
  /// DistributedDataParallel does (Li et al., VLDB 2020).
  bool overlapsSums = false;
  /// Messages between stages travel while both stages compute.
  bool overlapsTransfers = false;

  /// Forward passes that a stage of a 1F1B pipeline does before its first backward pass, and so
  /// the micro-batches that it holds at a time; `left`: stages from it to the last one, itself
  /// counted. Messages on their way count as a stage between two.
  int inFlight(int left, int microBatches) const {
    return std::min(microBatches, overlapsTransfers ? 2 * left - 1 : left);
  }
  /// Whether the replicas of a stage with this sharding do so: of divided state they do not.
  bool overlapsSumsOf(const StageSharding &sharding) const {
    return overlapsSums && !sharding.dividesState();
  }
  bool mayRecompute() const { return recompute != RecomputePolicy::Never; }
  bool mustRecompute() const { return recompute == RecomputePolicy::Always; }
  bool mayDivideState() const { return shardState != StateSharding::None; }
  bool mustDivideState() const { return shardState && mayDivideState(); }
  /// Whether a stage with `replicas` may run in `mode`. One replica divides nothing.
  bool admits(const ExecutionMode &mode, int replicas) const;
  bool operator==(const ModeRequest &) const = default;
};

} // namespace heterplan
