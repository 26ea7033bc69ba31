// Constraints on what the plan states in numbers: memory, times, money, bound.
#include "ir/MicroBatches.h"
#include "search/verify/IterationFacts.h"
#include "search/verify/PlanFigures.h"
#include "search/verify/SharedDevices.h"

#include <limits>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double agreement = 1e-6; // of a stated figure with its re-evaluation

/// |a − b| as a part of the larger of them.
Formula deviation(const Formula &a, const Formula &b) {
  Formula larger = Formula::maximum(
      {Formula::magnitude(a), Formula::magnitude(b), number(std::numeric_limits<double>::min())});
  return Formula::quotient(Formula::magnitude(Formula::difference(a, b)), larger);
}

/// Figures that the plan states, each beside what it must be.
class Figures {
public:
  void add(const std::string &what, const Formula &stated, const Formula &reevaluated) {
    Formula distance = deviation(stated, reevaluated);
    worst.push_back(distance);
    parts.push_back({what, Formula::atMost(distance, number(agreement))});
  }
  void add(const std::string &what, Seconds stated, Seconds reevaluated) {
    add(what + " is stated as " + text(stated.value()) + " s and is " + text(reevaluated.value()) +
            " s",
        number(stated), number(reevaluated));
  }
  /// How much of the agreement is left.
  Formula slack() const { return Formula::difference(number(agreement), Formula::maximum(worst)); }

  std::vector<Part> parts;

private:
  std::vector<Formula> worst{Formula::integer(0)};
};

/// Devices of each stage times what it takes of an iteration.
Formula deviceSeconds(const CheckInputs &in) {
  std::vector<Formula> result;
  for (const ReevaluatedStage &stage : in.reevaluated.stages) {
    Formula passes = Formula::product(Formula::integer(in.plan.microBatches),
                                      number(stage.forward + stage.backward));
    result.push_back(Formula::product(Formula::integer(int64_t(stage.replicas.size())),
                                      Formula::sum({std::move(passes), number(stage.sync)})));
  }
  return Formula::sum(std::move(result));
}

const char *unitOf(Objective objective) {
  static constexpr const char *units[] = {"samples/s", "dollars/10^6 samples", "device-seconds"};
  return units[static_cast<int>(objective)];
}

/// The figure that the plan's objective optimises.
Formula objectiveFigure(const Plan &plan) {
  switch (plan.objective) {
  case Objective::Throughput:
    return number(plan.throughput);
  case Objective::Cost:
    return number(plan.costPerMillionSamples);
  case Objective::DeviceSeconds:
    return number(plan.deviceTime);
  }
  llvm_unreachable("objectives are listed above");
}

void addStage(const Stage &stated, const ReevaluatedStage &facts, const std::string &name,
              Figures &figures) {
  figures.add("forward of " + name, stated.forward, facts.forward);
  figures.add("backward of " + name, stated.backward, facts.backward);
  figures.add("receive of " + name, stated.receive, facts.receive);
  figures.add("receiveGradient of " + name, stated.receiveGradient, facts.receiveGradient);
  figures.add("lookup of " + name, stated.lookup, facts.lookup);
  figures.add("lookupGradient of " + name, stated.lookupGradient, facts.lookupGradient);
  figures.add("reduceScatter of " + name, stated.reduceScatter, facts.reduceScatter);
  figures.add("gather of " + name, stated.gather, facts.gather);
  figures.add("update of " + name, stated.update, facts.update);
  figures.add("sync of " + name, stated.sync, facts.sync);
  for (size_t i = 0; i < std::min(stated.inputs.size(), facts.inputs.size()); ++i) {
    std::string input = " over input " + std::to_string(i) + " of " + name;
    figures.add("receive" + input, stated.inputs[i].receive, facts.inputs[i].receive);
    figures.add("receiveGradient" + input, stated.inputs[i].receiveGradient,
                facts.inputs[i].receiveGradient);
  }
  for (size_t r = 0; r < stated.replicas.size(); ++r) {
    std::string replica = "replica " + std::to_string(r) + " of " + name;
    figures.add("forward of " + replica, stated.replicas[r].forward, facts.replicas[r].forward);
    figures.add("backward of " + replica, stated.replicas[r].backward, facts.replicas[r].backward);
  }
}

