#include "ir/BurstForm.h"
#include "ir/ExecutionModeForm.h"
#include "ir/FileForms.h"
#include "ir/FormParts.h"
#include "ir/JsonForm.h"

#include "heterplan.pb.h"

#include "support/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
/// At most what a reader takes.
double readableFigure(double figure) {
  constexpr double largest = 1e30;
  return figure < largest ? figure : largest;
}

void writeReplica(const Replica &replica, v1::Replica &form) {
  form.set_share(double(replica.share.value()));
  for (const DeviceRef &device : replica.devices)
    writeDevice(device, *form.add_devices());
  form.set_forward_seconds(replica.forward.value());
  form.set_backward_seconds(replica.backward.value());
  form.set_most_samples(double(replica.mostSamples));
}

Replica readReplica(const v1::Replica &form) {
  Replica replica;
  replica.share = Samples(int64_t(form.share()));
  replica.forward = Seconds(form.forward_seconds());
  replica.backward = Seconds(form.backward_seconds());
  bool counts = form.most_samples() >= 0 && form.most_samples() <= 9e15; // exact in a double
  replica.mostSamples = counts ? int64_t(form.most_samples()) : -1;
  for (const v1::Device &device : form.devices())
    replica.devices.push_back(readDevice(device));
  return replica;
}

void writeStage(const Stage &stage, v1::Stage &form) {
  form.set_id(stage.id);
  for (const std::string &layer : stage.layers)
    form.add_layers(layer);
  for (const Replica &replica : stage.replicas)
    writeReplica(replica, *form.add_replicas());
  form.set_forward_seconds(stage.forward.value());
  form.set_backward_seconds(stage.backward.value());
  form.set_sync_seconds(stage.sync.value());
  form.set_receive_seconds(stage.receive.value());
  form.set_receive_gradient_seconds(stage.receiveGradient.value());
  form.set_update_seconds(stage.update.value());
  form.set_memory_bytes(stage.memory.value());
  form.set_overhead_bytes(stage.overhead.value());
  form.set_parameter_bytes(stage.parameterBytes.value());
  form.set_lookup_seconds(stage.lookup.value());
  form.set_lookup_gradient_seconds(stage.lookupGradient.value());
  form.set_reduce_scatter_seconds(stage.reduceScatter.value());
  form.set_gather_seconds(stage.gather.value());
  for (const std::string &layer : stage.recompute)
    form.add_recompute(layer);
  writeSharding(stage.sharding, form);
  form.set_shard_degree(stage.sharding.degree);
  form.set_amplification(stage.amplification);
  for (const TableShards &shards : stage.tables) {
    v1::TableShards &shardsForm = *form.add_tables();
    shardsForm.set_table(shards.table);
    for (int64_t rows : shards.rows)
      shardsForm.add_rows(double(rows));
  }
}

Stage readStage(const v1::Stage &form, const Twine &place, NameReader &names) {
  Stage stage;
  stage.id = form.id();
  stage.layers.assign(form.layers().begin(), form.layers().end());
  for (const v1::Replica &replica : form.replicas())
    stage.replicas.push_back(readReplica(replica));
  stage.forward = Seconds(form.forward_seconds());
  stage.backward = Seconds(form.backward_seconds());
  stage.sync = Seconds(form.sync_seconds());
  stage.receive = Seconds(form.receive_seconds());
  stage.receiveGradient = Seconds(form.receive_gradient_seconds());
  stage.update = Seconds(form.update_seconds());
  stage.memory = Bytes(form.memory_bytes());
  stage.overhead = Bytes(form.overhead_bytes());
  stage.parameterBytes = Bytes(form.parameter_bytes());
  stage.lookup = Seconds(form.lookup_seconds());
  stage.lookupGradient = Seconds(form.lookup_gradient_seconds());
  stage.reduceScatter = Seconds(form.reduce_scatter_seconds());
  stage.gather = Seconds(form.gather_seconds());
  stage.recompute.assign(form.recompute().begin(), form.recompute().end());
  stage.amplification = form.amplification();
  stage.sharding = readSharding(form, place, names);
  if (form.shard_degree() != 0)
    stage.sharding.degree = form.shard_degree();
  for (const v1::TableShards &shards : form.tables())
    stage.tables.push_back({shards.table(), {shards.rows().begin(), shards.rows().end()}});
  return stage;
}

