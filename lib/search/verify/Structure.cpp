// Constraints on what is where: layers, stages, devices, shares.
#include "search/verify/ConstraintFormulas.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
Formula whole(size_t value) { return Formula::integer(int64_t(value)); }

/// 0 where all parts hold, else minus how many fail: the slack of a constraint that has none.
Formula failures(const std::vector<Part> &parts) {
  std::vector<Formula> counts;
  counts.reserve(parts.size());
  for (const Part &part : parts)
    counts.push_back(Formula::indicator(part.formula));
  return Formula::difference(Formula::sum(std::move(counts)), whole(parts.size()));
}

std::string stageName(size_t index) { return "stage " + std::to_string(index); }

/// Positions of the stages that name each layer.
StringMap<std::vector<size_t>> stagesOfLayers(const Plan &plan) {
  StringMap<std::vector<size_t>> result;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const std::string &layer : plan.stages[s].layers)
      result[layer].push_back(s);
  return result;
}

/// Each layer that the plan places at all, with one stage that has it.
std::vector<std::optional<size_t>> placement(const CheckInputs &in) {
  StringMap<std::vector<size_t>> stages = stagesOfLayers(in.plan);
  std::vector<std::optional<size_t>> result;
  for (const Layer &layer : in.graph.layers) {
    auto found = stages.find(layer.name);
    result.push_back(found == stages.end() ? std::nullopt : std::optional(found->second.front()));
  }
  return result;
}

/// Whether the layers of a stage are the `expected`-th of the model and those that follow.
Part contiguous(const CheckInputs &in, size_t stage, size_t expected) {
  const std::vector<std::string> &layers = in.plan.stages[stage].layers;
  std::vector<Formula> places;
  for (size_t i = 0; i < layers.size(); ++i) {
    size_t place = expected + i;
    places.push_back(
        Formula::truth(place < in.graph.layers.size() && in.graph.layers[place].name == layers[i]));
  }
  return {stageName(stage) + " does not continue the layers where the stage before it ends",
          Formula::all(std::move(places))};
}
} // namespace

ConstraintFormula layersOnce(const CheckInputs &in) {
  ConstraintFormula result{"layers-once", "layers", Formula::integer(0), {}};
  StringMap<std::vector<size_t>> stages = stagesOfLayers(in.plan);
  for (const Layer &layer : in.graph.layers) {
    size_t times = stages.lookup(layer.name).size();
    stages.erase(layer.name);
    result.parts.push_back(
        {"layer '" + layer.name + "' is placed " + std::to_string(times) + " times",
         Formula::equal(whole(times), whole(1))});
  }
  std::map<std::string, size_t> unknown; // ordered: the map above is not
  for (const auto &entry : stages)
    unknown[entry.first().str()] = entry.second.front();
  for (const auto &[layer, stage] : unknown)
    result.parts.push_back(
        {stageName(stage) + " has layer '" + layer + "', which the model does not have",
         Formula::truth(false)});
  result.slack = failures(result.parts);
  return result;
}

ConstraintFormula stageOrder(const CheckInputs &in) {
  ConstraintFormula result{"stage-order", "tensors", Formula::integer(0), {}};
  std::vector<std::optional<size_t>> stageOf = placement(in);
  for (const LayerTensor &tensor : in.graph.tensors)
    for (int consumer : tensor.consumers)
      if (stageOf[tensor.producer] && stageOf[consumer])
        result.parts.push_back(
            {"tensor '" + tensor.name + "' flows back from " +
                 stageName(*stageOf[tensor.producer]) + " to " + stageName(*stageOf[consumer]),
             Formula::atMost(whole(*stageOf[tensor.producer]), whole(*stageOf[consumer]))});
  size_t next = 0;
  for (size_t s = 0; s < in.plan.stages.size(); ++s) {
    result.parts.push_back(contiguous(in, s, next));
    result.parts.push_back({stageName(s) + " is numbered " + std::to_string(in.plan.stages[s].id),
                            Formula::equal(Formula::integer(in.plan.stages[s].id), whole(s))});
    next += in.plan.stages[s].layers.size();
  }
  result.slack = failures(result.parts);
  return result;
}

ConstraintFormula tiedParameters(const CheckInputs &in) {
  ConstraintFormula result{"tied-parameters", "parameters", Formula::integer(0), {}};
  std::vector<std::optional<size_t>> stageOf = placement(in);
  StringMap<int> firstUse; // of sparse tables: of other parameters each stage may hold a copy
  for (int layer = 0; layer < in.graph.size(); ++layer) {
    for (const SparseTable &table : in.graph.layers[layer].tables)
      firstUse.try_emplace(table.parameter, layer);
    for (const std::string &parameter : in.graph.layers[layer].parameters) {
      auto found = firstUse.find(parameter);
      int first = found == firstUse.end() ? layer : found->second;
      if (first != layer && stageOf[first] && stageOf[layer])
        result.parts.push_back({"tied table '" + parameter + "' is split over " +
                                    stageName(*stageOf[first]) + " and " +
                                    stageName(*stageOf[layer]),
                                Formula::equal(whole(*stageOf[first]), whole(*stageOf[layer]))});
    }
  }
  result.slack = failures(result.parts);
  return result;
}