void addTotals(const CheckInputs &in, Figures &figures) {
  const Plan &plan = in.plan;
  auto add = [&](const char *name, double stated, const Formula &reevaluated) {
    figures.add(std::string(name) + " is stated as " + text(stated) +
                    ", which is not what the stages give",
                number(stated), reevaluated);
  };
  add("iteration", plan.iteration.value(), iteration(in));
  if (plan.expected)
    add("expectedSeconds", plan.expected->value(), expectedIteration(in));
  bool isBurst = factsOf(plan.iterationModel).onePool; // nothing is stated of others
  add("deviceSeconds", plan.deviceTime.value(), isBurst ? deviceSeconds(in) : Formula::integer(0));
  add("throughput", plan.throughput.value(), throughput(in));
  add("costPerHour", plan.costPerHour.value(), costPerHour(in));
  add("trafficCostPerIteration", plan.trafficCost.value(), number(in.reevaluated.traffic));
  add("costPerMillionSamples", plan.costPerMillionSamples.value(), costPerMillionSamples(in));
}

/// The memory of a device of `type` that the plan may use.
Formula usableMemory(const CheckInputs &in, const DeviceType &type) {
  return Formula::product(number(1 - in.plan.memoryHeadroom.value_or(0)), number(type.memory));
}

std::string keptFree(const CheckInputs &in) {
  double headroom = in.plan.memoryHeadroom.value_or(0);
  return headroom > 0 ? ", of which " + text(100 * headroom) + "% are kept free" : "";
}

/// Each replica holds at most the stated amount for a full micro-batch.
void addStatedMost(const CheckInputs &in, const ReevaluatedStage &facts, const std::string &name,
                   ConstraintFormula &result) {
  const int64_t full = MicroBatches{in.plan.globalBatch, in.plan.microBatches}.fullSize();
  for (const ReevaluatedReplica &replica : facts.replicas) {
    if (replica.statedMost == 0)
      continue;
    const DeviceType &type = in.cluster.types[replica.type];
    std::string holds = name + " is stated to hold up to " + std::to_string(replica.statedMost) +
                        " samples of a micro-batch on " + type.name;
    if (replica.statedMost < replica.samples.value() || replica.statedMost > full)
      result.parts.push_back({holds + ", which has " + std::to_string(replica.samples.value()) +
                                  " of " + std::to_string(full),
                              Formula::truth(false)});
    else
      limit(result, holds + ", which need more memory than it has",
            number(replica.needAtStatedMost), usableMemory(in, type));
  }
}
} // namespace

ConstraintFormula memoryFits(const CheckInputs &in) {
  ConstraintFormula result{"memory", "bytes", Formula::integer(0), {}};
  std::vector<Formula> rooms;
  for (size_t s = 0; s < in.plan.stages.size(); ++s) {
    const ReevaluatedStage &facts = in.reevaluated.stages[s];
    std::string name = "stage " + std::to_string(s);
    if (!facts.obstacle.empty()) {
      result.parts.push_back({name + ": " + facts.obstacle, Formula::truth(false)});
      continue;
    }
    Figures figures;
    std::vector<Formula> needs;
    std::set<std::pair<int, Bytes>> seen;
    for (const ReevaluatedReplica &replica : facts.replicas) {
      if (!seen.insert({replica.type, replica.need}).second)
        continue;
      const DeviceType &type = in.cluster.types[replica.type];
      needs.push_back(number(replica.need));
      ConstraintFormula one;
      limit(one,
            name + " needs " + text(replica.need.value()) + " bytes on " + type.name +
                ", which has " + text(type.memory.value()) + keptFree(in),
            needs.back(), usableMemory(in, type));
      rooms.push_back(one.slack);
      result.parts.push_back(one.parts.front());
    }
    addStatedMost(in, facts, name, result);
    Formula most = Formula::maximum(needs);
    figures.add(name + " is stated to need " + text(in.plan.stages[s].memory.value()) +
                    " bytes, which is not what its layers give",
                number(in.plan.stages[s].memory), most);
    figures.add(name + " is stated to have " + text(in.plan.stages[s].parameterBytes.value()) +
                    " bytes of parameters, which is not what its layers give",
                number(in.plan.stages[s].parameterBytes), number(facts.parameterBytes));
    result.parts.insert(result.parts.end(), figures.parts.begin(), figures.parts.end());
  }
  for (Part &part : sharedMemory(in, 1 - in.plan.memoryHeadroom.value_or(0), rooms))
    result.parts.push_back(std::move(part));
  if (!rooms.empty())
    result.slack = Formula::minimum(std::move(rooms));
  return result;
}

