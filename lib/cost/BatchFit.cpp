#include "cost/BatchFit.h"

#include <algorithm>
#include <cassert>
#include <queue>

namespace heterplan {

namespace {
/// Growth of a time, as a share of that of the batch, up to which it counts as flat.
constexpr double flatGrowth = 0.25;

double number(Samples batch) { return static_cast<double>(batch.value()); }

/// The closest non-decreasing sequence in L1, by one pass with a heap ("slope trick"): the top of
/// the heap is the best last value so far.
void makeMonotone(BatchFit::Points &points) {
  std::priority_queue<Seconds> heap;
  std::vector<Seconds> best;
  for (const auto &[batch, time] : points) {
    heap.push(time);
    if (heap.top() > time) {
      heap.pop();
      heap.push(time);
    }
    best.push_back(heap.top());
  }
  Seconds next = best.back();
  for (size_t i = points.size(); i-- > 0;)
    points[i].second = next = std::min(next, best[i]);
}

/// The points that a line is fitted to: those above the floor, or the last two.
size_t firstAboveFloor(const BatchFit::Points &points, bool hasFloor) {
  Seconds floor = hasFloor ? points.front().second * (1 + flatGrowth) : Seconds(-1);
  size_t first = 0;
  while (first + 2 < points.size() && points[first].second <= floor)
    ++first;
  return first;
}
} // namespace

BatchFit::BatchFit(const Points &measured) : points(measured) {
  assert(!points.empty());
  makeMonotone(points);
  if (points.size() == 1)
    return;
  double growth = number(points[1].first - points[0].first) / number(points[0].first);
  hasFloor = points[1].second - points[0].second <= points[0].second * (flatGrowth * growth);
  fitLine();
}

/// Weighted least squares, about the weighted means so that large batches do not cancel. Times far
/// below the largest have a bounded weight.
void BatchFit::fitLine() {
  Seconds largest = points.back().second;
  double weights = 0, batches = 0, times = 0;
  auto weightOf = [&](Seconds time) {
    double relative = largest > Seconds(0) ? std::max(time / largest, 1e-6) : 1;
    return 1 / (relative * relative);
  };
  size_t first = firstAboveFloor(points, hasFloor);
  for (size_t i = first; i < points.size(); ++i) {
    double weight = weightOf(points[i].second);
    weights += weight;
    batches += weight * number(points[i].first);
    times += weight * points[i].second.value();
  }
  double meanBatch = batches / weights, meanTime = times / weights, spread = 0, together = 0;
  for (size_t i = first; i < points.size(); ++i) {
    double away = number(points[i].first) - meanBatch;
    spread += weightOf(points[i].second) * away * away;
    together += weightOf(points[i].second) * away * (points[i].second.value() - meanTime);
  }
  slope = std::max(0.0, together / spread);
  intercept = meanTime - slope * meanBatch;
}

Seconds BatchFit::line(Samples batch) const { return Seconds(slope * number(batch) + intercept); }

Seconds BatchFit::below(Samples batch) const {
  const auto &[first, time] = points.front();
  Seconds proportional = time * (number(batch) / number(first));
  return std::clamp(line(batch), hasFloor ? time : proportional, time);
}

Seconds BatchFit::at(Samples batch) const {
  auto next = std::lower_bound(points.begin(), points.end(), batch,
                               [](const auto &point, Samples b) { return point.first < b; });
  if (next != points.end() && next->first == batch)
    return next->second;
  if (points.size() == 1)
    return points.front().second * (number(batch) / number(points.front().first));
  if (next == points.begin())
    return below(batch);
  if (next == points.end())
    return std::max(line(batch), points.back().second);
  const auto &left = *std::prev(next);
  double share = number(batch - left.first) / number(next->first - left.first);
  return left.second + (next->second - left.second) * share;
}

} // namespace heterplan
