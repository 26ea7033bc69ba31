// The ways in which a tensor is made and used, for the search for an assignment: its states, the
// needs of its users, and the times from one to another.
#pragma once

#include "ir/sharding/ShardConversions.h"
#include "ir/sharding/ShardState.h"

#include <cstdint>
#include <vector>

namespace heterplan {

/// The uses of a tensor so far are how it was made and which of its needs are met. Each use that
/// occurs has a number, and its times are worked out once.
class TensorUses {
public:
  std::vector<ShardState> origins; // in which it may be made or stored
  std::vector<ShardNeed> needs;
  std::vector<int> lastSteps;                  // by need: the last step that has it
  std::vector<std::vector<double>> fromOrigin; // [origin][need], seconds
  std::vector<std::vector<double>> fromNeed;   // [need][need], seconds
  std::vector<double> stored;                  // by origin, seconds
  int lastUse = -1;                            // a step

  /// The index of a state, which is added if it is new.
  int origin(const ShardState &state);
  /// The index of a need, which is added if it is new, and which `step` has.
  int need(const ShardNeed &need, int step);

  // All origins and needs are known from here on.

  /// The number of the use with this origin and no need met.
  uint16_t made(int origin) { return numberOf({static_cast<uint16_t>(origin), 0}); }
  /// Meets a need: `use` becomes the number of the use with it. Returns the time that it takes:
  /// none if the need is met already, else that of the shortest way from the origin or from a need
  /// that is met.
  double meet(uint16_t &use, int need) {
    const Met next = known[use].met[need];
    if (!next.isKnown)
      return meetFirst(use, need);
    use = next.use;
    return next.time;
  }

  /// Prepares excess() for the needs of steps behind `step`. Uses that get a number later are not
  /// compared.
  void compareAfter(int step);
  /// How much longer these needs take at most with `use` than with `other`. Whichever needs are met
  /// before, each of them takes the same from these.
  double excess(uint16_t use, uint16_t other) {
    double &sum = excesses[use * compared + other];
    return sum == unknown ? sum = sumOfExcess(use, other) : sum;
  }

private:
  static constexpr double unknown = -1;
  struct Met {
    uint16_t use = 0;
    bool isKnown = false;
    double time = 0;
  };
  struct Use {
    uint16_t origin = 0;
    uint32_t needs = 0; // that are met
    bool operator==(const Use &) const = default;
  };
  struct Known {
    Use use;
    std::vector<Met> met; // by need
  };
  std::vector<Known> known; // by number
  std::vector<int> behind;  // needs that are compared
  size_t compared = 0;      // uses
  std::vector<double> excesses;

  uint16_t numberOf(const Use &use);
  double timeOf(const Use &use, int need) const;
  double meetFirst(uint16_t &use, int need);
  double sumOfExcess(uint16_t use, uint16_t other) const;
};

} // namespace heterplan
