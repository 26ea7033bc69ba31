// The devices of one type as a pool of which each stage of a burst plan takes the first few: which
// numbers of them a stage may have, which samples each device then holds, and what moves where the
// number changes.
#pragma once

#include "cost/Collectives.h"
#include "ir/Request.h"

#include <array>
#include <map>
#include <vector>

namespace heterplan {

/// Samples that leave one device, and that come to one, at most, where a stage on some devices is
/// followed by one on others.
struct MovedShares {
  Samples sent{}, received{};
};

/// Devices of the pool from the first on; those of a stage.
struct DeviceRun {
  int first = 0, width = 1;
  int end() const { return first + width; }
  bool operator==(const DeviceRun &) const = default;
};

class Pool {
public:
  /// The devices of `type`, as many as `most` at a time. `cluster` outlives this.
  Pool(const Cluster &cluster, int type, int most, Samples batch, Widths widths);

  int type() const { return deviceType; }
  /// Numbers of devices, ascending from 1: divisors of the batch, so that shares are equal, of
  /// which powers of two only unless any will do.
  const std::vector<int> &widths() const { return all; }
  /// Whether powers of two were left out because they do not divide the batch.
  bool leavesPowersOut() const { return leavesOut; }

  DeviceGroup group(int width) const { return {{{deviceType, width}}}; }
  Samples share(int width) const { return Samples(batch.value() / width); }
  /// The devices of the pool that hold the samples of a stage on `width` of them, from the first
  /// sample on. A device that joins takes its samples from one that has most: a stage on twice as
  /// many devices leaves every second half where it is.
  static std::vector<int> order(int width);
  /// Between two of `widths` from the first device on.
  const MovedShares &moved(int from, int to) const { return moves.at({from, to}).shares; }
  /// Between any runs whose widths are among `widths`.
  const MovedShares &moved(DeviceRun from, DeviceRun to) const;
  /// Samples of a stage on `own` that `device`, one of these, does not have of a stage on `other`.
  int64_t missing(DeviceRun own, DeviceRun other, int device) const;
  /// What a stage on `own` takes to receive over links to stages on other runs that take `times`:
  /// each device takes part in those over which some of its samples come.
  Seconds receiptTime(DeviceRun own, llvm::ArrayRef<std::pair<DeviceRun, Seconds>> times) const;
  /// Whether the devices of `run` lie in nodes as the first ones of the pool do.
  bool liesAsFirst(DeviceRun run) const;
  /// Where the time of a move comes from.
  Provenance provenance(int from, int to) const {
    return moves.at({from, to}).path.link.provenance;
  }
  /// Time to move the samples that change device: `perSample` bytes each, `fixed` to each device.
  Seconds moveTime(int from, int to, Bytes perSample, Bytes fixed) const;
  /// Likewise from one run to another, of which one holds the other.
  Seconds moveTime(DeviceRun from, DeviceRun to, Bytes perSample, Bytes fixed) const;

private:
  MovedShares countMoved(DeviceRun from, DeviceRun to) const;

  struct Move {
    MovedShares shares;
    TransferPath path;
  };
  const Cluster &cluster;
  int deviceType;
  Samples batch;
  std::vector<int> all;
  std::vector<std::vector<int64_t>> begins; // by width: the first sample of each device
  std::vector<DeviceRef> devices;
  mutable std::map<std::pair<int, int>, bool> placed; // by first device and width: liesAsFirst()
  mutable std::map<std::array<int, 4>, MovedShares> counted; // likewise, of two runs: moved()
  bool leavesOut = false;
  std::map<std::pair<int, int>, Move> moves; // by unequal widths
};

} // namespace heterplan
