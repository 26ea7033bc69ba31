// The times of stages on several device types, which divide a micro-batch as they like.
#include "search/verify/bound/StageBounds.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tolerance = 1 + 1e-9; // of sums of doubles
} // namespace

/// Shares of up to `batch` samples to look at, ascending, and one more behind them: all of them,
/// or, of many, some. Times do not fall then, so that a share takes at least what the one before it
/// does. Empty: they may fall, and there are too many.
const std::vector<int64_t> &StageBounds::sharesOf(int64_t batch) {
  constexpr int64_t most = 1024, step = 128;
  auto [entry, isNew] = shareLists.try_emplace(batch);
  std::vector<int64_t> &shares = entry->second;
  if (!isNew || (batch > most && mayFall))
    return shares;
  for (int64_t share = 1; share <= batch; share += batch > most ? 1 + share / step : 1)
    shares.push_back(share);
  shares.push_back(batch + 1);
  return shares;
}

/// The least time of a sample on one device of `type`, whatever the share, summed up over the
/// layers before each cut.
const std::vector<double> &StageBounds::perSample(int type, int64_t batch, int microBatches) {
  std::vector<double> &before = samples[{type, batch}];
  if (!before.empty())
    return before;
  before.assign(size_t(cutCount()), 0);
  const std::vector<int64_t> &shares = sharesOf(batch);
  const std::vector<const Times *> &times = timesByShare(type, batch);
  for (int cut = 0; cut + 1 < cutCount(); ++cut) {
    double least = shares.empty() ? 0 : infinity;
    for (size_t i = 0; i + 1 < shares.size(); ++i)
      least = std::min(least, computingOf(*times[i], cut, cut + 1, microBatches) /
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

const std::vector<const StageBounds::Times *> &StageBounds::timesByShare(int type, int64_t batch) {
  std::vector<const Times *> &times = byShare[{type, batch}];
  if (times.empty()) {
    const std::vector<int64_t> &shares = sharesOf(batch);
    for (size_t i = 0; i + 1 < shares.size(); ++i)
      times.push_back(&timesOf(type, shares[i]));
  }
  return times;
}

/// The devices of one type in a mixed stage, and the shares that may fit there. Times do not fall
/// with the share, but for the rounding of sums, so that few of them have to be worked out.
struct StageBounds::SharesOnType {
  const StageBounds &bounds;
  const int devices, begin, end, microBatches;
  const std::vector<const Times *> &all; // by share
  size_t count = 0;                      // of shares that fit
  std::vector<double> least;             // where times may fall: of a share or a larger one

  double timeOf(size_t share) const {
    return least.empty() ? bounds.computingOf(*all[share], begin, end, microBatches) : least[share];
  }
  /// The number of shares with a property that larger ones lack first.
  template <typename Property> size_t countWith(Property has) const {
    size_t from = 0, to = count;
    while (from < to) {
      const size_t middle = (from + to) / 2;
      if (has(timeOf(middle)))
        from = middle + 1;
      else
        to = middle;
    }
    return from;
  }
  void findLeast() {
    std::vector<double> own;
    for (size_t share = 0; share < count; ++share)
      own.push_back(timeOf(share));
    for (size_t share = own.size(); share-- > 1;)
      own[share - 1] = std::min(own[share - 1], own[share]);
    least = std::move(own);
  }
};

/// The number of shares, the smallest ones, for which a device of `type` may have memory.
size_t StageBounds::fittingShares(const std::vector<int64_t> &shares, const DeviceChoice &choice,
                                  int type, int begin, int end, int inFlight) const {
  const std::vector<ExecutionMode> &all = modes.at(choice.most);
  auto fitsSomehow = [&](int64_t share) {
    return any_of(all, [&](const ExecutionMode &mode) {
      return fits(begin, end, type, choice.most, /*rowsAreEven=*/false, double(share), inFlight,
                  mode);
    });
  };
  return size_t(std::partition_point(shares.begin(), shares.end() - 1, fitsSomehow) -
                shares.begin());
}

/// The least time of one micro-batch on devices of several types, for any shares: the largest share
/// that each device finishes in time, and has memory for, adds up to the micro-batch. 0 if there
/// are too many shares to look at.
double StageBounds::mixedTime(const DeviceChoice &choice, int begin, int end, int microBatches,
                              int inFlight) {
  const int64_t batch = batchOf(microBatches);
  const std::vector<int64_t> &shares = sharesOf(batch);
  if (shares.empty())
    return 0;
  std::vector<SharesOnType> types;
  for (auto [type, devices] : choice.slots) {
    types.push_back({*this,
                     devices,
                     begin,
                     end,
                     microBatches,
                     timesByShare(type, batch),
                     fittingShares(shares, choice, type, begin, end, inFlight),
                     {}});
    SharesOnType &own = types.back();
    if (mayFall)
      own.findLeast();
    own.count = own.countWith([](double time) { return std::isfinite(time); });
    if (own.count == 0)
      return infinity; // every device has samples
  }
  auto suffices = [&](double time) { // with tolerance, so that rounding never makes it too late
    int64_t sum = 0;
    const auto isInTime = [most = time * tolerance](double other) { return other <= most; };
    for (const SharesOnType &each : types)
      if (const size_t count = each.countWith(isInTime))
        sum += each.devices * (shares[count] - 1);
    return sum >= batch;
  };
  double result = infinity;
  for (const SharesOnType &each : types) {
    const size_t fewer = each.countWith([&](double time) { return !suffices(time); });
    if (fewer < each.count)
      result = std::min(result, each.timeOf(fewer));
  }
  return result;
}

} // namespace heterplan