ConstraintFormula timingIsRight(const CheckInputs &in) {
  ConstraintFormula result{"timing", "relative", Formula::integer(0), {}};
  if (!in.reevaluated.obstacle.empty()) {
    result.parts.push_back(cannotTell(in));
    return result;
  }
  Figures figures;
  const bool isBurst = factsOf(in.plan.iterationModel).onePool; // nothing is stated of others
  for (size_t s = 0; s < in.plan.stages.size(); ++s) {
    std::string name = "stage " + std::to_string(s);
    addStage(in.plan.stages[s], in.reevaluated.stages[s], name, figures);
    figures.add("amplification of " + name + " is not what its layers give",
                number(in.plan.stages[s].amplification),
                number(isBurst ? in.reevaluated.stages[s].amplification : 0));
  }
  addTotals(in, figures);
  result.parts = figures.parts;
  result.slack = figures.slack();
  return result;
}

/// The bound itself is the search's word; what is checked is that value, bound and gap agree.
ConstraintFormula boundIsConsistent(const CheckInputs &in) {
  const Plan &plan = in.plan;
  bool most = plan.objective == Objective::Throughput;
  ConstraintFormula result{"bound", unitOf(plan.objective), Formula::integer(0), {}};
  Formula value = number(plan.objectiveValue), bound = number(plan.lowerBound);
  if (!most || plan.lowerBound != 0) // of throughput, 0 claims nothing
    limit(result, "the plan is better than its own bound", most ? value : bound,
          most ? bound : value);
  auto part = [&](const char *label, Formula formula) {
    result.parts.push_back({label, std::move(formula)});
  };
  part("objectiveValue is not the plan's figure for the objective",
       Formula::atMost(deviation(value, objectiveFigure(plan)), number(agreement)));
  part("gap is not |objectiveValue - lowerBound| / |objectiveValue|",
       Formula::atMost(Formula::magnitude(Formula::difference(
                           Formula::product(number(plan.gap), Formula::magnitude(value)),
                           Formula::magnitude(Formula::difference(value, bound)))),
                       Formula::product(number(agreement), Formula::magnitude(value))));
  part("gap is negative", Formula::atMost(Formula::integer(0), number(plan.gap)));
  if (plan.optimal)
    part("a plan with a gap is called optimal",
         Formula::atMost(number(plan.gap), number(agreement)));
  return result;
}

std::optional<ConstraintFormula> checkAmplification(const CheckInputs &in) {
  if (in.plan.amplificationLimit == 0)
    return std::nullopt;
  ConstraintFormula result{"amplification", "devices", Formula::integer(0), {}};
  if (!in.reevaluated.obstacle.empty()) {
    result.parts.push_back(cannotTell(in));
    return result;
  }
  std::vector<Formula> rooms;
  for (size_t s = 0; s < in.reevaluated.stages.size(); ++s) {
    double amplification = in.reevaluated.stages[s].amplification;
    ConstraintFormula one;
    limit(one,
          "a layer of stage " + std::to_string(s) + " has an amplification of " +
              text(amplification) + ", more than " + text(in.plan.amplificationLimit),
          number(amplification), number(in.plan.amplificationLimit));
    rooms.push_back(one.slack);
    result.parts.push_back(one.parts.front());
  }
  result.slack = Formula::minimum(std::move(rooms));
  return result;
}

/// Always checked: memoryFits().
std::optional<ConstraintFormula> checkMemory(const CheckInputs &) { return std::nullopt; }

} // namespace heterplan