/// Writes the limits that the user has given.
void writeLimits(const Plan &plan, v1::Plan &form) {
  if (plan.minThroughput > SamplesPerSecond())
    form.set_min_throughput(plan.minThroughput.value());
  if (plan.maxCostPerHour > DollarsPerHour())
    form.set_max_cost_per_hour(plan.maxCostPerHour.value());
  if (plan.maxCostPerMillionSamples > Dollars())
    form.set_max_cost_per_million_samples(plan.maxCostPerMillionSamples.value());
  if (plan.maxCostPerIteration > Dollars())
    form.set_max_cost_per_iteration(plan.maxCostPerIteration.value());
  if (plan.maxIteration > Seconds())
    form.set_max_iteration_seconds(plan.maxIteration.value());
  if (plan.maxMemoryFraction > 0)
    form.set_max_memory_fraction(plan.maxMemoryFraction);
}

void writeRequest(const Plan &plan, v1::Plan &form) {
  form.set_model(plan.model);
  form.set_model_fingerprint(plan.modelFingerprint);
  form.set_cluster(plan.cluster);
  form.set_cluster_fingerprint(plan.clusterFingerprint);
  for (const std::string &fingerprint : plan.profileFingerprints)
    form.add_profile_fingerprints(fingerprint);
  form.set_strategy(plan.strategy);
  form.set_seed(double(plan.seed));
  form.set_objective(nameOf(plan.objective));
  if (plan.schedule == Schedule::Burst || plan.amplificationLimit > 0)
    form.set_amplification_limit(plan.amplificationLimit);
  writeLimits(plan, form);
  if (plan.memoryHeadroom)
    form.set_memory_headroom(*plan.memoryHeadroom);
  for (const DeviceLimit &limit : plan.deviceLimits) {
    v1::DeviceLimit &limitForm = *form.add_device_limits();
    limitForm.set_type(limit.type);
    limitForm.set_most(limit.most);
  }
  for (const Pin &pin : plan.pins) {
    v1::Pin &pinForm = *form.add_pins();
    pinForm.set_layer(pin.layer);
    pinForm.set_type(pin.type);
  }
  for (const LayerSet &layers : plan.colocations)
    *form.add_colocations()->mutable_layers() = {layers.begin(), layers.end()};
  for (const LayerSet &layers : plan.separations)
    *form.add_separations()->mutable_layers() = {layers.begin(), layers.end()};
}

void writeDecision(const Plan &plan, v1::Plan &form) {
  form.set_global_batch(double(plan.globalBatch.value()));
  form.set_micro_batches(plan.microBatches);
  form.set_schedule(nameOf(plan.schedule));
  form.set_optimizer(nameOf(plan.optimizer));
  form.set_optimizer_kernels(nameOf(plan.optimizerKernels));
  form.set_precision(nameOf(plan.precision));
  form.set_memory_format(nameOf(plan.memoryFormat));
  form.set_iteration_model(nameOf(plan.iterationModel));
  writeModeRequest(plan, form);
  form.set_batch_norm(nameOf(plan.batchNorm));
  if (plan.division.byStage)
    form.set_degrees_by_stage(true);
  if (plan.comparesDegrees)
    form.set_degrees_compared(true);
  if (plan.division.sequence != SequenceParallel::Never)
    form.set_sequence_parallel(nameOf(plan.division.sequence));
  if (plan.layerOrder != LayerOrder::Given)
    form.set_layer_order(nameOf(plan.layerOrder));
  if (plan.requestedSchedule != ScheduleChoice::Auto)
    form.set_requested_schedule(nameOf(plan.requestedSchedule));
  if (plan.requestedMicroBatches > 0)
    form.set_requested_micro_batches(plan.requestedMicroBatches);
  for (const Stage &stage : plan.stages)
    writeStage(stage, *form.add_stages());
}

