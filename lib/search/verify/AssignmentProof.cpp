#include "search/verify/AssignmentProof.h"

#include "cost/Memory.h"
#include "ir/Constraint.h"
#include "ir/MicroBatches.h"
#include "search/verify/IterationFacts.h"
#include "search/verify/NecessaryConflict.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9; // of a limit, as Evaluation has it

Formula number(double value) { return Formula::number(value); }

class Sizing {
public:
  Sizing(const RequestedPlan &requested, const std::vector<AssignedStage> &assignment,
         const HeterPsModel &model, int microBatches)
      : requested(requested), assignment(assignment), model(model), microBatches(microBatches),
        batch(MicroBatches{requested.request.globalBatch, microBatches}.fullSize()) {
    for (size_t s = 0; s < assignment.size(); ++s)
      units.push_back(Formula::count("units of stage " + std::to_string(s), batch));
  }

  std::vector<Formula> facts() const {
    std::vector<Formula> result;
    for (const Formula &unit : units)
      result.push_back(Formula::atMost(Formula::integer(1), unit));
    return result;
  }
  std::vector<Part> parts() const;

  std::vector<Formula> units; // k_s

private:
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices)                                    \
  Formula require##enumerator(size_t index) const;
#include "ir/Constraints.def"
  Formula devices() const;
  Formula devicesAtMost(llvm::ArrayRef<int> types, int64_t most) const;
  Formula floor() const;
  Formula withinTime(double seconds) const;
  Formula budget() const;
  /// Within the part `fraction` of each memory.
  Formula memory(double fraction) const;
  int stageOf(const std::string &layer) const;
  Formula inStages(const LayerSet &layers, size_t count) const;
  bool fits(size_t stage, int64_t count, double fraction) const;
  int64_t leastUnits(size_t stage, double fraction) const;

  const RequestedPlan &requested;
  const std::vector<AssignedStage> &assignment;
  const HeterPsModel &model;
  const int microBatches;
  const int64_t batch;
};

Formula Sizing::devices() const {
  std::vector<Formula> result;
  result.reserve(requested.cluster.types.size());
  for (int type = 0; type < int(requested.cluster.types.size()); ++type)
    result.push_back(devicesAtMost({type}, requested.cluster.deviceCount(type)));
  return Formula::all(std::move(result));
}

Formula Sizing::devicesAtMost(ArrayRef<int> types, int64_t most) const {
  std::vector<Formula> used{Formula::integer(0)};
  for (size_t s = 0; s < assignment.size(); ++s)
    if (is_contained(types, assignment[s].type))
      used.push_back(units[s]);
  return Formula::atMost(Formula::sum(std::move(used)), Formula::integer(most));
}

Formula Sizing::floor() const {
  return withinTime(double(requested.request.globalBatch.value()) /
                    (requested.request.minThroughput.value() * (1 - rounding)));
}

/// serial·k + parallel ≤ P·k, where an iteration takes `seconds`.
Formula Sizing::withinTime(double seconds) const {
  double longest = seconds / microBatches;
  std::vector<Formula> result;
  for (size_t s = 0; s < assignment.size(); ++s) {
    auto [begin, end, type] = assignment[s];
    for (const AmdahlFit &fit :
         {model.computeOf(begin, end, type), model.transferOf(begin, end, type)})
      result.push_back(Formula::atMost(
          Formula::sum({Formula::product(number(fit.serial), units[s]), number(fit.parallel)}),
          Formula::product(number(longest), units[s])));
  }
  return Formula::all(std::move(result));
}

Formula Sizing::budget() const {
  std::vector<Formula> prices;
  for (size_t s = 0; s < assignment.size(); ++s)
    prices.push_back(Formula::product(
        number(requested.cluster.types[assignment[s].type].price.value()), units[s]));
  return Formula::atMost(Formula::sum(std::move(prices)),
                         number(requested.request.maxCostPerHour.value() * (1 + rounding)));
}

