// Devices as a pool of which each stage of a burst plan takes the first few: which numbers of them
// a stage may have, which samples each device then holds, and what moves where the number changes.
// The devices are of one type, or of several with the fastest type first and uneven shares.
#pragma once

#include "cost/BoundaryCost.h"
#include "ir/Request.h"

#include "llvm/ADT/STLExtras.h"

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

/// Devices of one type that stand one behind another in a pool.
struct PoolClass {
  int type = 0, count = 0;
};

/// Devices of a stage that have one type and as many samples.
struct PoolKind {
  int type = 0;
  int64_t samples = 0;
  bool operator==(const PoolKind &) const = default;
};

class Pool {
public:
  /// The samples of each device of some classes, which hold the batch together: by class, largest
  /// first, each at least 1. Empty where that is not known.
  using Divide = llvm::function_ref<std::vector<std::vector<int64_t>>(llvm::ArrayRef<PoolClass>,
                                                                      Samples batch)>;

  /// The devices of `type`, as many as `most` at a time. `cluster` outlives this.
  Pool(const Cluster &cluster, int type, int most, Samples batch, Widths widths);
  /// Makes the widths of `classes`, the fastest first; the first devices together cost at most
  /// `mostPrice`. Widths that `divide` does not know are omitted.
  Pool(const Cluster &cluster, std::vector<PoolClass> classes, Samples batch, Widths widths,
       DollarsPerHour mostPrice, Divide divide);

  /// The type of the fastest devices.
  int type() const { return types.front().type; }
  /// The fastest first.
  const std::vector<PoolClass> &classes() const { return types; }
  bool isMixed() const { return types.size() > 1; }
  /// Numbers of devices, ascending from 1. A pool of one type has the divisors of the batch, so
  /// that shares are equal; of these only the powers of two unless any will do. A pool of several
  /// types has all devices of the faster types and a power of two of the next, or, with few
  /// devices, any number. Therefore each width also exists with more devices.
  const std::vector<int> &widths() const { return all; }
  /// Whether powers of two were left out because they do not divide the batch.
  bool leavesPowersOut() const { return leavesOut; }
  /// Devices of several types of which any number will do, if it is asked for.
  static constexpr int mostOfAnyNumber = 64;

  const DeviceRef &device(int index) const { return devices[index]; }
  int typeOf(int device) const { return deviceTypes[device]; }
  const DeviceGroup &group(int width) const { return of(width).group; }
  /// The shares of a stage on `width` devices, as in BatchSplit::shares.
  llvm::ArrayRef<std::vector<int64_t>> shares(int width) const { return of(width).shares; }
  /// The largest one.
  Samples share(int width) const { return Samples(of(width).largest); }
  /// The kinds among the first `width` devices, and the kind of the `device`-th of them.
  llvm::ArrayRef<PoolKind> kinds(int width) const { return of(width).kinds; }
  PoolKind kindOf(int width, int device) const {
    return {deviceTypes[device], of(width).held[device]};
  }
  DollarsPerHour price(int width) const { return of(width).price; }
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
  /// The time of a stage on `own` to receive over links from stages on other runs, which take
  /// `times`. Each device takes part in the links over which some of its samples arrive.
  Seconds receiptTime(DeviceRun own, llvm::ArrayRef<std::pair<DeviceRun, Seconds>> times) const;
  /// Whether the devices of `run` lie in nodes as the first ones of the pool do.
  bool liesAsFirst(DeviceRun run) const;
  /// The origin of the time of a move.
  Provenance provenance(int from, int to) const {
    return moves.at({from, to}).path.link.provenance;
  }
  /// The cost of moving the samples that change device between a stage on `from` and the next one
  /// on `to`, of which one holds the other.
  BoundaryCost boundary(DeviceRun from, DeviceRun to, const MessageBytes &bytes) const;

private:
  /// The first devices of the pool, as many as a stage may have.
  struct Prefix {
    DeviceGroup group;
    std::vector<std::vector<int64_t>> shares; // by type of `group`; empty: all equal
    std::vector<int64_t> held, begins;        // by device: samples, and the first of them
    std::vector<PoolKind> kinds;
    int64_t largest = 0;
    DollarsPerHour price{};
  };
  struct Move {
    MovedShares shares;
    TransferPath path;
  };

  const Prefix &of(int width) const { return prefixes[width]; }
  std::vector<PoolClass> firstOf(int width) const;
  void addEqual(int width);
  void addUneven(int width, Divide divide);
  void add(int width, Prefix prefix);
  void fillMoves();
  MovedShares countMoved(DeviceRun from, DeviceRun to) const;

  const Cluster &cluster;
  const std::vector<PoolClass> types;
  const Samples batch;
  std::vector<int> all;
  std::vector<Prefix> prefixes; // by width; empty ones of other numbers
  std::vector<DeviceRef> devices;
  std::vector<int> deviceTypes;                       // likewise
  mutable std::map<std::pair<int, int>, bool> placed; // by first device and width: liesAsFirst()
  mutable std::map<std::array<int, 4>, MovedShares> counted; // likewise, of two runs: moved()
  bool leavesOut = false;
  std::map<std::pair<int, int>, Move> moves; // by unequal widths
};

} // namespace heterplan
