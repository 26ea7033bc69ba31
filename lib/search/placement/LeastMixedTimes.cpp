#include "search/placement/LeastMixedTimes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
/// Larger micro-batches have too many shares to ask for.
constexpr int64_t mostSamples = 512;

bool isMixed(const DeviceGroup &group) { return group.counts.size() > 1; }
} // namespace

LeastMixedTimes::LeastMixedTimes(StageEvaluator &stages, const SearchSpace &space, int microBatches)
    : batch(stages.fullSize(microBatches)) {
  bool anyMixed =
      any_of(space.options, [](const GroupOption &option) { return isMixed(option.group); });
  if (!anyMixed || batch > mostSamples)
    return;
  const size_t blocks = space.positions.size() - 1;
  before.assign(space.available.size(), std::vector<double>(blocks + 1, 0));
  for (size_t type = 0; type < space.available.size(); ++type) {
    if (space.available[type] == 0)
      continue;
    std::vector<double> least(blocks, std::numeric_limits<double>::infinity()); // of a sample
    for (int64_t samples = 1; samples <= batch; ++samples) {
      const LayerTimes &times = stages.timesOf(int(type), samples, microBatches);
      for (size_t block = 0; block < blocks; ++block) {
        LayerRange layers{space.positions[block], space.positions[block + 1]};
        bool known = times.known(layers);
        double both = known ? (times.forward(layers) + times.backward(layers)).value() : 0;
        least[block] = std::min(least[block], both / double(samples));
      }
    }
    for (size_t block = 0; block < blocks; ++block)
      before[type][block + 1] = before[type][block] + least[block];
  }
}

double LeastMixedTimes::seconds(const DeviceGroup &group, int begin, int end) const {
  if (!isMixed(group) || before.empty())
    return 0;
  double samplesPerSecond = 0;
  for (auto [type, count] : group.counts)
    samplesPerSecond += count / (before[type][end] - before[type][begin]);
  return double(batch) / samplesPerSecond;
}

} // namespace heterplan
