// Runs: stages as an agent chooses them, some blocks of layers on one device type. A RunTable knows
// how many devices each run needs to keep within a limit on the bottleneck stage time, and the
// least that the blocks behind a position cost: the bounds by which actions are masked.
#pragma once

#include "search/provision/TypeAssignment.h"

#include <vector>

namespace heterplan {

struct Run {
  int begin = 0, end = 0; // blocks
  int type = 0;
  bool operator==(const Run &) const = default;
};

/// The start of a rollout: a number of micro-batches, and a limit on stage times in seconds.
struct Start {
  int choice = 0; // index into SearchSpace::microBatches
  double limit = 0;
};

class RunTable {
public:
  /// Both outlive the table.
  RunTable(Evaluator &evaluator, const AssignmentSpace &assignments, Start start);

  const Start start;
  const int blocks, types;

  /// Fewest devices of `type` for blocks [begin, end) within the limit; 0: no number is enough.
  int count(int begin, int end, int type) const {
    return end <= farthest(begin, type) ? entries[indexOf(begin, end, type)].count : 0;
  }
  /// The weight of a device of `type`: its price if money matters, and a Lagrange multiplier for
  /// the limit on devices.
  double weight(int type) const { return weights[size_t(type)]; }
  double multiplier(int type) const { return multipliers[size_t(type)]; }
  /// Least weight of runs that cover the blocks from `begin` on, behind a run on type `before`
  /// where one is given; infinite where none do.
  double toGo(int begin) const { return least[size_t(begin)].weight; }
  double toGo(int begin, int before) const {
    const Least &of = least[size_t(begin)];
    return merges && of.type == before ? of.otherwise : of.weight;
  }
  double weightThrough(const Run &run) const { return cost(run) + toGo(run.end, run.type); }
  /// The weight of the devices of `run`; 0 where no number of devices is enough. If an iteration is
  /// timed by the sum of the stages, the seconds of the run with the number of devices for which
  /// both together are least.
  double cost(const Run &run) const {
    if (run.end > farthest(run.begin, run.type))
      return 0;
    size_t index = indexOf(run.begin, run.end, run.type);
    return countsTimes ? timed[index].cost : weight(run.type) * entries[index].count;
  }
  /// No longer run is within the limit.
  int farthest(int begin, int type) const { return ends[pairIndex(begin, type)]; }
  /// The cheapest run and what is behind it, devices that are left not counted; its end is `begin`
  /// where there is none.
  Run cheapest(int begin, int type) const {
    return {begin, cheapestEnds[pairIndex(begin, type)], type};
  }
  /// Runs that it has.
  size_t size() const { return entries.size(); }
  bool isFeasible() const { return toGo(0) < infinity(); }

  /// Lower bound on price · iteration, in dollars per hour · seconds, of `run` alone in any
  /// placement whose stages are within the limit, and of all that is behind a position. 0 where
  /// money does not matter.
  double leastPaid(const Run &run) const {
    return run.end <= farthest(run.begin, run.type)
               ? double(entries[indexOf(run.begin, run.end, run.type)].paid)
               : 0;
  }
  double leastPaidBehind(int begin) const { return leastPaidFrom[size_t(begin)]; }

private:
  struct Entry {
    int count = 0;  // the fewest devices
    float paid = 0; // least payment
  };
  /// A number of devices with the seconds that a run then adds to an iteration.
  struct Sizing {
    int count;
    double seconds;
  };
  /// A run whose cost contains its seconds: the number of devices with the least cost.
  struct TimedEntry {
    int chosen = 0;
    double cost = 0;
    size_t firstSizing = 0, sizings = 0;
  };
  size_t pairIndex(int begin, int type) const {
    return size_t(type) * size_t(blocks) + size_t(begin);
  }
  /// The entry of a run that ends at most at `farthest`.
  size_t indexOf(int begin, int end, int type) const {
    return firsts[pairIndex(begin, type)] + size_t(end - begin - 1);
  }
  /// The first entry behind those of `type`.
  size_t endOf(int type) const {
    return type + 1 < types ? firsts[pairIndex(0, type + 1)] : entries.size();
  }
  /// The longest run from a position that one device is known to hold, and whether it is the
  /// longest that it holds.
  struct Held {
    int end = 0;
    bool isLongest = false;
  };
  static double infinity();
  void fill(int type);
  void fill(int begin, int type, Held &held);
  bool isHeld(const Run &run, Held &held) const;
  double paymentOf(const Run &run) const;
  void listSizings(const Run &run, Entry &entry, TimedEntry &of);
  void choose(TimedEntry &entry, int type) const;
  void countDeviceSeconds();
  void solve();
  std::vector<int> use() const;
  void setMultipliers();
  void boundPayments();

  Evaluator &evaluator;
  const AssignmentSpace &assignments;
  const bool costMatters;
  const bool merges;      // neighbours are on different types
  const bool countsTimes; // whether costs of runs contain their seconds
  const int microBatches;
  std::vector<Entry> entries;    // of each type and beginning, by end
  std::vector<TimedEntry> timed; // the same runs; empty unless `countsTimes`
  std::vector<size_t> firsts;    // of the entries of a pair
  std::vector<Sizing> sizings;
  std::vector<int> ends, cheapestEnds;
  std::vector<double> weights, multipliers;
  /// From a position on: the least weight, the type of its first run, and the least weight with
  /// another first type.
  struct Least {
    double weight, otherwise;
    int type = -1;
  };
  std::vector<Least> least;
  std::vector<double> leastPaidFrom;
  /// Without fitted sizes: device-seconds of each type for the blocks before a position.
  std::vector<std::vector<double>> deviceSeconds;
};

} // namespace heterplan
