#include "cost/ProfileDatabase.h"

#include "cost/Uncertainty.h"
#include "support/Text.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double conflictSlack = 0.05; // a pass is noisier than the sum that `spread` is of
constexpr size_t shownName = 60;       // columns; signatures are told apart by their ends
constexpr double outlierSlack = 0.25; // batches have kernels of their own, and machines their moods

/// Times that a run has corrected do not count as measured.
template <typename T> Provenance provenanceOf(const T &entry) {
  return entry.calibrated ? std::max(entry.origin, Provenance::Interpolated) : entry.origin;
}

ProfilePoint pointOf(const ProfileEntry &entry, EntryPlace place) {
  return {entry.batch,  entry.forward,       entry.backward,   entry.update, entry.accumulate,
          entry.spread, provenanceOf(entry), entry.calibrated, place,        !entry.loss.empty()};
}

bool clearlyDiffer(Seconds a, Seconds b, double spreadA, double spreadB) {
  double slack = conflictSlack * std::max(a, b).value();
  return std::abs((a - b).value()) > (a * spreadA + b * spreadB).value() + slack;
}

bool isOff(Seconds measured, Seconds fitted, double spread) {
  double allowed = std::max(2 * spread, outlierSlack) * std::max(measured, fitted).value();
  return std::abs((measured - fitted).value()) > allowed;
}

/// How far the passes of an inner point are off the line between its neighbours, at most: the
/// absolute logarithm of their ratio. None of fewer than three points, and where a pass takes no
/// time.
std::optional<double> residualOf(const std::vector<ProfilePoint> &points) {
  std::optional<double> result;
  for (size_t i = 1; i + 1 < points.size(); ++i) {
    auto both = [&](size_t at) { return (points[at].forward + points[at].backward).value(); };
    auto batch = [&](size_t at) { return double(points[at].batch.value()); };
    double part = (batch(i) - batch(i - 1)) / (batch(i + 1) - batch(i - 1));
    double line = both(i - 1) + part * (both(i + 1) - both(i - 1));
    if (line > 0 && both(i) > 0)
      result = std::max(result.value_or(0), std::abs(std::log(line / both(i))));
  }
  return result;
}

struct SeriesName {
  StringRef layer; // or signature
  int degree;
  StringRef device;
};

/// Adds the outliers among the points of one series.
void addOutliers(const SeriesName &name, const ProfileSeries &series,
                 std::vector<ProfileWarning> &warnings) {
  for (size_t i = 0; i < series.all().size(); ++i) {
    const ProfilePoint &point = series.all()[i];
    Seconds forward = series.forwardFit().fitted(i), backward = series.backwardFit().fitted(i);
    bool first = isOff(point.forward, forward, point.spread);
    if (point.calibrated || (!first && !isOff(point.backward, backward, point.spread)))
      continue;
    Seconds found = first ? point.forward : point.backward, fitted = first ? forward : backward;
    warnings.push_back(
        {Diag::ProfileOutlier, point.place,
         formatv("the {0} pass of '{1}'{2} on '{3}' at batch {4} takes {5}, where the other "
                 "batches say {6}",
                 first ? "forward" : "backward", shortened(name.layer, shownName),
                 degreeText(name.degree), name.device, std::to_string(point.batch.value()),
                 inMilliseconds(found), inMilliseconds(fitted))
             .str()});
  }
}
} // namespace

std::string inMilliseconds(Seconds time) {
  std::string text;
  raw_string_ostream(text) << format("%.4g ms", time.value() * 1e3);
  return text;
}

bool isDate(StringRef text) {
  StringRef day = text.take_front(10);
  for (size_t i = 0; i < day.size(); ++i)
    if (i == 4 || i == 7 ? day[i] != '-' : !isDigit(day[i]))
      return false;
  return day.size() == 10 && (text.size() == 10 || text[10] == 'T');
}

bool clearlyDiffer(const ProfilePoint &a, const ProfilePoint &b) {
  if (a.calibrated || b.calibrated)
    return false;
  return clearlyDiffer(a.forward, b.forward, a.spread, b.spread) ||
         clearlyDiffer(a.backward, b.backward, a.spread, b.spread);
}

