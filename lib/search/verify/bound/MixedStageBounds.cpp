// The times of stages on several device types, which divide a micro-batch as they like.
#include "search/verify/bound/StageBounds.h"

#include "ir/AdmittedModes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

/// Shares of up to `batch` samples to look at, ascending, and one more behind them: all of them,
/// or, of many, some. Times do not fall then, so that a share takes at least what the one before it
/// does. Empty: they may fall, and there are too many.
std::vector<int64_t> StageBounds::sharesOf(int64_t batch) const {
  constexpr int64_t most = 1024, step = 128;
  std::vector<int64_t> shares;
  for (int64_t share = 1; share <= batch; share += batch > most ? 1 + share / step : 1)
    shares.push_back(share);
  shares.push_back(batch + 1);
  return batch > most && mayFall ? std::vector<int64_t>() : shares;
}

/// The least time of a sample on one device of `type`, whatever the share, summed up over the
/// layers before each cut.
const std::vector<double> &StageBounds::perSample(int type, int64_t batch, int microBatches) {
  std::vector<double> &before = samples[{type, batch}];
  if (!before.empty())
    return before;
  before.assign(size_t(cutCount()), 0);
  const std::vector<int64_t> shares = sharesOf(batch);
  for (int cut = 0; cut + 1 < cutCount(); ++cut) {
    double least = shares.empty() ? 0 : infinity;
    for (size_t i = 0; i + 1 < shares.size(); ++i)
      least = std::min(least, computingOf(timesOf(type, shares[i]), cut, cut + 1, microBatches) /
                                  double(shares[i + 1] - 1));
    before[size_t(cut) + 1] = before[size_t(cut)] + least;
  }
  return before;
}

/// A lower bound of mixedTime(): shares that need not be whole, and the best one for each block.
double StageBounds::quickMixedTime(const DeviceChoice &choice, int begin, int end,
                                   int microBatches) {
  const int64_t batch = batchOf(microBatches);
  double rate = 0; // samples per second
  for (auto [type, count] : choice.slots) {
    const std::vector<double> &before = perSample(type, batch, microBatches);
    if (!std::isfinite(before[size_t(end)]))
      return 0;
    rate += count / (before[size_t(end)] - before[size_t(begin)]);
  }
  return double(batch) / rate;
}

/// The least time of one micro-batch on devices of several types, for any shares: the largest share
/// that each device finishes in time, and has memory for, adds up to the micro-batch. 0 if there
/// are too many shares to look at.
double StageBounds::mixedTime(const DeviceChoice &choice, int begin, int end, int microBatches,
                              int inFlight) {
  const int64_t batch = batchOf(microBatches);
  const std::vector<int64_t> shares = sharesOf(batch);
  if (shares.empty())
    return 0;
  const std::vector<ExecutionMode> modes = admittedModes(plan, choice.most);
  std::vector<double> times;                           // that a share may take
  std::vector<std::pair<int, std::vector<double>>> by; // devices, and the times by share
  for (auto [type, count] : choice.slots) {
    std::vector<double> &own = by.emplace_back(count, std::vector<double>()).second;
    for (size_t i = 0; i + 1 < shares.size(); ++i) {
      const double share = double(shares[i]);
      const double time = computingOf(timesOf(type, shares[i]), begin, end, microBatches);
      const bool mayFit = any_of(modes, [&, type = type](const ExecutionMode &mode) {
        return fits(begin, end, type, choice.most, /*rowsAreEven=*/false, share, inFlight, mode);
      });
      if (!mayFit || !std::isfinite(time))
        break;
      own.push_back(time);
      times.push_back(time);
    }
    if (own.empty())
      return infinity;                    // every device has samples
    for (size_t i = own.size(); i-- > 1;) // times may fall with more samples
      own[i - 1] = std::min(own[i - 1], own[i]);
  }
  llvm::sort(times);
  auto suffices = [&](double time) {
    int64_t sum = 0;
    for (const auto &[devices, own] : by) {
      const size_t count = std::upper_bound(own.begin(), own.end(), time) - own.begin();
      sum += count ? devices * (shares[count] - 1) : 0;
    }
    return sum >= batch;
  };
  auto found = std::partition_point(times.begin(), times.end(),
                                    [&](double time) { return !suffices(time); });
  return found == times.end() ? infinity : *found;
}

} // namespace heterplan