void writePrediction(const Plan &plan, v1::Plan &form) {
  form.set_objective_value(plan.objectiveValue);
  form.set_lower_bound(plan.lowerBound);
  form.set_gap(plan.gap);
  form.set_optimal(plan.optimal);
  form.set_search_space(plan.searchSpace);
  *form.mutable_search_space_limits() = {plan.searchSpaceLimits.begin(),
                                         plan.searchSpaceLimits.end()};
  form.set_interrupted(plan.interrupted);
  form.set_iteration_seconds(plan.iteration.value());
  if (plan.expected)
    form.set_expected_seconds(plan.expected->value());
  if (plan.iterationInterval) {
    v1::Interval &interval = *form.mutable_iteration_interval();
    interval.set_least_seconds(plan.iterationInterval->least.value());
    interval.set_most_seconds(plan.iterationInterval->most.value());
    interval.set_confidence(plan.iterationInterval->confidence);
  }
  form.set_throughput(plan.throughput.value());
  form.set_cost_per_hour(plan.costPerHour.value());
  form.set_traffic_cost_per_iteration(plan.trafficCost.value());
  form.set_cost_per_million_samples(plan.costPerMillionSamples.value());
  for (const Check &check : plan.checks) {
    v1::Check &checkForm = *form.add_checks();
    checkForm.set_name(check.name);
    checkForm.set_holds(check.holds);
    checkForm.set_slack(check.slack);
    checkForm.set_unit(check.unit);
  }
  v1::Provenance &provenance = *form.mutable_provenance();
  provenance.set_measured(plan.provenance[0]);
  provenance.set_interpolated(plan.provenance[1]);
  provenance.set_regressed(plan.provenance[2]);
  provenance.set_modelled(plan.provenance[3]);
  provenance.set_assumed(plan.provenance[4]);
}

/// Writes the fields that only some plans have.
void writeDeviceMemory(const Plan &plan, v1::Plan &form) {
  for (const DeviceMemory &memory : plan.deviceMemory) {
    v1::DeviceMemory &memoryForm = *form.add_device_memory();
    memoryForm.set_type(memory.type);
    memoryForm.set_constant_bytes(memory.overhead.constant.value());
    memoryForm.set_factor(memory.overhead.factor);
    memoryForm.set_under_way(memory.overhead.underWay);
    if (memory.overhead.convolutions > 0)
      memoryForm.set_convolutions(memory.overhead.convolutions);
    memoryForm.set_source(memory.overhead.source);
    if (memory.overhead)
      memoryForm.set_origin(nameOf(memory.overhead.provenance));
  }
}

void readDeviceMemory(const v1::Plan &form, NameReader &names, Plan &plan) {
  for (int i = 0; i < form.device_memory_size(); ++i) {
    const v1::DeviceMemory &memory = form.device_memory(i);
    MemoryOverhead overhead{Bytes(memory.constant_bytes()), memory.factor(), memory.under_way(),
                            memory.source()};
    overhead.convolutions = memory.convolutions();
    if (!memory.origin().empty())
      overhead.provenance = names.named<Provenance>(memory.origin(), provenances,
                                                    "deviceMemory[" + Twine(i) + "].origin");
    plan.deviceMemory.push_back({memory.type(), overhead});
  }
}

void writeExtras(const Plan &plan, v1::Plan &form) {
  writeDeviceMemory(plan, form);
  writeBurst(plan, form);
  if (plan.training) {
    v1::Training &training = *form.mutable_training();
    training.set_epochs(double(plan.training->epochs));
    training.set_samples(double(plan.training->samples));
    training.set_seconds(readableFigure(plan.trainingTime().value()));
    training.set_dollars(readableFigure(plan.trainingCost().value()));
  }
  if (plan.rounding) {
    form.mutable_rounding()->set_method(plan.rounding->method);
    form.mutable_rounding()->set_continuous_value(plan.rounding->continuous);
  }
  for (const FitResiduals &fit : plan.fits) {
    v1::FitResiduals &residuals = *form.add_fits();
    residuals.set_type(fit.type);
    residuals.set_compute_median(fit.computeMedian);
    residuals.set_compute_worst(fit.computeWorst);
    residuals.set_transfer_median(fit.transferMedian);
    residuals.set_transfer_worst(fit.transferWorst);
    residuals.set_worst_layer(fit.worstLayer);
  }
}