void ProfileSeries::settle(const std::vector<std::string> &dates,
                           function_ref<void(const ProfilePoint &, const ProfilePoint &)> lost) {
  points.insert(points.end(), std::make_move_iterator(pending.begin()),
                std::make_move_iterator(pending.end()));
  pending = {};
  std::stable_sort(points.begin(), points.end(), [&](const ProfilePoint &a, const ProfilePoint &b) {
    return std::tie(a.batch, dates[a.place.file], a.place) <
           std::tie(b.batch, dates[b.place.file], b.place);
  });
  std::vector<ProfilePoint> kept;
  for (size_t i = 0; i < points.size(); ++i)
    if (i + 1 == points.size() || points[i].batch != points[i + 1].batch)
      kept.push_back(points[i]);
  auto stays = kept.begin();
  for (const ProfilePoint &point : points) {
    while (stays->batch < point.batch)
      ++stays;
    if (point.place != stays->place)
      lost(point, *stays);
  }
  points = std::move(kept);
  BatchFit::Points forwards, backwards;
  worst = Provenance::Interpolated;
  for (const ProfilePoint &point : points) {
    forwards.emplace_back(point.batch, point.forward);
    backwards.emplace_back(point.batch, point.backward);
    worst = std::max(worst, point.provenance);
  }
  forward = BatchFit(forwards);
  backward = BatchFit(backwards);
  residual = residualOf(points);
}

LayerCost ProfileSeries::at(Samples batch) const {
  assert(!points.empty() && batch.value() >= 1);
  auto above =
      std::upper_bound(points.begin(), points.end(), batch,
                       [](Samples b, const ProfilePoint &point) { return b < point.batch; });
  const ProfilePoint &below = above == points.begin() ? points.front() : *std::prev(above);
  Seconds update = below.update.value_or(Seconds(0));
  if (below.batch == batch)
    return {below.forward,    below.backward,   update,
            below.provenance, below.accumulate, halfWidthOf95(below.spread)};
  bool isInside = above != points.begin() && above != points.end();
  return {forward.at(batch),
          backward.at(batch),
          update,
          worst,
          below.accumulate,
          halfWidthBetween(below, isInside)};
}

double ProfileSeries::halfWidthBetween(const ProfilePoint &below, bool isInside) const {
  double usual = usualHalfWidth(worst);
  if (worst != Provenance::Interpolated)
    return usual;
  double fitted = residual && isInside ? *residual : std::max(usual, residual.value_or(0));
  return std::max(fitted, halfWidthOf95(below.spread));
}

bool ProfileSeries::falls() const {
  for (size_t i = 1; i < points.size(); ++i) {
    const ProfilePoint &a = points[i - 1], &b = points[i];
    if (b.forward < a.forward || b.backward < a.backward ||
        b.update.value_or(Seconds(0)) < a.update.value_or(Seconds(0)))
      return true;
  }
  return false;
}

ProfileSeries &ProfileDatabase::seriesOf(const ProfileEntry &entry, StringRef model) {
  Layers &layers = devices[entry.deviceType][entry.shardDegree];
  return entry.layer.empty() ? layers.bySignature[entry.signature]
                             : layers.byModel[model][entry.layer];
}

std::vector<ProfileWarning> ProfileDatabase::add(const Profile &profile, StringRef path) {
  unsigned file = paths.size();
  paths.push_back(path.str());
  hashes.push_back(profile.fingerprint);
  dates.push_back(isDate(profile.date) ? profile.date : "");
  SetVector<ProfileSeries *> touched; // the maps keep their values in place
  for (const auto &indexed : enumerate(profile.entries)) {
    ProfileSeries &series = seriesOf(indexed.value(), profile.model);
    series.add(pointOf(indexed.value(), {file, unsigned(indexed.index())}));
    touched.insert(&series);
  }
  std::vector<ProfileWarning> warnings;
  for (ProfileSeries *series : touched)
    series->settle(dates, [&](const ProfilePoint &loser, const ProfilePoint &winner) {
      if (!clearlyDiffer(loser, winner))
        return;
      // One of the two is in this file: it says what both are of.
      const ProfilePoint &here = loser.place.file == file ? loser : winner;
      const ProfileEntry &entry = profile.entries[here.place.entry];
      warnings.push_back(
          {Diag::ProfileConflict, loser.place,
           formatv("'{0}'{9} on '{1}' at batch {2} takes {3} and {4} (forward, backward), but {5} "
                   "and {6} in entries[{7}] of {8}, which counts: beyond both spreads",
                   shortened(entry.name(), shownName), entry.deviceType,
                   std::to_string(entry.batch.value()), inMilliseconds(loser.forward),
                   inMilliseconds(loser.backward), inMilliseconds(winner.forward),
                   inMilliseconds(winner.backward), std::to_string(winner.place.entry),
                   paths[winner.place.file], degreeText(entry.shardDegree))
               .str()});
    });
  for (const LinkMeasurement &link : profile.links)
    links[link.name] = {.name = link.name,
                        .bandwidth = link.bandwidth,
                        .latency = link.latency,
                        .source = ("measured: " + path).str(),
                        .allReduce = link.allReduce,
                        .reduceScatter = link.reduceScatter,
                        .allGather = link.allGather,
                        .provenance = provenanceOf(link),
                        .lookup = link.lookup,
                        .overlapLoss = link.overlapLoss};
  for (const MemoryMeasurement &memory : profile.memory)
    overheads[memory.deviceType] = {memory.constant, memory.factor, memory.underWay,
                                    ("measured: " + sys::path::filename(path)).str(),
                                    Provenance::Measured};
  append_range(iterationRatios, profile.iterations);
  for (const MeasuredLayer &layer : profile.layers)
    workBySignature[layer.signature] = layer.work;
  return warnings;
}

