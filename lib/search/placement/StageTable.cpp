#include "search/placement/StageTable.h"

#include <algorithm>

namespace heterplan {

StageTable::StageTable(Evaluator &evaluator, int microBatches)
    : microBatches(microBatches),
      batch(evaluator.problem.request.globalBatch.value() / microBatches), evaluator(evaluator),
      options(evaluator.space.options.size()) {
  const std::vector<int> &positions = evaluator.space.positions;
  std::vector<GroupCosts> costs;
  for (const GroupOption &option : evaluator.space.options) {
    const Cluster &cluster = evaluator.problem.cluster;
    costs.push_back(groupCosts(cluster, option.group));
    auto least = [&](double bytes) {
      return leastTransferTime(cluster, option.group, Samples(1), Bytes(bytes), Bytes(0)).value();
    };
    // The least of several links is concave in the size: its start, and its slope far out.
    leastLatency.push_back(least(1e-9));
    leastPerSampleByte.push_back((least(2e18) - least(1e18)) / 1e18);
  }
  size_t count = positions.size();
  entries.resize(count * (count - 1) / 2 * options);
  for (size_t end = 1; end < count; ++end)
    for (size_t begin = 0; begin < end; ++begin)
      for (size_t option = 0; option < options; ++option)
        if (begin == 0 || !evaluator.space.options[option].wholeModelOnly)
          entries[(end * (end - 1) / 2 + begin) * options + option] = price(
              positions[begin], positions[end], evaluator.space.options[option], costs[option]);
}

StageEntry StageTable::price(int begin, int end, const GroupOption &option,
                             const GroupCosts &costs) {
  StageEntry entry;
  int64_t devices = option.group.size();
  if (devices > batch)
    return entry;
  auto [type, count] = option.group.counts.front();
  bool needsBalance =
      option.group.counts.size() > 1 || !evaluator.largestIsSlowest(begin, end, type, count, batch);
  if (needsBalance) {
    StageTimes times = evaluator.priceStage(begin, end, option.group, batch, true, 1).times;
    if (times.fits) { // the even split has the least largest share, hence the least lookups
      times.forward -= times.lookup;
      times.backward -= times.lookupGradient;
      times.largestShare = Samples((batch + devices - 1) / devices);
      evaluator.addLookups(begin, end, costs, times);
    }
    return {times.forward,
            times.backward,
            times.sync,
            (batch + devices - 1) / devices,
            times.fits ? microBatches : 0,
            /*estimate=*/true};
  }
  if (!evaluator.mayRun(begin, end, type))
    return entry;
  entry.share = (batch + devices - 1) / devices;
  if (evaluator.heterPs()) {
    StageTimes times =
        evaluator.uniformTimes(begin, end, type, static_cast<int>(devices), costs, batch, 1);
    entry.forward = times.forward;
    entry.backward = times.backward;
    entry.mostInFlight =
        evaluator.mostInFlight(begin, end, type, static_cast<int>(devices), entry.share);
    return entry;
  }
  const PrefixSums &sums = evaluator.pricesOf(type, entry.share, batch);
  StageTimes times;
  double summing = evaluator.sumsOf(begin, end, costs);
  times.forward = sums.forwardOf(begin, end) + summing;
  times.backward = sums.backwardOf(begin, end) + summing;
  times.largestShare = Samples(entry.share);
  evaluator.addLookups(begin, end, costs, times);
  entry.forward = times.forward;
  entry.backward = times.backward;
  entry.sync = costs.reduce.time(evaluator.denseParametersOf(begin, end)).value() +
               sums.updateOf(begin, end);
  entry.mostInFlight =
      evaluator.mostInFlight(begin, end, type, static_cast<int>(devices), entry.share);
  return entry;
}

double StageTable::leastReceive(int position, int option, int64_t share) const {
  const Cut &cut = evaluator.cuts[evaluator.space.positions[position]];
  double bytes = evaluator.fillWeight() * cut.forwardBytes.value(); // else part of the stage
  return bytes == 0 ? 0 : leastLatency[option] + bytes * double(share) * leastPerSampleByte[option];
}

double StageTable::leastReceiveGradient(int position, int option, int64_t share) const {
  const Cut &cut = evaluator.cuts[evaluator.space.positions[position]];
  double bytes = evaluator.fillWeight() * cut.backwardBytes.value();
  return bytes == 0 ? 0 : leastLatency[option] + bytes * double(share) * leastPerSampleByte[option];
}

} // namespace heterplan
