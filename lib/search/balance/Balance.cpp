#include "search/balance/Balance.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace heterplan {

namespace {
enum class Limit { Inclusive, Exclusive };

struct Point {
  int64_t at;
  double value;
};

/// The least number above `low.at` whose `value` reaches the target; that of `high` does, that of
/// `low` does not. Guessed on the line between the two, as values mostly lie near one, and each
/// fourth time in the middle.
template <typename Value, typename Reaches>
int64_t leastReaching(Point low, Point high, double target, Value value, Reaches reaches) {
  for (int step = 1; high.at - low.at > 1; ++step) {
    Point middle{low.at + (high.at - low.at) / 2, 0};
    if (step % 4 != 0 && low.value < high.value) {
      double part = (target - low.value) / (high.value - low.value);
      middle.at = low.at + static_cast<int64_t>(part * double(high.at - low.at));
      middle.at = std::clamp(middle.at, low.at + 1, high.at - 1);
    }
    middle.value = value(middle.at);
    (reaches(middle.value) ? high : low) = middle;
  }
  return high.at;
}

/// The samples that one device of `deviceClass` has done by `time`, or before it; never less than
/// it has to take.
int64_t samplesBy(const EqualDevices &deviceClass, double time, int64_t samples, Limit limit) {
  auto isLate = [&](double taken) {
    return limit == Limit::Inclusive ? taken > time : taken >= time;
  };
  Point least{deviceClass.leastSamples, 0}, most{std::min(deviceClass.mostSamples, samples), 0};
  if (most.at <= least.at)
    return least.at;
  most.value = deviceClass.time(most.at);
  if (!isLate(most.value))
    return most.at;
  least.value = deviceClass.time(least.at);
  if (isLate(least.value))
    return least.at;
  return leastReaching(least, most, time, deviceClass.time, isLate) - 1;
}

/// Samples that all classes together have completed by `time`.
int64_t doneBy(const std::vector<EqualDevices> &classes, double time, int64_t samples) {
  int64_t total = 0;
  for (const EqualDevices &deviceClass : classes)
    total += samplesBy(deviceClass, time, samples, Limit::Inclusive) * deviceClass.count;
  return total;
}

/// When the last sample is done that some device need not take: the least time that is some class's
/// time at some share and is enough. Infinite if none is.
double lastTime(const std::vector<EqualDevices> &classes, int64_t samples) {
  double best = std::numeric_limits<double>::infinity();
  int64_t mustBeTaken = 0;
  for (const EqualDevices &deviceClass : classes)
    mustBeTaken += deviceClass.leastSamples * deviceClass.count;
  auto isEnough = [&](double done) { return done >= double(samples); };
  for (const EqualDevices &deviceClass : classes) {
    auto doneAt = [&](int64_t share) {
      return double(doneBy(classes, deviceClass.time(share), samples));
    };
    const int64_t least = deviceClass.leastSamples;
    Point high{samplesBy(deviceClass, best, samples, Limit::Exclusive), 0};
    if (high.at <= least || !isEnough(high.value = doneAt(high.at)))
      continue;
    const Point low{least, double(mustBeTaken)}; // at least so much is done by then
    best = deviceClass.time(leastReaching(low, high, double(samples), doneAt, isEnough));
  }
  return best;
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
    shares[i] = evenShares(before[i] * classes[i].count + more, classes[i].count);
    left -= more;
  }
  return shares;
}

/// The samples that devices have to take; none if they cannot.
std::optional<int64_t> leastOf(const std::vector<EqualDevices> &classes) {
  int64_t least = 0;
  for (const EqualDevices &deviceClass : classes) {
    if (deviceClass.leastSamples > deviceClass.mostSamples)
      return std::nullopt;
    least += deviceClass.leastSamples * deviceClass.count;
  }
  return least;
}

/// The devices of a class while they take samples one by one, evenly.
class Taking {
public:
  explicit Taking(const EqualDevices &devices)
      : devices(devices), held(devices.leastSamples), next(timeOfNext()) {}

  /// When a device is done with one sample more; infinite if none takes it.
  double nextTime() const { return next; }
  void take() {
    if (++withMore < devices.count)
      return;
    ++held;
    withMore = 0;
    next = timeOfNext();
  }
  /// Largest first.
  std::vector<int64_t> shares() const {
    std::vector<int64_t> shares(devices.count, held);
    std::fill_n(shares.begin(), withMore, held + 1);
    return shares;
  }

private:
  double timeOfNext() const {
    return held < devices.mostSamples ? devices.time(held + 1)
                                      : std::numeric_limits<double>::infinity();
  }

  const EqualDevices &devices;
  int64_t held; // of each device
  int withMore = 0;
  double next;
};
} // namespace

std::vector<int64_t> evenShares(int64_t samples, int devices) {
  std::vector<int64_t> shares(devices, samples / devices);
  std::fill_n(shares.begin(), samples % devices, samples / devices + 1);
  return shares;
}

std::vector<std::vector<int64_t>> balance(const std::vector<EqualDevices> &classes,
                                          int64_t samples) {
  const std::optional<int64_t> least = leastOf(classes);
  if (!least || samples < *least)
    return {};
  if (samples == *least)
    return sharesAt(classes, -1, samples);
  double time = lastTime(classes, samples);
  if (time == std::numeric_limits<double>::infinity())
    return {};
  return sharesAt(classes, time, samples);
}

std::vector<std::vector<int64_t>> balanceOneByOne(const std::vector<EqualDevices> &classes,
                                                  int64_t samples) {
  const std::optional<int64_t> least = leastOf(classes);
  if (!least || samples < *least)
    return {};
  std::vector<Taking> taking(classes.begin(), classes.end());
  for (int64_t left = samples - *least; left > 0; --left) {
    auto first =
        std::min_element(taking.rbegin(), taking.rend(), [](const Taking &a, const Taking &b) {
          return a.nextTime() < b.nextTime();
        });
    if (first == taking.rend() || first->nextTime() == std::numeric_limits<double>::infinity())
      return {};
    first->take();
  }
  std::vector<std::vector<int64_t>> shares;
  for (const Taking &each : taking)
    shares.push_back(each.shares());
  return shares;
}

} // namespace heterplan
