#include "cost/LayerRegression.h"

#include "cost/Uncertainty.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
Bytes movedForward(const LayerWork &work, double batch) {
  return work.forwardBytes * batch + work.parameterBytes;
}

/// Parameters are read and their gradient is written.
Bytes movedBackward(const LayerWork &work, double batch) {
  return work.backwardBytes * batch + work.parameterBytes * 2;
}

WorkFeatures forwardFeatures(const LayerWork &work, Samples batch) {
  double samples = double(batch.value());
  return workFeatures(work.forwardFlops * samples, movedForward(work, samples), batch);
}

WorkFeatures backwardFeatures(const LayerWork &work, Samples batch) {
  double samples = double(batch.value());
  return workFeatures(work.backwardFlops * samples, movedBackward(work, samples), batch);
}

/// An update depends on the parameters only.
WorkFeatures updateFeatures(const LayerWork &work) {
  return workFeatures(Flops(), work.parameterBytes, Samples(1));
}

/// Samples, and the points that they came from.
struct PassSamples {
  std::vector<WorkSample> samples;
  std::vector<EntryPlace> places;

  void add(const WorkFeatures &features, Seconds time, unsigned layer, EntryPlace place) {
    if (time <= Seconds(0))
      return;
    samples.push_back({features, time, layer});
    places.push_back(place);
  }
};

/// The work of layers by signature, and by name in one model.
struct KnownWork {
  const ProfileDatabase &database;
  const LayerGraph &graph;
  std::vector<LayerGraph> ofShards;
  StringMap<const Layer *> bySignature;
  std::map<std::pair<int, StringRef>, const Layer *> byName; // and degree

  KnownWork(const ProfileDatabase &database, const LayerGraph &graph)
      : database(database), graph(graph) {
    add(graph);
    const std::vector<int> degrees = graph.degrees();
    for (int degree : ArrayRef<int>(degrees).drop_front())
      ofShards.push_back(graph.ofDegree(degree));
    for (const LayerGraph &local : ofShards)
      add(local);
  }
  void add(const LayerGraph &some) {
    for (const Layer &layer : some.layers) {
      bySignature.try_emplace(layer.signature, &layer);
      byName.try_emplace({layer.shardDegree, layer.name}, &layer);
    }
  }
  std::optional<LayerWork> of(StringRef signature) const {
    if (const Layer *layer = bySignature.lookup(signature))
      return workOf(*layer);
    auto stated = database.works().find(signature);
    return stated == database.works().end() ? std::nullopt : std::optional(stated->second);
  }
};

FlopsPerSecond peakOf(const DeviceType &device) {
  if (!device.rates)
    return FlopsPerSecond();
  return std::max({device.rates->fp32, device.rates->tf32, device.rates->bf16});
}

Seconds notBelowPeak(Seconds time, Flops work, FlopsPerSecond peak) {
  return peak.value() > 0 ? std::max(time, work / peak) : time;
}
} // namespace

struct LayerRegression::Training {
  struct Class {
    PassSamples forward, backward;
  };
  std::map<LayerKind, Class> classes;
  PassSamples updates;
  bool updateStated = false, updateMissing = false;

  void add(const ProfileSeries &series, const LayerWork &work, unsigned layer) {
    Class &own = classes[work.kind];
    for (const ProfilePoint &point : series.all()) {
      if (point.provenance > Provenance::Interpolated || point.hasLoss)
        continue;
      own.forward.add(forwardFeatures(work, point.batch), point.forward, layer, point.place);
      own.backward.add(backwardFeatures(work, point.batch), point.backward, layer, point.place);
      if (work.parameterBytes == Bytes(0))
        continue;
      (point.update ? updateStated : updateMissing) = true;
      updates.add(updateFeatures(work), point.update.value_or(Seconds()), layer, point.place);
    }
  }

  /// Series by the order of their names: sums of floating-point numbers depend on it.
  void addAll(const StringMap<ProfileSeries> &series,
              function_ref<std::optional<std::pair<LayerWork, StringRef>>(StringRef)> workOfName,
              StringMap<unsigned> &layers) {
    std::map<StringRef, const ProfileSeries *> sorted;
    for (const auto &entry : series)
      sorted[entry.first()] = &entry.second;
    for (const auto &[name, each] : sorted)
      if (auto work = workOfName(name))
        add(*each, work->first, layers.try_emplace(work->second, layers.size()).first->second);
  }
};

std::string LayerClass::refusal() const {
  std::string reason = forward.refusal();
  return reason.empty() ? backward.refusal() : reason;
}

