// Random values of the IR for property tests, from an explicit generator.
#pragma once

#include "ir/FileForms.h"

#include <random>

namespace heterplan::test {

class RandomValues {
public:
  explicit RandomValues(uint64_t seed) : engine(seed) {}

  int64_t integer(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine);
  }
  bool coin() { return integer(0, 1) == 1; }
  /// Any size from denormal to 1e29; zero now and then.
  double number() {
    if (integer(0, 9) == 0)
      return 0;
    double mantissa = std::uniform_real_distribution<double>(0, 1)(engine);
    return std::ldexp(mantissa, static_cast<int>(coin() ? integer(-1070, 90) : integer(-30, 30)));
  }
  /// Letters, escapes, control characters and other scripts.
  std::string text() {
    static const char *const pieces[] = {"a", "Z",  "/", "\"", "\\", "\n",   "\t", "\x01", " ",
                                         "é", "层", "😀", "<",  "&",  "\x7f", "'",  "{",    "]"};
    std::string result;
    for (int64_t i = integer(0, 12); i > 0; --i)
      result += pieces[integer(0, std::size(pieces) - 1)];
    return result;
  }
  /// A name that no other call returns.
  std::string name() { return text() + std::to_string(serial++); }
  std::vector<std::string> names(int64_t most) {
    std::vector<std::string> result(integer(0, most));
    for (std::string &each : result)
      each = name();
    return result;
  }
  Seconds seconds() { return Seconds(number()); }
  Bytes bytes() { return Bytes(number()); }
  /// `whole` as a sum of `parts` positive integers.
  std::vector<int64_t> split(int64_t whole, int64_t parts) {
    std::vector<int64_t> result(parts, 1);
    for (int64_t left = whole - parts; left > 0; --left)
      ++result[integer(0, parts - 1)];
    return result;
  }

  LayerGraph layerGraph();
  Profile profile();
  /// Valid by Plan::verify(); layers "l0", "l1", ...
  Plan plan();

private:
  BackgroundJob backgroundJob();
  Layer layer();
  Stage stage(int id, int microBatches, int64_t microBatch);

  std::mt19937_64 engine;
  int serial = 0;
};

inline Layer RandomValues::layer() {
  Layer layer;
  layer.name = name();
  layer.kind = static_cast<LayerKind>(integer(0, 5));
  layer.signature = name();
  layer.nodes = names(3);
  layer.forwardFlops = Flops(number());
  layer.backwardFlops = Flops(number());
  layer.forwardBytes = bytes();
  layer.backwardBytes = bytes();
  layer.parameterBytes = bytes();
  layer.bufferBytes = bytes();
  layer.activationBytes = bytes();
  layer.workspaceBytes = bytes();
  layer.parameters = names(3);
  for (const std::string &parameter : layer.parameters)
    if (coin())
      layer.tables.push_back({parameter, integer(1, 1LL << 50), integer(1, 4096),
                              coin() ? DataType::Float32 : DataType::Float16, integer(1, 1 << 20)});
  if (!layer.tables.empty())
    layer.parameterBytes += layer.tableBytes();
  if (coin()) {
    layer.inPassAllReduces = integer(1, 9);
    layer.inPassAllReduceBytes = bytes();
  }
  if (coin())
    layer.convolutionBytes = bytes();
  return layer;
}

inline LayerGraph RandomValues::layerGraph() {
  LayerGraph graph;
  graph.model = name();
  graph.fingerprint = name();
  graph.notes = names(2);
  int64_t size = integer(1, 6);
  for (int64_t i = 0; i < size; ++i)
    graph.layers.push_back(layer());
  for (int64_t i = 0; i + 1 < size; ++i) {
    LayerTensor tensor;
    tensor.name = name();
    tensor.producer = static_cast<int>(i);
    for (int64_t consumer = i + 1; consumer < size; ++consumer)
      if (coin())
        tensor.consumers.push_back(static_cast<int>(consumer));
    tensor.bytesPerSample = bytes();
    tensor.fixedBytes = bytes();
    tensor.differentiable = coin();
    tensor.type = static_cast<DataType>(integer(0, 16));
    for (int64_t d = integer(0, 4); d > 0; --d)
      tensor.shape.push_back({integer(0, 1LL << 53), integer(-(1LL << 53), 1LL << 53)});
    graph.tensors.push_back(std::move(tensor));
  }
  return graph;
}