/// Whether the plan has the schedule that was asked for.
Formula requestedSchedule(const Plan &plan) {
  const Formula stages = whole(plan.stages.size());
  switch (plan.requestedSchedule) {
  case ScheduleChoice::Auto:
    return Formula::truth(true);
  case ScheduleChoice::DataParallel:
    return Formula::equal(stages, whole(1));
  case ScheduleChoice::Pipeline:
    return Formula::atMost(whole(2), stages);
  case ScheduleChoice::Burst:
    break;
  }
  return Formula::truth(plan.schedule == Schedule::Burst);
}

ConstraintFormula scheduleFits(const CheckInputs &in) {
  ConstraintFormula result{"schedule", "stages", Formula::integer(0), {}};
  size_t stages = in.plan.stages.size();
  result.parts.push_back({"the plan has no stages", Formula::atMost(whole(1), whole(stages))});
  if (in.plan.schedule == Schedule::DataParallel)
    result.parts.push_back({"schedule data-parallel has " + std::to_string(stages) + " stages",
                            Formula::equal(whole(stages), whole(1))});
  result.parts.push_back({std::string("the plan is not what its requestedSchedule says, ") +
                              nameOf(in.plan.requestedSchedule),
                          requestedSchedule(in.plan)});
  if (in.plan.requestedMicroBatches > 0)
    result.parts.push_back(
        {"the plan has " + std::to_string(in.plan.microBatches) +
             " micro-batches, not its requestedMicroBatches",
         Formula::equal(whole(in.plan.microBatches), whole(in.plan.requestedMicroBatches))});
  result.slack = failures(result.parts);
  return result;
}

ConstraintFormula deviceGroups(const CheckInputs &in) {
  ConstraintFormula result{"device-groups", "replicas", Formula::integer(0), {}};
  for (size_t s = 0; s < in.plan.stages.size(); ++s) {
    const Stage &stage = in.plan.stages[s];
    result.parts.push_back(
        {stageName(s) + " has no layers", Formula::atMost(whole(1), whole(stage.layers.size()))});
    result.parts.push_back({stageName(s) + " has no replicas",
                            Formula::atMost(whole(1), whole(stage.replicas.size()))});
    for (const Replica &replica : stage.replicas) {
      bool oneType =
          std::all_of(replica.devices.begin(), replica.devices.end(), [&](const DeviceRef &device) {
            return device.type == replica.devices.front().type;
          });
      result.parts.push_back({"a replica of " + stageName(s) + " has no devices",
                              Formula::atMost(whole(1), whole(replica.devices.size()))});
      result.parts.push_back(
          {"a replica of " + stageName(s) + " mixes device types", Formula::truth(oneType)});
    }
  }
  result.slack = failures(result.parts);
  return result;
}

ConstraintFormula devicesExist(const CheckInputs &in) {
  ConstraintFormula result{"devices-exist", "devices", Formula::integer(0), {}};
  for (size_t s = 0; s < in.plan.stages.size(); ++s)
    for (const Replica &replica : in.plan.stages[s].replicas)
      for (const DeviceRef &device : replica.devices)
        result.parts.push_back(
            {stageName(s) + " uses " + nameOf(device) + ", which the cluster does not have",
             Formula::truth(exists(in.cluster, device))});
  result.slack = failures(result.parts);
  return result;
}

ConstraintFormula devicesUsedOnce(const CheckInputs &in) {
  ConstraintFormula result{"devices-used-once", "devices", Formula::integer(0), {}};
  bool shares = in.plan.schedule == Schedule::Interleaved || in.plan.schedule == Schedule::Burst;
  std::map<std::pair<size_t, DeviceRef>, size_t> uses; // by stage where stages may share devices
  for (size_t s = 0; s < in.plan.stages.size(); ++s)
    for (const Replica &replica : in.plan.stages[s].replicas)
      for (const DeviceRef &device : replica.devices)
        for (const DeviceRef &each : devicesBehind(in.cluster, device))
          ++uses[{shares ? s : 0, each}];
  for (const auto &[use, count] : uses)
    result.parts.push_back({nameOf(use.second) + " is used " + std::to_string(count) + " times" +
                                (shares ? " in " + stageName(use.first) : ""),
                            Formula::atMost(whole(count), whole(1))});
  result.slack = failures(result.parts);
  return result;
}