LayerRegression::LayerRegression(const ProfileDatabase &database, const LayerGraph &graph) {
  KnownWork known(database, graph);
  auto bySignature = [&](StringRef name) -> std::optional<std::pair<LayerWork, StringRef>> {
    std::optional<LayerWork> work = known.of(name);
    return work ? std::optional(std::pair(*work, name)) : std::nullopt;
  };
  auto byName = [&](int degree) {
    return [&known, degree](StringRef name) -> std::optional<std::pair<LayerWork, StringRef>> {
      auto layer = known.byName.find({degree, name});
      if (layer == known.byName.end())
        return std::nullopt;
      return std::pair(workOf(*layer->second), StringRef(layer->second->signature));
    };
  };
  for (const auto &type : database.deviceTypes()) {
    Training training;
    StringMap<unsigned> layers;
    for (const auto &[degree, measured] : type.second) {
      training.addAll(measured.bySignature, bySignature, layers);
      for (StringRef model : std::set<StringRef>{graph.model, ""})
        if (auto named = measured.byModel.find(model); named != measured.byModel.end())
          training.addAll(named->second, byName(degree), layers);
    }
    train(type.first(), training);
  }
  llvm::sort(warnings,
             [](const ProfileWarning &a, const ProfileWarning &b) { return a.place < b.place; });
}

void LayerRegression::train(StringRef deviceType, const Training &training) {
  auto warn = [&](const PassSamples &of, const WorkFit &fit, LayerKind kind, const char *pass) {
    if (!fit.refusal().empty())
      return;
    for (size_t index : fit.outliers()) {
      const WorkSample &sample = of.samples[index];
      warnings.push_back(
          {Diag::ProfileOutlier, of.places[index],
           formatv("the {0} pass takes {1}, where the other {2} layers of class '{3}' on '{4}' say "
                   "{5}",
                   pass, inMilliseconds(sample.time), std::to_string(fit.layers()), nameOf(kind),
                   deviceType, inMilliseconds(fit.at(sample.features)))
               .str()});
    }
  };
  std::map<LayerKind, LayerClass> &classes = byType[deviceType.str()];
  for (const auto &[kind, own] : training.classes) {
    LayerClass trained{deviceType.str(), kind, WorkFit(own.forward.samples),
                       WorkFit(own.backward.samples)};
    warn(own.forward, trained.forward, kind, "forward");
    warn(own.backward, trained.backward, kind, "backward");
    classes[kind] = std::move(trained);
  }
  updates[deviceType.str()] = WorkFit(training.updates.samples);
  updateInBackward[deviceType.str()] = training.updateMissing && !training.updateStated;
}

const LayerClass *LayerRegression::find(LayerKind kind, const DeviceType &device) const {
  const LayerClass *found = nullptr;
  for (const std::string &name : {device.stated(), device.catalogue}) {
    auto type = byType.find(name);
    if (name.empty() || type == byType.end())
      continue;
    auto own = type->second.find(kind);
    if (own == type->second.end())
      continue;
    if (own->second.refusal().empty())
      return &own->second;
    found = found ? found : &own->second;
  }
  return found;
}

std::vector<const LayerClass *> LayerRegression::classes() const {
  std::vector<const LayerClass *> all;
  for (const auto &[type, classes] : byType)
    for (const auto &[kind, trained] : classes)
      all.push_back(&trained);
  return all;
}

std::optional<LayerCost> LayerRegression::price(const Layer &layer, const DeviceType &device,
                                                Samples batch) const {
  const LayerClass *own = find(layer.kind, device);
  if (!own || !own->refusal().empty())
    return std::nullopt;
  LayerWork work = workOf(layer);
  double samples = double(batch.value());
  FlopsPerSecond peak = peakOf(device);
  LayerCost cost;
  cost.provenance = Provenance::Regressed;
  cost.forward = notBelowPeak(own->forward.at(forwardFeatures(work, batch)),
                              work.forwardFlops * samples, peak);
  cost.backward = notBelowPeak(own->backward.at(backwardFeatures(work, batch)),
                               work.backwardFlops * samples, peak);
  cost.halfWidth =
      halfWidthOfMedian(std::max(own->forward.medianError(), own->backward.medianError()));
  return cost;
}

std::optional<Seconds> LayerRegression::update(const Layer &layer, const DeviceType &device) const {
  LayerWork work = workOf(layer);
  if (work.parameterBytes == Bytes(0))
    return Seconds(0);
  for (const std::string &name : {device.stated(), device.catalogue}) {
    auto fit = updates.find(name);
    if (name.empty() || fit == updates.end())
      continue;
    if (updateInBackward.at(name))
      return Seconds(0);
    if (fit->second.refusal().empty())
      return fit->second.at(updateFeatures(work));
  }
  return std::nullopt;
}

} // namespace heterplan