inline Profile RandomValues::profile() {
  Profile profile;
  profile.model = name();
  profile.date = text();
  profile.device = text();
  profile.driver = text();
  profile.clocks = text();
  profile.engine = text();
  profile.threads = static_cast<int>(integer(0, 64));
  for (int64_t i = integer(0, 5); i > 0; --i) {
    ProfileEntry entry;
    (coin() ? entry.signature : entry.layer) = name();
    entry.shardDegree = coin() ? 1 : static_cast<int>(integer(1, mostShards));
    entry.deviceType = name();
    entry.batch = Samples(integer(1, 2147483647));
    entry.forward = seconds();
    entry.backward = seconds();
    if (coin())
      entry.update = seconds();
    entry.accumulate = seconds();
    entry.spread = number();
    entry.repetitions = static_cast<int>(integer(0, 100));
    entry.origin = static_cast<Provenance>(integer(0, provenances - 1));
    entry.calibrated = coin();
    for (int64_t sessions = integer(0, 2); sessions > 0; --sessions)
      entry.sessions.push_back({seconds(), seconds(), seconds(), number(),
                                static_cast<int>(integer(0, 100)), seconds(), seconds()});
    profile.entries.push_back(std::move(entry));
  }
  for (int64_t i = integer(0, 3); i > 0; --i) {
    LinkMeasurement link{name(), BytesPerSecond(1 + number()), seconds()};
    link.residual = number();
    if (coin())
      link.allReduce = {BytesPerSecond(1 + number()), seconds()};
    link.allReduceResidual = number();
    if (coin())
      link.reduceScatter = {BytesPerSecond(1 + number()), seconds()};
    if (coin())
      link.allGather = {BytesPerSecond(1 + number()), seconds()};
    link.reduceScatterResidual = number();
    link.allGatherResidual = number();
    link.origin = static_cast<Provenance>(integer(0, provenances - 1));
    link.calibrated = coin();
    profile.links.push_back(std::move(link));
  }
  for (int64_t i = integer(0, 3); i > 0; --i) {
    MeasuredLayer measured;
    measured.signature = name();
    measured.work = {static_cast<LayerKind>(integer(0, layerKindCount - 1)),
                     Flops(number()),
                     Flops(number()),
                     bytes(),
                     bytes(),
                     bytes()};
    profile.layers.push_back(std::move(measured));
  }
  if (coin())
    profile.memoryFormat = MemoryFormat::ChannelsLast;
  for (int precision = int(integer(0, 4)); precision < 4; ++precision)
    profile.iterations.push_back(
        {"gpu", static_cast<Precision>(precision), 1 + number(), integer(1, 1000), number()});
  return profile;
}

inline Stage RandomValues::stage(int id, int microBatches, int64_t microBatch) {
  Stage stage;
  stage.id = id;
  int64_t width = integer(1, std::min<int64_t>(4, microBatch));
  Seconds forward{}, backward{};
  for (int64_t samples : split(microBatch, width)) {
    Replica replica;
    replica.share = Samples(samples * microBatches);
    replica.forward = seconds();
    replica.backward = seconds();
    forward = std::max(forward, replica.forward);
    backward = std::max(backward, replica.backward);
    int index = static_cast<int>(stage.replicas.size());
    replica.devices.push_back({"gpu", "node-" + std::to_string(id), index});
    stage.replicas.push_back(std::move(replica));
  }
  stage.receive = seconds();
  stage.receiveGradient = seconds();
  stage.update = seconds();
  stage.lookup = seconds();
  stage.lookupGradient = seconds();
  stage.forward = forward + stage.receive + stage.lookup;
  stage.backward = backward + stage.receiveGradient + stage.lookupGradient;
  for (int64_t i = integer(0, 2); i > 0; --i) {
    TableShards shards{name(), {}};
    for (size_t replica = 0; replica < stage.replicas.size(); ++replica)
      shards.rows.push_back(integer(0, 1LL << 50));
    stage.tables.push_back(std::move(shards));
  }
  stage.sync = stage.update + seconds();
  stage.memory = bytes();
  stage.parameterBytes = bytes();
  return stage;
}

