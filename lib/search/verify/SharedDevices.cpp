#include "search/verify/SharedDevices.h"

#include "cost/Simulator.h"

#include <map>

using namespace llvm;

namespace heterplan {

namespace {
/// The plan with the times that its stages really take.
Plan withTimes(Plan plan, const std::vector<ReevaluatedStage> &stages) {
  for (size_t s = 0; s < stages.size(); ++s) {
    Stage &stage = plan.stages[s];
    const ReevaluatedStage &facts = stages[s];
    stage.forward = facts.forward;
    stage.backward = facts.backward;
    stage.receive = facts.receive;
    stage.receiveGradient = facts.receiveGradient;
    stage.lookup = facts.lookup;
    stage.lookupGradient = facts.lookupGradient;
    stage.reduceScatter = facts.reduceScatter;
    stage.update = facts.update;
    stage.sync = facts.sync;
    for (size_t r = 0; r < stage.replicas.size(); ++r) {
      stage.replicas[r].forward = facts.replicas[r].forward;
      stage.replicas[r].backward = facts.replicas[r].backward;
    }
  }
  return plan;
}
} // namespace

Expected<Seconds> sharedScheduleTime(const Plan &plan, const std::vector<ReevaluatedStage> &stages,
                                     const LayerGraph &graph, const Cluster &cluster) {
  Expected<Program> program = lower(withTimes(plan, stages), graph, cluster);
  if (!program)
    return program.takeError();
  Expected<Simulation> simulation = simulate(*program);
  if (!simulation)
    return simulation.takeError();
  return simulation->timeline.iteration;
}

std::vector<Part> sharedMemory(const CheckInputs &in, std::vector<Formula> &rooms) {
  struct Need {
    const DeviceType *type;
    std::vector<Formula> parts;
  };
  std::map<DeviceRef, Need> needs;
  for (size_t s = 0; s < in.plan.stages.size(); ++s) {
    const ReevaluatedStage &facts = in.reevaluated.stages[s];
    for (size_t r = 0; r < facts.replicas.size() && facts.obstacle.empty(); ++r)
      for (const DeviceRef &device : in.plan.stages[s].replicas[r].devices) {
        Need &need = needs[device];
        need.type = &in.cluster.types[facts.replicas[r].type];
        need.parts.push_back(Formula::number(facts.replicas[r].need.value()));
      }
  }
  std::vector<Part> result;
  for (auto &[device, need] : needs) {
    if (need.parts.size() < 2)
      continue;
    std::string label = nameOf(device) + " has no room for all of its " +
                        std::to_string(need.parts.size()) + " stages at once";
    Formula sum = Formula::sum(std::move(need.parts));
    Formula memory = Formula::number(need.type->memory.value());
    result.push_back({std::move(label), Formula::atMost(sum, memory)});
    rooms.push_back(Formula::difference(memory, sum));
  }
  return result;
}

} // namespace heterplan