/// Memory of a unit of layers [begin, end) beyond deviceMemory(): sent tensors, messages, and the
/// transient part of parameters and, on its type, of workspace.
Bytes passingMemory(const RequestedPlan &requested, int begin, int end, const DeviceType &type,
                    double samples, int inFlight) {
  std::vector<Cut> cuts = requested.graph.cuts();
  const Cut &in = cuts[begin], &out = cuts[end];
  Bytes dense{}, largest{}, workspace{}, convolution{};
  for (int i = begin; i < end; ++i) {
    const Layer &layer = requested.graph.layers[i];
    dense += layer.denseBytes();
    largest = std::max(largest, layer.denseBytes());
    workspace = std::max(workspace, layer.workspaceBytes);
    convolution = std::max(convolution, layer.convolutionBytes);
  }
  Bytes halves = isHalf(requested.request.precision) ? dense / 2 : Bytes();
  double again = std::max(0.0, type.overhead.underWay / type.overhead.factor - 1);
  return (out.forwardBytes * samples + out.fixedBytes + halves) * double(inFlight) +
         (in.backwardBytes + out.backwardBytes + workspace * again +
          convolution * (type.overhead.convolutions / type.overhead.factor)) *
             samples +
         in.fixedGradientBytes + out.fixedGradientBytes +
         largest * (requested.request.optimizer == Optimizer::Adam ? 2.0 : 1.0);
}

/// Whether a micro-batch fits into the memory of `count` units of a stage, which share it and the
/// sparse tables. The more units, the less each needs.
bool Sizing::fits(size_t stage, int64_t count, double fraction) const {
  auto [begin, end, type] = assignment[stage];
  int inFlight = std::min<int>(microBatches, int(assignment.size() - stage));
  Samples share((batch + count - 1) / count);
  Bytes need = deviceMemory(requested.graph, begin, end, requested.graph.cuts()[begin],
                            requested.request.optimizer, share, inFlight) +
               passingMemory(requested, begin, end, requested.cluster.types[type],
                             double(share.value()), inFlight);
  for (int layer = begin; layer < end; ++layer)
    for (const SparseTable &table : requested.graph.layers[layer].tables)
      need += tableMemory(table, mostRows(table, int(count)), requested.request.optimizer,
                          requested.request.globalBatch);
  return need <= roomForTensors(requested, size_t(type), fraction);
}

/// Fewest units of a stage into whose memory a micro-batch fits; one more than there can be: none.
int64_t Sizing::leastUnits(size_t stage, double fraction) const {
  int64_t low = 1, high = batch + 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    fits(stage, middle, fraction) ? high = middle : low = middle + 1;
  }
  return low;
}

Formula Sizing::memory(double fraction) const {
  std::vector<Formula> result;
  for (size_t s = 0; s < assignment.size(); ++s)
    result.push_back(Formula::atMost(Formula::integer(leastUnits(s, fraction)), units[s]));
  return Formula::all(std::move(result));
}

int Sizing::stageOf(const std::string &layer) const {
  int index = requested.graph.find(layer);
  auto found = std::find_if(assignment.begin(), assignment.end(),
                            [&](const AssignedStage &stage) { return index < stage.end; });
  return int(found - assignment.begin());
}

Formula Sizing::inStages(const LayerSet &layers, size_t count) const {
  std::vector<int> stages;
  for (const std::string &layer : layers)
    stages.push_back(stageOf(layer));
  std::sort(stages.begin(), stages.end());
  auto distinct = std::unique(stages.begin(), stages.end()) - stages.begin();
  return Formula::equal(Formula::integer(distinct), Formula::integer(int64_t(count)));
}

Formula Sizing::requireMemory(size_t) const { return memory(1); }
/// Fitted stages keep all.
Formula Sizing::requireRecompute(size_t) const { return Formula::truth(true); }
Formula Sizing::requireShardState(size_t) const { return Formula::truth(true); }
Formula Sizing::requirePin(size_t index) const {
  const Pin &pin = requested.request.pins[index];
  const AssignedStage &stage = assignment[stageOf(pin.layer)];
  return Formula::truth(requested.cluster.types[stage.type].stated() == pin.type);
}
Formula Sizing::requireColocation(size_t index) const {
  return inStages(requested.request.colocations[index], 1);
}
Formula Sizing::requireSeparation(size_t index) const {
  const LayerSet &set = requested.request.separations[index];
  return inStages(set, set.size());
}
Formula Sizing::requireSchedule(size_t) const {
  bool isOneStage = requested.request.schedule == ScheduleChoice::DataParallel;
  return Formula::truth(isOneStage == (assignment.size() == 1));
}
/// The model is that of the number asked for.
Formula Sizing::requireMicroBatches(size_t) const { return Formula::truth(true); }
Formula Sizing::requireAmplification(size_t) const { return Formula::truth(true); }
Formula Sizing::requireBudget(size_t) const { return budget(); }
/// Not linear in the units: what is decided leaves it out, which is no conflict less.
Formula Sizing::requireSampleCost(size_t) const { return Formula::truth(true); }
Formula Sizing::requireIterationCost(size_t) const { return Formula::truth(true); }
Formula Sizing::requireIterationTime(size_t) const {
  return withinTime(requested.request.maxIteration.value() * (1 + rounding));
}
Formula Sizing::requireMemoryFraction(size_t) const {
  return memory(requested.request.maxMemoryFraction);
}
Formula Sizing::requireDeviceLimit(size_t index) const {
  const DeviceLimit &limit = requested.request.deviceLimits[index];
  return devicesAtMost(requested.cluster.typesCalled(limit.type), limit.most);
}
Formula Sizing::requireFloor(size_t) const { return floor(); }

