#include "search/problem/MicroBatchCounts.h"

#include "ir/MicroBatches.h"

#include <algorithm>

namespace heterplan {

namespace {
constexpr int mostSteadyMicroBatches = 256;
} // namespace

int steadyMicroBatches(const Problem &problem) {
  int64_t batch = problem.request.globalBatch.value(), least = 1;
  for (int type = 0; type < static_cast<int>(problem.cluster.types.size()); ++type)
    least = std::max<int64_t>(least, problem.cluster.deviceCount(type));
  int64_t smallest = (batch + mostSteadyMicroBatches - 1) / mostSteadyMicroBatches;
  least = std::min(batch, std::max(least, smallest));
  auto countFor = [&](int64_t size) { return (batch + size - 1) / size; };
  int64_t best = least;
  for (int64_t size = least; size < 2 * least && size <= batch; ++size)
    if (size * countFor(size) < best * countFor(best))
      best = size;
  return static_cast<int>(countFor(best));
}

std::vector<int> usefulMicroBatches(Samples batch) {
  std::vector<int> counts;
  int64_t all = batch.value();
  for (int64_t size = all; size >= 1;) {
    int64_t count = (all + size - 1) / size;
    counts.push_back(static_cast<int>(count));
    size = (all + count - 1) / count - 1; // the largest that needs more
  }
  return counts;
}

std::vector<int> microBatchChoices(Samples batch, size_t most) {
  std::vector<int> counts = usefulMicroBatches(batch);
  if (counts.size() <= most)
    return counts;
  auto filled = [&](int count) { return MicroBatches{batch, count}.fullSize() * count; };
  std::vector<int> chosen;
  for (size_t i = 0; i < counts.size();) {
    int64_t first = counts[i];
    int best = counts[i];
    for (; i < counts.size() && counts[i] < 2 * first; ++i)
      if (filled(counts[i]) < filled(best))
        best = counts[i];
    chosen.push_back(best);
  }
  if (chosen.back() != counts.back())
    chosen.push_back(counts.back());
  return chosen;
}

} // namespace heterplan