/// Each micro-batch has ⌈B/m⌉ samples or one less, and so has each replica of its largest share:
/// that goes where at most one share is no multiple of m.
ConstraintFormula sharesSum(const CheckInputs &in) {
  ConstraintFormula result{"shares-sum", "samples", Formula::integer(0), {}};
  Formula one = Formula::integer(1), parts = Formula::integer(in.plan.microBatches);
  Formula batch = Formula::integer(in.plan.globalBatch.value());
  result.parts.push_back(
      {"there are " + std::to_string(in.plan.microBatches) + " micro-batches of the " +
           std::to_string(in.plan.globalBatch.value()) + " samples of the global batch",
       Formula::all({Formula::atMost(one, parts), Formula::atMost(parts, batch)})});
  std::vector<Formula> surpluses{Formula::integer(0)};
  for (size_t s = 0; s < in.plan.stages.size(); ++s) {
    std::vector<Formula> shares, odd{Formula::integer(0)};
    for (const Replica &replica : in.plan.stages[s].replicas) {
      shares.push_back(Formula::integer(replica.share.value()));
      odd.push_back(Formula::indicator(Formula::negation(Formula::divides(parts, shares.back()))));
      result.parts.push_back({"a replica of " + stageName(s) + " has " +
                                  std::to_string(replica.share.value()) + " samples",
                              Formula::atMost(one, shares.back())});
    }
    result.parts.push_back({"more than one share of " + stageName(s) + " is no multiple of the " +
                                std::to_string(in.plan.microBatches) + " micro-batches",
                            Formula::atMost(Formula::sum(std::move(odd)), one)});
    Formula sum = Formula::sum(std::move(shares));
    surpluses.push_back(Formula::magnitude(Formula::difference(sum, batch)));
    result.parts.push_back({"the shares of " + stageName(s) + " do not sum to the global batch",
                            Formula::equal(sum, batch)});
  }
  result.slack = Formula::product(Formula::integer(-1), Formula::maximum(std::move(surpluses)));
  return result;
}

namespace {
/// The rows of one table, as the stage that has its layer splits them.
void addTable(const SparseTable &table, size_t s, const Stage &stage, std::vector<Part> &parts) {
  std::vector<Formula> sums;
  size_t devices = stage.deviceCount();
  for (const TableShards &shards : stage.tables) {
    if (shards.table != table.parameter)
      continue;
    std::vector<Formula> rows;
    for (int64_t count : shards.rows) {
      rows.push_back(Formula::integer(count));
      parts.push_back({"a shard of table '" + table.parameter + "' has fewer than no rows",
                       Formula::atMost(Formula::integer(0), rows.back())});
    }
    parts.push_back({"table '" + table.parameter + "' has " + std::to_string(shards.rows.size()) +
                         " shards on the " + std::to_string(devices) + " devices of " +
                         stageName(s),
                     Formula::equal(whole(shards.rows.size()), whole(devices))});
    sums.push_back(Formula::sum(std::move(rows)));
  }
  parts.push_back({stageName(s) + " shards table '" + table.parameter + "' " +
                       std::to_string(sums.size()) + " times, not once",
                   Formula::equal(whole(sums.size()), whole(1))});
  if (!sums.empty())
    parts.push_back({"the shards of table '" + table.parameter + "' are not its " +
                         std::to_string(table.rows) + " rows",
                     Formula::equal(sums.front(), Formula::integer(table.rows))});
}
} // namespace

ConstraintFormula tableShards(const CheckInputs &in) {
  ConstraintFormula result{"table-shards", "tables", Formula::integer(0), {}};
  StringMap<const SparseTable *> tables;
  std::vector<std::optional<size_t>> stageOf = placement(in);
  for (size_t layer = 0; layer < in.graph.layers.size(); ++layer)
    for (const SparseTable &table : in.graph.layers[layer].tables) {
      if (stageOf[layer])
        addTable(table, *stageOf[layer], in.plan.stages[*stageOf[layer]], result.parts);
      tables[table.parameter] = &table;
    }
  size_t sharded = 0;
  for (const Stage &stage : in.plan.stages) {
    sharded += stage.tables.size();
    for (const TableShards &shards : stage.tables)
      result.parts.push_back({"no layer has a table '" + shards.table + "'",
                              Formula::truth(tables.count(shards.table) != 0)});
  }
  result.parts.push_back({"the stages shard " + std::to_string(sharded) +
                              " tables, the model has " + std::to_string(tables.size()),
                          Formula::equal(whole(sharded), whole(tables.size()))});
  result.slack = failures(result.parts);
  return result;
}

