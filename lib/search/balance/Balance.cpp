#include "search/balance/Balance.h"

#include <algorithm>
#include <limits>

namespace heterplan {

namespace {
enum class Limit { Inclusive, Exclusive };

/// The samples that one device of `deviceClass` has done by `time`, or before it; never less than
/// it has to take.
int64_t samplesBy(const EqualDevices &deviceClass, double time, int64_t samples, Limit limit) {
  int64_t low = deviceClass.leastSamples, high = std::min(deviceClass.mostSamples, samples);
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    double taken = deviceClass.time(middle);
    if (limit == Limit::Inclusive ? taken <= time : taken < time)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Whether all classes together have done `samples` by `time`.
bool enough(const std::vector<EqualDevices> &classes, double time, int64_t samples) {
  int64_t total = 0;
  for (const EqualDevices &deviceClass : classes)
    total += samplesBy(deviceClass, time, samples, Limit::Inclusive) * deviceClass.count;
  return total >= samples;
}

/// When the last sample is done that some device need not take: the least time that is some class's
/// time at some share and is enough. Infinite if none is.
double lastTime(const std::vector<EqualDevices> &classes, int64_t samples) {
  double best = std::numeric_limits<double>::infinity();
  for (const EqualDevices &deviceClass : classes) {
    int64_t low = deviceClass.leastSamples + 1, high = std::min(deviceClass.mostSamples, samples);
    if (high < low || !enough(classes, deviceClass.time(high), samples))
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

/// Of `devices` that have `base` samples each, `more` in all, as even as they go.
std::vector<int64_t> sharesOf(int devices, int64_t base, int64_t more) {
  std::vector<int64_t> shares(devices, base + more / devices);
  for (int64_t i = 0; i < more % devices; ++i)
    ++shares[i];
  return shares;
}

/// Times that fall as samples grow, as measured ones may, give shares that sum up all the same.
std::vector<std::vector<int64_t>> sharesAt(const std::vector<EqualDevices> &classes, double time,
                                           int64_t samples) {
  std::vector<int64_t> before, by;
  int64_t left = samples;
  for (const EqualDevices &deviceClass : classes) {
    by.push_back(samplesBy(deviceClass, time, samples, Limit::Inclusive));
    before.push_back(std::min(by.back(), samplesBy(deviceClass, time, samples, Limit::Exclusive)));
    left -= before.back() * deviceClass.count;
  }
  for (size_t i = 0; i < classes.size() && left < 0; ++i) { // only where times fall
    int64_t back = std::min(before[i] - classes[i].leastSamples,
                            (classes[i].count - left - 1) / classes[i].count);
    before[i] -= back;
    left += back * classes[i].count;
  }
  std::vector<std::vector<int64_t>> shares(classes.size());
  for (size_t i = classes.size(); i-- > 0;) {
    int64_t room = by[i] - before[i];
    int64_t more = std::min(left, room * classes[i].count);
    shares[i] = sharesOf(classes[i].count, before[i], more);
    left -= more;
  }
  return shares;
}
} // namespace

std::vector<std::vector<int64_t>> balance(const std::vector<EqualDevices> &classes,
                                          int64_t samples) {
  int64_t least = 0;
  bool fits = true;
  for (const EqualDevices &deviceClass : classes) {
    least += deviceClass.leastSamples * deviceClass.count;
    fits &= deviceClass.leastSamples <= deviceClass.mostSamples;
  }
  if (!fits || samples < least)
    return {};
  if (samples == least)
    return sharesAt(classes, -1, samples);
  double time = lastTime(classes, samples);
  if (time == std::numeric_limits<double>::infinity())
    return {};
  return sharesAt(classes, time, samples);
}

} // namespace heterplan