inline BackgroundJob RandomValues::backgroundJob() {
  BackgroundJob job;
  job.model = name();
  job.modelFingerprint = text();
  job.batch = Samples(integer(1, 1 << 30));
  job.maxSlowdown = number();
  job.memory = Bytes(number());
  job.iteration = Seconds(number());
  job.overrun = Seconds(number());
  job.predictedSlowdown = number();
  job.rate = SamplesPerSecond(number());
  job.clusterThroughput = SamplesPerSecond(number());
  for (int64_t i = integer(0, 2); i > 0; --i)
    job.copies.push_back({{name(), name(), int(integer(0, 7))}, SamplesPerSecond(number())});
  return job;
}

inline Plan RandomValues::plan() {
  Plan plan;
  plan.model = name();
  plan.modelFingerprint = text();
  plan.cluster = name();
  plan.clusterFingerprint = text();
  plan.profileFingerprints = names(3);
  plan.microBatches = static_cast<int>(integer(1, 8));
  int64_t microBatch = integer(1, 9);
  plan.globalBatch = Samples(plan.microBatches * microBatch);
  int stages = static_cast<int>(integer(1, 5)), layers = 0;
  plan.schedule = static_cast<Schedule>(stages == 1 ? 0 : integer(1, 2));
  plan.optimizer = static_cast<Optimizer>(integer(0, 2));
  plan.precision = static_cast<Precision>(integer(0, 2));
  plan.objective = static_cast<Objective>(integer(0, 1));
  plan.strategy = text();
  plan.seed = static_cast<uint64_t>(integer(0, 1LL << 53));
  plan.objectiveValue = number();
  plan.lowerBound = number();
  plan.gap = number();
  plan.optimal = coin();
  plan.iteration = seconds();
  plan.throughput = SamplesPerSecond(number());
  plan.costPerHour = DollarsPerHour(number());
  plan.costPerMillionSamples = Dollars(number());
  plan.minThroughput = SamplesPerSecond(number());
  plan.maxCostPerHour = DollarsPerHour(number());
  plan.maxCostPerMillionSamples = Dollars(number());
  plan.maxCostPerIteration = Dollars(number());
  plan.maxIteration = seconds();
  plan.maxMemoryFraction = coin() ? 0.5 : 0;
  for (const std::string &type : names(2))
    plan.deviceLimits.push_back({type, static_cast<int>(integer(0, 9))});
  if (coin())
    plan.pins.push_back({name(), name()});
  if (coin())
    plan.colocations.push_back({name(), name()});
  if (coin())
    plan.separations.push_back({name(), name(), name()});
  plan.checks.push_back({name(), coin(), coin() ? number() : 0 - number(), text()});
  plan.provenance = {0.25, 0.5, 0.125, 0, 1};
  if (coin())
    plan.training = Training{integer(1, 1LL << 53), integer(1, 1LL << 53)};
  if (coin())
    plan.rounding = Rounding{name(), number()};
  if (coin())
    plan.fits.push_back({name(), number(), number(), number(), number(), text()});
  if (coin())
    plan.alternatives.push_back({name(), coin(), number(), number(), coin()});
  if (coin())
    plan.background = backgroundJob();
  for (int id = 0; id < stages; ++id) {
    plan.stages.push_back(stage(id, plan.microBatches, microBatch));
    for (int64_t i = integer(1, 3); i > 0; --i)
      plan.stages.back().layers.push_back("l" + std::to_string(layers++));
  }
  plan.layerOrder = coin() ? LayerOrder::Narrow : LayerOrder::Given;
  plan.comparesDegrees = coin();
  return plan;
}

} // namespace heterplan::test