/// Checks the figures of training in a file; 0: not stated. They follow from the other figures.
Error checkTraining(const v1::Plan &form, const Plan &plan) {
  constexpr double agreement = 1e-6;
  auto wrong = [&](const char *field, double stated, double computed) -> Error {
    computed = readableFigure(computed);
    if (stated == 0 || std::abs(stated - computed) <= agreement * computed)
      return Error::success();
    return Diagnostic(Diag::InvalidPlan, {"", 0, 0, field})
           << "is stated as " << stated << ", and epochs, samples, throughput and price give "
           << computed;
  };
  if (!plan.training)
    return Error::success();
  if (Error error =
          wrong("training.seconds", form.training().seconds(), plan.trainingTime().value()))
    return error;
  return wrong("training.dollars", form.training().dollars(), plan.trainingCost().value());
}

void readExtras(const v1::Plan &form, Plan &plan) {
  readBurst(form, plan);
  if (form.has_training())
    plan.training = {int64_t(form.training().epochs()), int64_t(form.training().samples())};
  if (form.has_rounding())
    plan.rounding = {form.rounding().method(), form.rounding().continuous_value()};
  for (const v1::FitResiduals &fit : form.fits())
    plan.fits.push_back({fit.type(), fit.compute_median(), fit.compute_worst(),
                         fit.transfer_median(), fit.transfer_worst(), fit.worst_layer()});
}

void readRequest(const v1::Plan &form, Plan &plan) {
  plan.model = form.model();
  plan.modelFingerprint = form.model_fingerprint();
  plan.cluster = form.cluster();
  plan.clusterFingerprint = form.cluster_fingerprint();
  plan.profileFingerprints.assign(form.profile_fingerprints().begin(),
                                  form.profile_fingerprints().end());
  plan.strategy = form.strategy();
  plan.seed = uint64_t(form.seed());
  plan.minThroughput = SamplesPerSecond(form.min_throughput());
  plan.maxCostPerHour = DollarsPerHour(form.max_cost_per_hour());
  plan.amplificationLimit = form.amplification_limit();
  plan.maxCostPerMillionSamples = Dollars(form.max_cost_per_million_samples());
  plan.maxCostPerIteration = Dollars(form.max_cost_per_iteration());
  plan.maxIteration = Seconds(form.max_iteration_seconds());
  plan.maxMemoryFraction = form.max_memory_fraction();
  if (form.has_memory_headroom())
    plan.memoryHeadroom = form.memory_headroom();
  for (const v1::DeviceLimit &limit : form.device_limits())
    plan.deviceLimits.push_back({limit.type(), int(limit.most())});
  for (const v1::Pin &pin : form.pins())
    plan.pins.push_back({pin.layer(), pin.type()});
  for (const v1::LayerSet &set : form.colocations())
    plan.colocations.emplace_back(set.layers().begin(), set.layers().end());
  for (const v1::LayerSet &set : form.separations())
    plan.separations.emplace_back(set.layers().begin(), set.layers().end());
}

void readDecision(const v1::Plan &form, NameReader &names, Plan &plan) {
  plan.objective = names.named<Objective>(form.objective(), 3, "objective");
  plan.globalBatch = Samples(int64_t(form.global_batch()));
  plan.microBatches = form.micro_batches();
  plan.schedule =
      names.named<Schedule>(form.schedule(), static_cast<int>(schedules().size()), "schedule");
  plan.optimizer = names.named<Optimizer>(form.optimizer(), 3, "optimizer");
  if (!form.optimizer_kernels().empty())
    plan.optimizerKernels =
        names.named<OptimizerKernels>(form.optimizer_kernels(), 2, "optimizerKernels");
  plan.precision = names.named<Precision>(form.precision(), precisions, "precision");
  if (!form.memory_format().empty())
    plan.memoryFormat = names.named<MemoryFormat>(form.memory_format(), 2, "memoryFormat");
  if (!form.iteration_model().empty())
    plan.iterationModel = names.named<IterationModel>(
        form.iteration_model(), static_cast<int>(iterationModels().size()), "iterationModel");
  static_cast<ModeRequest &>(plan) = readModeRequest(form, names);
  plan.division.byStage = form.degrees_by_stage();
  plan.comparesDegrees = form.degrees_compared();
  if (form.has_sequence_parallel())
    plan.division.sequence = names.named<SequenceParallel>(form.sequence_parallel(),
                                                           sequenceParallels, "sequenceParallel");
  if (form.has_layer_order())
    plan.layerOrder = names.named<LayerOrder>(form.layer_order(), layerOrders, "layerOrder");
  if (form.has_requested_schedule())
    plan.requestedSchedule =
        names.named<ScheduleChoice>(form.requested_schedule(), 4, "requestedSchedule");
  plan.requestedMicroBatches = form.requested_micro_batches();
  if (!form.batch_norm().empty())
    plan.batchNorm = names.named<BatchNorm>(form.batch_norm(), 2, "batchNorm");
  for (int i = 0; i < form.stages_size(); ++i)
    plan.stages.push_back(readStage(form.stages(i), "stages[" + Twine(i) + "]", names));
  readDeviceMemory(form, names, plan);
}

