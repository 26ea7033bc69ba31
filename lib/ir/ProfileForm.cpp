#include "ir/FileForms.h"
#include "ir/JsonForm.h"

#include "heterplan.pb.h"

#include "support/Files.h"

using namespace llvm;

namespace heterplan {

namespace {
void writeSession(const MeasurementSession &session, v1::MeasurementSession &form) {
  form.set_forward_seconds(session.forward.value());
  form.set_backward_seconds(session.backward.value());
  form.set_update_seconds(session.update.value());
  form.set_spread(session.spread);
  form.set_repetitions(session.repetitions);
  form.set_accumulate_seconds(session.accumulate.value());
  if (session.referenceKernel > Seconds(0))
    form.set_reference_kernel_seconds(session.referenceKernel.value());
}

MeasurementSession readSession(const v1::MeasurementSession &form) {
  return {Seconds(form.forward_seconds()),
          Seconds(form.backward_seconds()),
          Seconds(form.update_seconds()),
          form.spread(),
          form.repetitions(),
          Seconds(form.accumulate_seconds()),
          Seconds(form.reference_kernel_seconds())};
}

void writeEntry(const ProfileEntry &entry, v1::ProfileEntry &form) {
  form.set_signature(entry.signature);
  form.set_layer(entry.layer);
  if (entry.shardDegree != 1)
    form.set_shard_degree(entry.shardDegree);
  form.set_device_type(entry.deviceType);
  form.set_batch(double(entry.batch.value()));
  form.set_forward_seconds(entry.forward.value());
  form.set_backward_seconds(entry.backward.value());
  if (entry.update)
    form.set_update_seconds(entry.update->value());
  form.set_accumulate_seconds(entry.accumulate.value());
  form.set_loss(entry.loss);
  form.set_spread(entry.spread);
  form.set_repetitions(entry.repetitions);
  for (const MeasurementSession &session : entry.sessions)
    writeSession(session, *form.add_sessions());
  if (entry.origin != Provenance::Measured)
    form.set_origin(nameOf(entry.origin));
  form.set_calibrated(entry.calibrated);
}

ProfileEntry readEntry(const v1::ProfileEntry &form, const Twine &place, NameReader &names) {
  ProfileEntry entry;
  entry.signature = form.signature();
  entry.layer = form.layer();
  if (form.has_shard_degree())
    entry.shardDegree = int(form.shard_degree());
  entry.deviceType = form.device_type();
  entry.batch = Samples(int64_t(form.batch()));
  entry.forward = Seconds(form.forward_seconds());
  entry.backward = Seconds(form.backward_seconds());
  if (form.has_update_seconds())
    entry.update = Seconds(form.update_seconds());
  entry.accumulate = Seconds(form.accumulate_seconds());
  entry.loss = form.loss();
  entry.spread = form.spread();
  entry.repetitions = form.repetitions();
  for (const v1::MeasurementSession &session : form.sessions())
    entry.sessions.push_back(readSession(session));
  if (!form.origin().empty())
    entry.origin = names.named<Provenance>(form.origin(), provenances, place + ".origin");
  entry.calibrated = form.calibrated();
  return entry;
}

void writeLayer(const MeasuredLayer &layer, v1::MeasuredLayer &form) {
  form.set_signature(layer.signature);
  form.set_kind(nameOf(layer.work.kind));
  form.set_forward_flops(layer.work.forwardFlops.value());
  form.set_backward_flops(layer.work.backwardFlops.value());
  form.set_forward_bytes(layer.work.forwardBytes.value());
  form.set_backward_bytes(layer.work.backwardBytes.value());
  form.set_parameter_bytes(layer.work.parameterBytes.value());
}

MeasuredLayer readLayer(const v1::MeasuredLayer &form, const Twine &place, NameReader &names) {
  MeasuredLayer layer;
  layer.signature = form.signature();
  if (!form.kind().empty())
    layer.work.kind = names.named<LayerKind>(form.kind(), layerKindCount, place + ".kind");
  layer.work.forwardFlops = Flops(form.forward_flops());
  layer.work.backwardFlops = Flops(form.backward_flops());
  layer.work.forwardBytes = Bytes(form.forward_bytes());
  layer.work.backwardBytes = Bytes(form.backward_bytes());
  layer.work.parameterBytes = Bytes(form.parameter_bytes());
  return layer;
}

void writeLink(const LinkMeasurement &link, v1::LinkMeasurement &form) {
  form.set_name(link.name);
  form.set_bandwidth_bytes_per_second(link.bandwidth.value());
  form.set_latency_seconds(link.latency.value());
  form.set_residual(link.residual);
  if (link.allReduce) {
    form.set_all_reduce_bandwidth_bytes_per_second(link.allReduce->bandwidth.value());
    form.set_all_reduce_latency_seconds(link.allReduce->latency.value());
  }
  form.set_all_reduce_residual(link.allReduceResidual);
  if (link.reduceScatter) {
    form.set_reduce_scatter_bandwidth_bytes_per_second(link.reduceScatter->bandwidth.value());
    form.set_reduce_scatter_latency_seconds(link.reduceScatter->latency.value());
  }
  form.set_reduce_scatter_residual(link.reduceScatterResidual);
  if (link.allGather) {
    form.set_all_gather_bandwidth_bytes_per_second(link.allGather->bandwidth.value());
    form.set_all_gather_latency_seconds(link.allGather->latency.value());
  }
  form.set_all_gather_residual(link.allGatherResidual);
  if (link.lookup) {
    form.set_lookup_bandwidth_bytes_per_second(link.lookup->messages.bandwidth.value());
    form.set_lookup_latency_seconds(link.lookup->messages.latency.value());
    form.set_lookup_row_seconds(link.lookup->row.value());
  }
  form.set_lookup_residual(link.lookupResidual);
  form.set_overlap_loss(link.overlapLoss);
  if (link.origin != Provenance::Measured)
    form.set_origin(nameOf(link.origin));
  form.set_calibrated(link.calibrated);
}

void writeMemory(const MemoryMeasurement &memory, v1::MemoryMeasurement &form) {
  form.set_device_type(memory.deviceType);
  form.set_constant_bytes(memory.constant.value());
  form.set_factor(memory.factor);
  form.set_under_way(memory.underWay);
}

MemoryMeasurement readMemory(const v1::MemoryMeasurement &form) {
  return {form.device_type(), Bytes(form.constant_bytes()), form.has_factor() ? form.factor() : 1,
          form.has_under_way() ? form.under_way() : 1};
}

LinkMeasurement readLink(const v1::LinkMeasurement &form, const Twine &place, NameReader &names) {
  LinkMeasurement link{form.name(), BytesPerSecond(form.bandwidth_bytes_per_second()),
                       Seconds(form.latency_seconds())};
  link.residual = form.residual();
  if (form.has_all_reduce_bandwidth_bytes_per_second())
    link.allReduce = {BytesPerSecond(form.all_reduce_bandwidth_bytes_per_second()),
                      Seconds(form.all_reduce_latency_seconds())};
  link.allReduceResidual = form.all_reduce_residual();
  if (form.has_reduce_scatter_bandwidth_bytes_per_second())
    link.reduceScatter = {BytesPerSecond(form.reduce_scatter_bandwidth_bytes_per_second()),
                          Seconds(form.reduce_scatter_latency_seconds())};
  link.reduceScatterResidual = form.reduce_scatter_residual();
  if (form.has_all_gather_bandwidth_bytes_per_second())
    link.allGather = {BytesPerSecond(form.all_gather_bandwidth_bytes_per_second()),
                      Seconds(form.all_gather_latency_seconds())};
  link.allGatherResidual = form.all_gather_residual();
  if (form.has_lookup_bandwidth_bytes_per_second())
    link.lookup = {{BytesPerSecond(form.lookup_bandwidth_bytes_per_second()),
                    Seconds(form.lookup_latency_seconds())},
                   Seconds(form.lookup_row_seconds())};
  link.lookupResidual = form.lookup_residual();
  link.overlapLoss = form.overlap_loss();
  if (!form.origin().empty())
    link.origin = names.named<Provenance>(form.origin(), provenances, place + ".origin");
  link.calibrated = form.calibrated();
  return link;
}
} // namespace

std::string toJson(const Profile &profile) {
  v1::Profile form;
  form.set_schema_version(schemaVersion);
  form.set_model(profile.model);
  form.set_date(profile.date);
  form.set_device(profile.device);
  form.set_driver(profile.driver);
  form.set_clocks(profile.clocks);
  form.set_engine(profile.engine);
  form.set_threads(profile.threads);
  if (profile.precision)
    form.set_precision(nameOf(*profile.precision));
  form.set_memory_format(nameOf(profile.memoryFormat));
  for (const ProfileEntry &entry : profile.entries)
    writeEntry(entry, *form.add_entries());
  for (const LinkMeasurement &link : profile.links)
    writeLink(link, *form.add_links());
  for (const MemoryMeasurement &memory : profile.memory)
    writeMemory(memory, *form.add_memory());
  for (const MeasuredLayer &layer : profile.layers)
    writeLayer(layer, *form.add_layers());
  for (const IterationRatio &each : profile.iterations) {
    v1::IterationRatio &ratio = *form.add_iterations();
    ratio.set_device_type(each.deviceType);
    ratio.set_precision(nameOf(each.precision));
    ratio.set_ratio(each.ratio);
    ratio.set_runs(double(each.runs));
    if (each.spread > 0)
      ratio.set_spread(each.spread);
  }
  return printMessage(form);
}

Expected<Profile> parseProfile(StringRef text, StringRef path) {
  JsonSource source{text, path};
  v1::Profile form;
  if (Error error = parseMessage(source, form, "schemaVersion", /*versionOptional=*/true))
    return error;
  Profile profile;
  profile.model = form.model();
  profile.date = form.date();
  profile.device = form.device();
  profile.driver = form.driver();
  profile.clocks = form.clocks();
  profile.engine = form.engine();
  profile.threads = form.threads();
  profile.fingerprint = sha256(text);
  NameReader names(source);
  for (int i = 0; i < form.entries_size(); ++i)
    profile.entries.push_back(readEntry(form.entries(i), "entries[" + Twine(i) + "]", names));
  for (int i = 0; i < form.layers_size(); ++i)
    profile.layers.push_back(readLayer(form.layers(i), "layers[" + Twine(i) + "]", names));
  for (int i = 0; i < form.links_size(); ++i)
    profile.links.push_back(readLink(form.links(i), "links[" + Twine(i) + "]", names));
  for (int i = 0; i < form.iterations_size(); ++i) {
    const v1::IterationRatio &ratio = form.iterations(i);
    profile.iterations.push_back({ratio.device_type(),
                                  names.named<Precision>(ratio.precision(), precisions,
                                                         "iterations[" + Twine(i) + "].precision"),
                                  ratio.ratio(), int64_t(ratio.runs()), ratio.spread()});
  }
  if (!form.precision().empty())
    profile.precision = names.named<Precision>(form.precision(), precisions, "precision");
  if (!form.memory_format().empty())
    profile.memoryFormat = names.named<MemoryFormat>(form.memory_format(), 2, "memoryFormat");
  for (const v1::MemoryMeasurement &memory : form.memory())
    profile.memory.push_back(readMemory(memory));
  if (Error error = names.take())
    return error;
  if (Error error = profile.verify())
    return source.located(std::move(error));
  return profile;
}

Expected<Profile> readProfile(StringRef path) {
  auto text = readFile(path, largestJson);
  return text ? parseProfile(*text, path) : text.takeError();
}

} // namespace heterplan
