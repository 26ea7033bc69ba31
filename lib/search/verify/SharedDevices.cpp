#include "search/verify/SharedDevices.h"

#include "cost/Simulator.h"
#include "search/verify/PlanFigures.h"

#include "llvm/ADT/STLExtras.h"

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
    if (!stage.inputs.empty())
      stage.inputs = facts.inputs;
    stage.lookup = facts.lookup;
    stage.lookupGradient = facts.lookupGradient;
    stage.reduceScatter = facts.reduceScatter;
    stage.gather = facts.gather;
    stage.update = facts.update;
    stage.sync = facts.sync;
    for (size_t r = 0; r < stage.replicas.size(); ++r) {
      stage.replicas[r].forward = facts.replicas[r].forward;
      stage.replicas[r].backward = facts.replicas[r].backward;
    }
  }
  return plan;
}

/// The gaps between the events of each rank in the iteration; sums may overlap passes.
std::vector<IdleGap> idleOf(const Program &program, const Timeline &timeline) {
  std::vector<IdleGap> result;
  std::vector<Seconds> busyUntil(program.ranks.size());
  auto add = [&](int rank, Seconds until) {
    if (until > busyUntil[rank])
      result.push_back({program.ranks[rank].device, busyUntil[rank], until - busyUntil[rank], {}});
  };
  for (const TimelineEvent &event : timeline.events) { // by rank and begin
    if (event.end == event.begin)
      continue;
    add(event.rank, event.begin);
    busyUntil[event.rank] = std::max(busyUntil[event.rank], event.end);
  }
  for (const RankProgram &rank : program.ranks)
    add(rank.rank, timeline.iteration);
  return result;
}

/// Whether `gap` lies in one of `idle`, gaps of its device.
bool isWithin(const IdleGap &gap, const std::vector<const IdleGap *> &idle, Seconds rounding) {
  return any_of(idle, [&](const IdleGap *whole) {
    return gap.start >= whole->start - rounding &&
           gap.start + gap.duration <= whole->start + whole->duration + rounding;
  });
}
} // namespace

std::optional<ConstraintFormula> gapsAreIdle(const CheckInputs &in) {
  if (in.plan.idle.empty())
    return std::nullopt;
  ConstraintFormula result{"idle", "devices", Formula::integer(0), {}};
  std::map<DeviceRef, std::vector<const IdleGap *>> idle;
  for (const IdleGap &gap : in.reevaluated.idle)
    idle[gap.device].push_back(&gap);
  std::map<DeviceRef, Bytes> free;
  for (size_t s = 0; s < in.plan.stages.size(); ++s)
    for (size_t r = 0; in.reevaluated.obstacle.empty() && r < in.plan.stages[s].replicas.size();
         ++r) {
      const ReevaluatedReplica &replica = in.reevaluated.stages[s].replicas[r];
      const DeviceRef &device = in.plan.stages[s].replicas[r].devices.front();
      auto [left, isNew] = free.try_emplace(device, in.cluster.types[replica.type].memory);
      left->second -= isNew ? replica.need : replica.need - replica.process;
    }
  Seconds rounding = in.reevaluated.scheduled * 1e-6;
  std::map<DeviceRef, std::string> wrong; // by device that has gaps
  for (const IdleGap &gap : in.plan.idle) {
    std::string &label = wrong[gap.device];
    if (!isWithin(gap, idle[gap.device], rounding))
      label = nameOf(gap.device) + " is not idle all the time that the plan says";
    else if (gap.freeMemory > free[gap.device] * (1 + 1e-6))
      label = nameOf(gap.device) + " has less memory free than the plan says";
  }
  for (const auto &[device, label] : wrong)
    result.parts.push_back({label.empty() ? nameOf(device) : label, Formula::truth(label.empty())});
  std::vector<Formula> kept;
  for (const Part &part : result.parts)
    kept.push_back(Formula::indicator(part.formula));
  result.slack =
      Formula::difference(Formula::sum(std::move(kept)), Formula::integer(int64_t(wrong.size())));
  return result;
}

Expected<SharedSchedule> runShared(const Plan &plan, const std::vector<ReevaluatedStage> &stages,
                                   const LayerGraph &graph, const Cluster &cluster) {
  Expected<Program> program = lower(withTimes(plan, stages), graph, cluster);
  if (!program)
    return program.takeError();
  Expected<Simulation> simulation = simulate(*program);
  if (!simulation)
    return simulation.takeError();
  return SharedSchedule{simulation->timeline.iteration, idleOf(*program, simulation->timeline)};
}

std::vector<Part> sharedMemory(const CheckInputs &in, double fraction,
                               std::vector<Formula> &rooms) {
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
        const ReevaluatedReplica &replica = facts.replicas[r];
        bool isFirst = need.parts.empty(); // one process runs all stages
        need.parts.push_back(number(isFirst ? replica.need : replica.need - replica.process));
      }
  }
  std::vector<Part> result;
  for (auto &[device, need] : needs) {
    if (need.parts.size() < 2)
      continue;
    std::string label = nameOf(device) + " has no room for all of its " +
                        std::to_string(need.parts.size()) + " stages at once";
    ConstraintFormula one;
    limit(one, std::move(label), Formula::sum(std::move(need.parts)),
          Formula::product(number(fraction), number(need.type->memory)));
    rooms.push_back(std::move(one.slack));
    result.push_back(std::move(one.parts.front()));
  }
  return result;
}

} // namespace heterplan
