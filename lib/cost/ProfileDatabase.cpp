#include "cost/ProfileDatabase.h"

#include <algorithm>
#include <cassert>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
using Times = Seconds ProfileEntry::*;

double samplesOf(const ProfileEntry &entry) { return static_cast<double>(entry.batch.value()); }

/// Seconds a sample of the line through two points; never below 0.
Seconds slopeOf(const ProfileEntry &left, const ProfileEntry &right, Times time) {
  Seconds rise = right.*time - left.*time;
  return std::max(rise / (samplesOf(right) - samplesOf(left)), Seconds(0));
}

/// The time between, below or beyond the measured points, of which `next` is the first above
/// `batch`.
Seconds estimate(const std::vector<ProfileEntry> &points, size_t next, double batch, Times time) {
  const ProfileEntry &first = points.front(), &last = points.back();
  if (next == 0 || points.size() == 1) {
    Seconds proportional = first.*time * (batch / samplesOf(first));
    if (points.size() == 1)
      return proportional;
    Seconds line = first.*time - slopeOf(first, points[1], time) * (samplesOf(first) - batch);
    return std::max(proportional, line);
  }
  if (next == points.size())
    return last.*time + slopeOf(points[points.size() - 2], last, time) * (batch - samplesOf(last));
  const ProfileEntry &left = points[next - 1], &right = points[next];
  double share = (batch - samplesOf(left)) / (samplesOf(right) - samplesOf(left));
  return left.*time + (right.*time - left.*time) * share;
}

bool sameTimes(const ProfileEntry &a, const ProfileEntry &b) {
  return a.forward == b.forward && a.backward == b.backward && a.update == b.update;
}
} // namespace

std::optional<ProfileEntry> ProfileSeries::add(const ProfileEntry &entry) {
  auto place = std::lower_bound(
      points.begin(), points.end(), entry,
      [](const ProfileEntry &a, const ProfileEntry &b) { return a.batch < b.batch; });
  if (place != points.end() && place->batch == entry.batch)
    return std::exchange(*place, entry);
  points.insert(place, entry);
  return std::nullopt;
}

LayerCost ProfileSeries::at(Samples batch) const {
  assert(!points.empty() && batch.value() >= 1);
  auto above =
      std::upper_bound(points.begin(), points.end(), batch,
                       [](Samples b, const ProfileEntry &point) { return b < point.batch; });
  const ProfileEntry &below = above == points.begin() ? points.front() : *std::prev(above);
  LayerCost cost{below.forward, below.backward, below.update.value_or(Seconds(0)),
                 Provenance::Measured};
  if (below.batch == batch)
    return cost;
  double samples = static_cast<double>(batch.value());
  size_t next = above - points.begin();
  cost.forward = estimate(points, next, samples, &ProfileEntry::forward);
  cost.backward = estimate(points, next, samples, &ProfileEntry::backward);
  cost.provenance = Provenance::Interpolated;
  return cost;
}

std::vector<std::string> ProfileDatabase::add(const Profile &profile, StringRef path) {
  std::vector<std::string> notes;
  for (const ProfileEntry &entry : profile.entries) {
    Device &device = devices[entry.deviceType];
    ProfileSeries &series = entry.layer.empty() ? device.bySignature[entry.signature]
                                                : device.byModel[profile.model][entry.layer];
    std::optional<ProfileEntry> earlier = series.add(entry);
    if (earlier && !sameTimes(*earlier, entry))
      notes.push_back((path + ": replaces an earlier time of '" +
                       (entry.layer.empty() ? entry.signature : entry.layer) + "' on '" +
                       entry.deviceType + "' at batch " + Twine(entry.batch.value()))
                          .str());
  }
  for (const LinkMeasurement &link : profile.links)
    links[link.name] = {link.name, link.bandwidth, link.latency, ("measured: " + path).str(), {}};
  paths.push_back(path.str());
  hashes.push_back(profile.fingerprint);
  return notes;
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

const ProfileSeries *ProfileDatabase::find(const Device &device, const Layer &layer,
                                           StringRef model) {
  for (StringRef name : {model, StringRef()}) {
    auto layers = device.byModel.find(name);
    if (layers == device.byModel.end())
      continue;
    if (auto series = layers->second.find(layer.name); series != layers->second.end())
      return &series->second;
  }
  auto series = device.bySignature.find(layer.signature);
  return series == device.bySignature.end() ? nullptr : &series->second;
}

const ProfileSeries *ProfileDatabase::find(const Layer &layer, StringRef model,
                                           const DeviceType &device) const {
  for (StringRef name : {StringRef(device.name), StringRef(device.catalogue)}) {
    auto entry = devices.find(name);
    if (name.empty() || entry == devices.end())
      continue;
    if (const ProfileSeries *series = find(entry->second, layer, model))
      return series;
  }
  return nullptr;
}

} // namespace heterplan
