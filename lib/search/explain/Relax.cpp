#include "search/explain/Relax.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
/// Types that run `layer` in `plan`.
std::string typesOf(const Plan &plan, const std::string &layer) {
  std::vector<std::string> types;
  for (const Stage &stage : plan.stages)
    if (is_contained(stage.layers, layer))
      for (const Replica &replica : stage.replicas)
        for (const DeviceRef &device : replica.devices)
          if (!is_contained(types, device.type))
            types.push_back(device.type);
  return join(types, " and ");
}

/// "2 stages": how many have a layer of `layers`.
std::string stagesOf(const Plan &plan, const LayerSet &layers) {
  auto stages = count_if(plan.stages, [&](const Stage &stage) {
    return any_of(layers, [&](const std::string &l) { return is_contained(stage.layers, l); });
  });
  return std::to_string(stages) + (stages == 1 ? " stage" : " stages");
}

/// A constraint without a degree: it helps to give it up, and this is what comes instead.
std::vector<Relaxed> giveUp(const RelaxInputs &in, Relaxation instead) {
  instead.constraint = describe(in.asked.request, in.constraint);
  instead.helps = instead.smallest = true;
  return {{std::move(instead), in.base}};
}

std::vector<Relaxed> giveUpSet(const RelaxInputs &in, const LayerSet &layers, const char *current) {
  Relaxation result;
  result.subject = "layers '" + join(layers, "', '") + "'";
  result.current = current;
  result.needed = "in " + stagesOf(in.found, layers);
  result.option =
      std::string("without --") + infoOf(in.constraint.kind).name + " " + join(layers, ",");
  return giveUp(in, std::move(result));
}
} // namespace

Expected<std::vector<Relaxed>> relaxRecompute(const RelaxInputs &in) {
  bool again = any_of(in.found.stages, [](const Stage &stage) { return !stage.recompute.empty(); });
  Relaxation result;
  result.subject = "activations";
  result.current = nameOf(in.asked.request.recompute) + std::string(" computed again");
  result.needed = again ? "computed again where they do not fit" : "kept";
  result.option = "--recompute auto";
  return giveUp(in, std::move(result));
}

Expected<std::vector<Relaxed>> relaxShardState(const RelaxInputs &in) {
  StateSharding most = StateSharding::None;
  for (const Stage &stage : in.found.stages)
    most = std::max(most, stage.sharding.state);
  Relaxation result;
  result.subject = "divided state";
  result.current = nameOf(*in.asked.request.shardState);
  result.needed = nameOf(most);
  result.option = "--shard-state auto";
  return giveUp(in, std::move(result));
}

Expected<std::vector<Relaxed>> relaxPin(const RelaxInputs &in) {
  const Pin &pin = in.asked.request.pins[in.constraint.index];
  Relaxation result;
  result.subject = "layer '" + pin.layer + "'";
  result.current = "on " + pin.type;
  result.needed = "on " + typesOf(in.found, pin.layer);
  result.option = "without --pin " + pin.layer + "=" + pin.type;
  return giveUp(in, std::move(result));
}

Expected<std::vector<Relaxed>> relaxColocation(const RelaxInputs &in) {
  return giveUpSet(in, in.asked.request.colocations[in.constraint.index], "in one stage");
}

Expected<std::vector<Relaxed>> relaxSeparation(const RelaxInputs &in) {
  return giveUpSet(in, in.asked.request.separations[in.constraint.index], "in a stage each");
}

Expected<std::vector<Relaxed>> relaxSchedule(const RelaxInputs &in) {
  Relaxation result;
  result.subject = "schedule";
  result.current = nameOf(in.asked.request.schedule);
  result.needed = nameOf(in.found.schedule);
  result.option = "--schedule auto";
  return giveUp(in, std::move(result));
}

Expected<std::vector<Relaxed>> relaxMicroBatches(const RelaxInputs &in) {
  Relaxation result;
  result.subject = "micro-batches";
  result.current = std::to_string(in.asked.request.microBatches);
  result.needed = std::to_string(in.found.microBatches);
  result.option = "--micro-batches " + result.needed;
  result.value = in.found.microBatches;
  return giveUp(in, std::move(result));
}

Expected<SearchOutcome> CountedSolver::run(const Problem &problem, Effort::Kind kind) {
  if (isOver())
    return SearchOutcome();
  --left;
  constexpr int64_t parts = 4; // one question does not take the work of all that follow
  Expected<SearchOutcome> outcome = solve(problem, {kind, std::max<int64_t>(workLeft / parts, 1)});
  if (outcome)
    workLeft -= outcome->work;
  return outcome;
}

Expected<std::vector<Relaxed>> relax(const RelaxInputs &in) {
  constexpr decltype(&relaxMemory) hooks[] = {
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices) relax##enumerator,
#include "ir/Constraints.def"
  };
  return hooks[static_cast<int>(in.constraint.kind)](in);
}

} // namespace heterplan