std::vector<Part> Sizing::parts() const {
  std::vector<Part> result{{"devices", devices()}};
  constexpr decltype(&Sizing::requirePin) hooks[] = {
#define HETERPLAN_CONSTRAINT(enumerator, name, degree, devices) &Sizing::require##enumerator,
#include "ir/Constraints.def"
  };
  for (Constraint each : constraintsOf(requested.request))
    result.push_back(
        {nameOf(requested.request, each), (this->*hooks[static_cast<int>(each.kind)])(each.index)});
  return result;
}
} // namespace

Expected<SizingAnswer> decideSizes(const RequestedPlan &requested,
                                   const std::vector<AssignedStage> &assignment) {
  int microBatches =
      requested.request.microBatches ? requested.request.microBatches : requested.usualMicroBatches;
  Expected<HeterPsModel> model = heterPsModelOf(requested, microBatches);
  if (!model)
    return model.takeError();
  for (const AssignedStage &stage : assignment)
    if (requested.cluster.deviceCount(stage.type) == 0)
      return SizingAnswer{Truth::Fails, {}, {"devices"}};
  Sizing sizing(requested, assignment, *model, microBatches);
  Expected<Decision> decision =
      decideTogether(sizing.facts(), sizing.parts(), sizing.units, requested.deadline);
  if (!decision)
    return decision.takeError();
  return SizingAnswer{decision->truth, std::move(decision->values), std::move(decision->core)};
}

std::optional<std::vector<AssignedStage>> onlyAssignment(const RequestedPlan &requested) {
  if (!factsOf(requested.request.iterationModel).fitted)
    return std::nullopt;
  std::vector<int> present;
  for (int type = 0; type < int(requested.cluster.types.size()); ++type)
    if (requested.cluster.deviceCount(type) > 0)
      present.push_back(type);
  std::map<int, int> pinned;
  for (const Pin &pin : requested.request.pins) {
    std::vector<int> types = requested.cluster.typesCalled(pin.type);
    if (types.size() != 1)
      return std::nullopt;
    pinned.emplace(requested.graph.find(pin.layer), types.front());
  }
  std::vector<AssignedStage> assignment;
  for (int layer = 0; layer < requested.graph.size(); ++layer) {
    auto pin = pinned.find(layer);
    if (pin == pinned.end() && present.size() != 1)
      return std::nullopt;
    int type = pin == pinned.end() ? present.front() : pin->second;
    if (assignment.empty() || assignment.back().type != type)
      assignment.push_back({layer, layer, type});
    assignment.back().end = layer + 1;
  }
  return assignment;
}

Expected<std::optional<std::vector<std::string>>>
onlyAssignmentConflict(const RequestedPlan &requested) {
  std::optional<std::vector<AssignedStage>> assignment = onlyAssignment(requested);
  if (!assignment)
    return std::nullopt;
  Expected<SizingAnswer> answer = decideSizes(requested, *assignment);
  if (!answer)
    return answer.takeError();
  if (answer->truth != Truth::Fails)
    return std::nullopt;
  std::vector<std::string> conflict;
  for (std::string &name : answer->conflict)
    if (name != "devices") // a fact
      conflict.push_back(std::move(name));
  for (Constraint each : constraintsOf(requested.request)) {
    // Without the pins there are other assignments; other numbers of micro-batches take other
    // times.
    bool isPremise = each.kind == ConstraintKind::Pin || each.kind == ConstraintKind::MicroBatches;
    if (isPremise && !is_contained(conflict, nameOf(requested.request, each)))
      conflict.push_back(nameOf(requested.request, each));
  }
  return std::optional(std::move(conflict));
}

Expected<std::optional<std::vector<std::string>>> provenConflict(const RequestedPlan &requested) {
  auto conflict = necessaryConflict(requested);
  return conflict && !*conflict ? onlyAssignmentConflict(requested) : std::move(conflict);
}

} // namespace heterplan