std::vector<ProfileWarning> ProfileDatabase::outliers() const {
  std::vector<ProfileWarning> warnings;
  for (const auto &device : devices)
    for (const auto &[degree, layers] : device.second) {
      auto add = [&, degree = degree](const StringMapEntry<ProfileSeries> &series) {
        addOutliers({series.first(), degree, device.first()}, series.second, warnings);
      };
      for_each(layers.bySignature, add);
      for (const auto &model : layers.byModel)
        for_each(model.second, add);
    }
  llvm::sort(warnings,
             [](const ProfileWarning &a, const ProfileWarning &b) { return a.place < b.place; });
  return warnings;
}

void ProfileDatabase::applyLinks(Cluster &cluster) const {
  for (Link *used : linksOf(cluster)) {
    auto measured = links.find(used->name);
    if (used->name.empty() || measured == links.end())
      continue;
    Location place = used->location;
    *used = measured->second;
    used->location = place;
  }
}

void ProfileDatabase::applyMemory(Cluster &cluster) const {
  for (DeviceType &type : cluster.types)
    for (StringRef name : {StringRef(type.catalogue), StringRef(type.stated())})
      if (auto measured = overheads.find(name); measured != overheads.end())
        type.overhead = measured->second;
}

const IterationRatio *ProfileDatabase::iterations(const DeviceType &device,
                                                  Precision precision) const {
  for (StringRef name : {StringRef(device.stated()), StringRef(device.catalogue)})
    for (const IterationRatio &each : reverse(iterationRatios))
      if (!name.empty() && each.deviceType == name && each.precision == precision)
        return &each;
  return nullptr;
}

const ProfileSeries *ProfileDatabase::findName(const Layers &layers, StringRef layer,
                                               StringRef model) {
  for (StringRef name : {model, StringRef()}) {
    auto named = layers.byModel.find(name);
    if (named == layers.byModel.end())
      continue;
    if (auto series = named->second.find(layer); series != named->second.end())
      return &series->second;
  }
  return nullptr;
}

const ProfileSeries *ProfileDatabase::find(const Layers &layers, const Layer &layer,
                                           StringRef model) {
  if (const ProfileSeries *series = findName(layers, layer.name, model))
    return series;
  auto series = layers.bySignature.find(layer.signature);
  return series == layers.bySignature.end() ? nullptr : &series->second;
}

const ProfileSeries *ProfileDatabase::find(const Device &device, const Layer &layer,
                                           StringRef model) {
  if (auto own = device.find(layer.shardDegree); own != device.end())
    if (const ProfileSeries *series = find(own->second, layer, model))
      return series;
  if (auto whole = device.find(1); whole != device.end() && layer.shardDegree > 1) {
    const std::string older = layer.name + "/" + std::to_string(layer.shardDegree);
    if (const ProfileSeries *series = findName(whole->second, older, model))
      return series;
  }
  for (const auto &[degree, layers] : device)
    if (auto series = layers.bySignature.find(layer.signature); series != layers.bySignature.end())
      return &series->second;
  return nullptr;
}

const ProfileSeries *ProfileDatabase::find(const Layer &layer, StringRef model,
                                           const DeviceType &device) const {
  for (StringRef name : {StringRef(device.stated()), StringRef(device.catalogue)}) {
    auto entry = devices.find(name);
    if (name.empty() || entry == devices.end())
      continue;
    if (const ProfileSeries *series = find(entry->second, layer, model))
      return series;
  }
  return nullptr;
}

} // namespace heterplan