std::optional<ConstraintFormula> checkRecompute(const CheckInputs &in) {
  if (in.plan.recompute == RecomputePolicy::Auto)
    return std::nullopt;
  ConstraintFormula result{"recompute", "stages", Formula::integer(0), {}};
  bool always = in.plan.recompute == RecomputePolicy::Always;
  for (size_t s = 0; s < in.plan.stages.size(); ++s)
    result.parts.push_back({stageName(s) + (always ? " keeps" : " does not keep") +
                                " its activations, against the plan's recompute " +
                                nameOf(in.plan.recompute),
                            Formula::truth(in.plan.stages[s].recompute.empty() != always)});
  result.slack = failures(result.parts);
  return result;
}

std::optional<ConstraintFormula> checkShardState(const CheckInputs &in) {
  if (!in.plan.shardState)
    return std::nullopt;
  ConstraintFormula result{"shard-state", "stages", Formula::integer(0), {}};
  for (size_t s = 0; s < in.plan.stages.size(); ++s) {
    const Stage &stage = in.plan.stages[s];
    StateSharding asked = stage.replicas.size() > 1 ? *in.plan.shardState : StateSharding::None;
    result.parts.push_back({stageName(s) + " divides " + nameOf(stage.sharding.state) +
                                " over its replicas, not " + nameOf(asked),
                            Formula::truth(stage.sharding.state == asked)});
  }
  result.slack = failures(result.parts);
  return result;
}

std::optional<ConstraintFormula> checkPin(const CheckInputs &in) {
  if (in.plan.pins.empty())
    return std::nullopt;
  ConstraintFormula result{"pins", "pins", Formula::integer(0), {}};
  StringMap<std::vector<size_t>> stages = stagesOfLayers(in.plan);
  for (const Pin &pin : in.plan.pins) {
    std::vector<size_t> places = stages.lookup(pin.layer);
    bool kept = !places.empty();
    for (size_t stage : places)
      for (const Replica &replica : in.plan.stages[stage].replicas)
        for (const DeviceRef &device : replica.devices)
          for (const DeviceRef &each : devicesBehind(in.cluster, device))
            kept = kept && (each.type == pin.type || device.type == pin.type);
    result.parts.push_back(
        {"layer '" + pin.layer + "' is pinned to " + pin.type + " and is not (or not only) there",
         Formula::truth(kept)});
  }
  result.slack = failures(result.parts);
  return result;
}

namespace {
/// For each set of layers, whether their stages (one each) are as few as one, or as many as they.
ConstraintFormula setsKept(const CheckInputs &in, const char *name, ArrayRef<LayerSet> sets,
                           bool together) {
  ConstraintFormula result{name, "sets", Formula::integer(0), {}};
  StringMap<std::vector<size_t>> stages = stagesOfLayers(in.plan);
  for (const LayerSet &layers : sets) {
    std::set<size_t> used;
    bool placed = true;
    for (const std::string &layer : layers) {
      std::vector<size_t> places = stages.lookup(layer);
      placed = placed && places.size() == 1;
      used.insert(places.begin(), places.end());
    }
    std::string label = "layers '" + join(layers, "', '") + "' are " +
                        (together ? "to be in one stage" : "to be in a stage each") +
                        " and are in " + std::to_string(used.size());
    result.parts.push_back(
        {std::move(label),
         Formula::all({Formula::truth(placed),
                       Formula::equal(whole(used.size()), whole(together ? 1 : layers.size()))})});
  }
  result.slack = failures(result.parts);
  return result;
}
} // namespace

std::optional<ConstraintFormula> checkColocation(const CheckInputs &in) {
  if (in.plan.colocations.empty())
    return std::nullopt;
  return setsKept(in, "colocations", in.plan.colocations, /*together=*/true);
}

std::optional<ConstraintFormula> checkSeparation(const CheckInputs &in) {
  if (in.plan.separations.empty())
    return std::nullopt;
  return setsKept(in, "separations", in.plan.separations, /*together=*/false);
}

/// Always checked: scheduleFits().
std::optional<ConstraintFormula> checkSchedule(const CheckInputs &) { return std::nullopt; }
/// The plan states what it has; the number asked for is not part of it.
std::optional<ConstraintFormula> checkMicroBatches(const CheckInputs &) { return std::nullopt; }

ConstraintFormula fingerprintsMatch(const CheckInputs &in) {
  ConstraintFormula result{"fingerprints", "files", Formula::integer(0), {}};
  result.parts.push_back({"the plan was made for another version of model '" + in.plan.model + "'",
                          Formula::truth(in.plan.modelFingerprint == in.graph.fingerprint)});
  result.parts.push_back(
      {"the plan was made for another version of cluster '" + in.plan.cluster + "'",
       Formula::truth(in.plan.clusterFingerprint == in.cluster.fingerprint)});
  result.slack = failures(result.parts);
  return result;
}

} // namespace heterplan
