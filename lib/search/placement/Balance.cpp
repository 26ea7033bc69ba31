#include "search/placement/Balance.h"

#include <algorithm>
#include <limits>

namespace heterplan {

namespace {
/// The most samples that one device of `deviceClass` finishes within `limit`; 0 if not even one.
int64_t samplesWithin(const EqualDevices &deviceClass, double limit, int64_t samples) {
  int64_t low = 0, high = std::min(deviceClass.mostSamples, samples);
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (deviceClass.time(middle) <= limit)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Whether all classes together finish `samples` within `limit`, each device at least one.
bool enough(const std::vector<EqualDevices> &classes, double limit, int64_t samples) {
  int64_t total = 0;
  for (const EqualDevices &deviceClass : classes) {
    int64_t share = samplesWithin(deviceClass, limit, samples);
    if (share == 0)
      return false;
    total += share * deviceClass.count;
  }
  return total >= samples;
}

/// The least time that is some class's time at some share and is enough; infinite if none is.
double leastTime(const std::vector<EqualDevices> &classes, int64_t samples) {
  double best = std::numeric_limits<double>::infinity();
  for (const EqualDevices &deviceClass : classes) {
    int64_t low = 1, high = std::min(deviceClass.mostSamples, samples);
    if (high < 1 || !enough(classes, deviceClass.time(high), samples))
      continue;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (enough(classes, deviceClass.time(middle), samples))
        high = middle;
      else
        low = middle + 1;
    }
    best = std::min(best, deviceClass.time(low));
  }
  return best;
}
/// The class whose devices take longest and can give a sample away.
size_t slowestClass(const std::vector<EqualDevices> &classes,
                    const std::vector<std::vector<int64_t>> &shares) {
  size_t slowest = classes.size();
  double slowestTime = -1;
  for (size_t i = 0; i < classes.size(); ++i) {
    int64_t share = shares[i].front();
    if (share > 1 && classes[i].time(share) > slowestTime) {
      slowest = i;
      slowestTime = classes[i].time(share);
    }
  }
  return slowest;
}

/// Lowers shares until `surplus` samples are gone: from the slowest class, in turn within it.
void takeBack(const std::vector<EqualDevices> &classes, std::vector<std::vector<int64_t>> &shares,
              int64_t devices, int64_t surplus) {
  while (surplus > 0) {
    std::vector<int64_t> &chosen = shares[slowestClass(classes, shares)];
    int64_t largest = chosen.front();
    int64_t step = std::min(largest - 1, std::max<int64_t>(1, surplus / (2 * devices)));
    for (size_t device = chosen.size(); device-- > 0 && surplus > 0;)
      if (chosen[device] == largest) {
        int64_t taken = std::min(step, surplus);
        chosen[device] -= taken;
        surplus -= taken;
      }
    std::sort(chosen.begin(), chosen.end(), std::greater<>());
  }
}
} // namespace

std::vector<std::vector<int64_t>> balance(const std::vector<EqualDevices> &classes,
                                          int64_t samples) {
  int64_t devices = 0;
  for (const EqualDevices &deviceClass : classes)
    devices += deviceClass.count;
  if (samples < devices)
    return {};
  double time = leastTime(classes, samples);
  if (time == std::numeric_limits<double>::infinity())
    return {};
  std::vector<std::vector<int64_t>> shares;
  int64_t surplus = -samples;
  for (const EqualDevices &deviceClass : classes) {
    shares.emplace_back(deviceClass.count, samplesWithin(deviceClass, time, samples));
    surplus += shares.back().front() * deviceClass.count;
  }
  takeBack(classes, shares, devices, surplus);
  return shares;
}

} // namespace heterplan