void readPrediction(const v1::Plan &form, Plan &plan) {
  plan.objectiveValue = form.objective_value();
  plan.lowerBound = form.lower_bound();
  plan.gap = form.gap();
  plan.optimal = form.optimal();
  plan.searchSpace = form.search_space();
  plan.searchSpaceLimits.assign(form.search_space_limits().begin(),
                                form.search_space_limits().end());
  plan.interrupted = form.interrupted();
  plan.iteration = Seconds(form.iteration_seconds());
  if (form.has_expected_seconds())
    plan.expected = Seconds(form.expected_seconds());
  if (form.has_iteration_interval())
    plan.iterationInterval = {Seconds(form.iteration_interval().least_seconds()),
                              Seconds(form.iteration_interval().most_seconds()),
                              form.iteration_interval().confidence()};
  plan.throughput = SamplesPerSecond(form.throughput());
  plan.costPerHour = DollarsPerHour(form.cost_per_hour());
  plan.trafficCost = Dollars(form.traffic_cost_per_iteration());
  plan.costPerMillionSamples = Dollars(form.cost_per_million_samples());
  for (const v1::Check &check : form.checks())
    plan.checks.push_back({check.name(), check.holds(), check.slack(), check.unit()});
  const v1::Provenance &provenance = form.provenance();
  plan.provenance = {provenance.measured(), provenance.interpolated(), provenance.regressed(),
                     provenance.modelled(), provenance.assumed()};
}
} // namespace

namespace {
void writeComparison(const PlanComparison &comparison, v1::Plan &form) {
  if (comparison.bestObjectiveValue)
    form.set_best_objective_value(*comparison.bestObjectiveValue);
  form.set_binding(comparison.binding);
  form.set_bottleneck_stage(comparison.bottleneckStage);
  if (comparison.change)
    form.set_change(*comparison.change);
}
} // namespace

std::string toJson(const Plan &plan, const PlanComparison *comparison) {
  v1::Plan form;
  form.set_schema_version(schemaVersion);
  writeRequest(plan, form);
  writeDecision(plan, form);
  writePrediction(plan, form);
  writeExtras(plan, form);
  if (comparison)
    writeComparison(*comparison, form);
  return printMessage(form);
}

Expected<Plan> parsePlan(StringRef text, StringRef path) {
  JsonSource source{text, path};
  v1::Plan form;
  if (Error error = parseMessage(source, form, "schemaVersion", /*versionOptional=*/false))
    return error;
  Plan plan;
  NameReader names(source);
  readRequest(form, plan);
  readDecision(form, names, plan);
  readPrediction(form, plan);
  readExtras(form, plan);
  if (Error error = names.take())
    return error;
  if (Error error = plan.verify())
    return source.located(std::move(error));
  if (Error error = checkTraining(form, plan))
    return source.located(std::move(error));
  return plan;
}

Expected<Plan> readPlan(StringRef path) {
  SmallString<128> file(path);
  if (sys::fs::is_directory(path))
    sys::path::append(file, "plan.json");
  auto text = readFile(file, largestJson);
  return text ? parsePlan(*text, file) : text.takeError();
}

} // namespace heterplan
