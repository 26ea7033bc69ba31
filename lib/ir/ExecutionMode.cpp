#include "ir/ExecutionMode.h"

#include "ir/AdmittedModes.h"

namespace heterplan {

const char *nameOf(RecomputePolicy policy) {
  static constexpr const char *names[recomputePolicies] = {"auto", "never", "always"};
  return names[static_cast<int>(policy)];
}

const char *nameOf(StateSharding sharding) {
  static constexpr const char *names[stateShardings] = {"none", "optimizer", "gradients",
                                                        "parameters"};
  return names[static_cast<int>(sharding)];
}

const char *nameOf(SequenceParallel when) {
  return when == SequenceParallel::Auto ? "auto" : "never";
}

const char *partsOf(StateSharding sharding) {
  static constexpr const char *texts[stateShardings] = {
      "", "optimizer state", "gradients and optimizer state",
      "parameters, gradients and optimizer state"};
  return texts[static_cast<int>(sharding)];
}

bool ModeRequest::admits(const ExecutionMode &mode, int replicas) const {
  const bool recomputesAsAsked = mode.recomputes ? mayRecompute() : !mustRecompute();
  const bool dividesAsAsked = !shardState || replicas == 1 || *shardState == mode.sharding.state;
  return recomputesAsAsked && dividesAsAsked;
}

std::vector<ExecutionMode> admittedModes(const ModeRequest &request, int replicas) {
  std::vector<ExecutionMode> modes;
  for (bool recomputes : {false, true})
    for (StateSharding each : {StateSharding::Optimizer, StateSharding::None,
                               StateSharding::Gradients, StateSharding::Parameters}) {
      const ExecutionMode mode{recomputes, {each}};
      if ((replicas > 1 || each == StateSharding::None) && request.admits(mode, replicas))
        modes.push_back(mode);
    }
  return modes;
}

} // namespace heterplan
