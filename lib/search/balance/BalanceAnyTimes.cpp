// Shares of a micro-batch where devices may take less time for more samples, as measured times may.
#include "search/balance/Balance.h"

#include <algorithm>
#include <limits>

namespace heterplan {

namespace {
/// The time of the table below grows with the square of the samples.
constexpr int64_t mostSamplesOfTable = 512;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Time of the slowest device of a class that has so many samples; infinite if they do not fit.
double timeOf(const EqualDevices &devices, int64_t samples) {
  const int64_t least = samples / devices.count;
  const int64_t most = least + (samples % devices.count > 0);
  if (least < devices.leastSamples || most > devices.mostSamples)
    return infinity;
  auto time = [&](int64_t share) { return share > 0 ? devices.time(share) : 0; };
  return std::max(time(least), time(most));
}

/// For each class and number of samples, the least time in which the class and those behind it can
/// take them all.
class LeastTimes {
public:
  LeastTimes(const std::vector<EqualDevices> &classes, int64_t samples)
      : samples(samples), own(classes.size()), rest(classes.size() + 1) {
    rest.back().assign(samples + 1, infinity);
    rest.back().front() = 0;
    for (size_t i = classes.size(); i-- > 0;) {
      for (int64_t share = 0; share <= samples; ++share)
        own[i].push_back(timeOf(classes[i], share));
      addClass(i);
    }
  }

  double least() const { return rest.front()[samples]; }

  /// The samples of each class in the least time, fewest on the first classes.
  std::vector<int64_t> samplesByClass() const {
    std::vector<int64_t> found;
    int64_t left = samples;
    for (size_t i = 0; i < own.size(); ++i) {
      int64_t share = 0;
      while (std::max(own[i][share], rest[i + 1][left - share]) > least())
        ++share;
      found.push_back(share);
      left -= share;
    }
    return found;
  }

private:
  void addClass(size_t i) {
    rest[i].assign(samples + 1, infinity);
    for (int64_t share = 0; share <= samples; ++share)
      for (int64_t other = 0; own[i][share] < infinity && share + other <= samples; ++other) {
        double &least = rest[i][share + other];
        least = std::min(least, std::max(own[i][share], rest[i + 1][other]));
      }
  }

  int64_t samples;
  std::vector<std::vector<double>> own, rest;
};

double slowest(const std::vector<EqualDevices> &classes,
               const std::vector<std::vector<int64_t>> &shares) {
  double most = 0;
  for (size_t i = 0; i < classes.size(); ++i)
    for (int64_t share : {shares[i].front(), shares[i].back()})
      most = std::max(most, share > 0 ? classes[i].time(share) : 0);
  return most;
}
} // namespace

std::vector<std::vector<int64_t>> balanceAnyTimes(const std::vector<EqualDevices> &classes,
                                                  int64_t samples) {
  std::vector<std::vector<int64_t>> shares = balanceOneByOne(classes, samples);
  if (shares.empty() || samples > mostSamplesOfTable)
    return shares;
  const LeastTimes times(classes, samples);
  if (times.least() >= slowest(classes, shares))
    return shares;
  const std::vector<int64_t> found = times.samplesByClass();
  for (size_t i = 0; i < classes.size(); ++i)
    shares[i] = evenShares(found[i], classes[i].count);
  return shares;
}

} // namespace heterplan
