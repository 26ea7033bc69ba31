// The devices that stages have taken, encoded as a number. Recursions over the cuts that keep it
// respect the limits on devices exactly, and know the price per hour of a placement.
#pragma once

#include "search/problem/SearchSpace.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <vector>

namespace heterplan {

/// A state says for each type that at most so many slots were taken (GroupOption::slots); where
/// money matters, so many devices, so that what they cost follows: then placements may lack slots.
/// If the states would be too many, they distinguish only some amounts (DeviceLevels), rounded in
/// favour of the least that stages take.
class DeviceStates {
public:
  static constexpr size_t none = ~size_t(0);

  /// Makes the states of the types that have devices in `options`: by index into those of `space`
  /// the number of stages that have one. States that cost more than `mostPrice` dollars per hour
  /// cannot improve the incumbent. At most `mostStates` are made if `mayRound`.
  DeviceStates(const SearchSpace &space, const Problem &problem,
               const std::map<int, size_t> &options, double mostPrice, size_t mostStates = none);

  /// The number of states for all options that are not for one-stage plans only, whatever they
  /// cost.
  static size_t count(const SearchSpace &space);
  /// Whether states may tell apart some amounts only: of three types at most, as each of more would
  /// have too few levels; neither money nor limits that several types share follow from them.
  static bool mayRound(const SearchSpace &space, const Request &request);

  size_t size() const { return prices.size(); }
  /// Consecutive states behind a stage, and before it.
  struct Segment {
    size_t before, behind, count;
    /// Adds it to the last of `segments`, where it goes on with that.
    void appendTo(std::vector<Segment> &segments) const;
  };
  /// The states that may be reached by a stage on `option`, one of those above.
  llvm::ArrayRef<Segment> segments(int option) const { return stepsOf[option].all; }
  /// Rows are so many consecutive states that differ in one figure only.
  size_t rowLength() const { return digits.empty() ? 1 : digits.back().levels.size(); }
  /// The row before a stage on `option` that ends in `row`, or `none`; and, in both, the states
  /// before and behind it, whatever they cost.
  size_t rowBefore(int option, size_t row) const { return stepsOf[option].rows[row]; }
  llvm::ArrayRef<Segment> segmentsOfRow(int option) const { return stepsOf[option].inRow; }
  /// The state before a stage on `option` that ends in `state`, whatever it costs, or `none`.
  size_t before(size_t state, int option) const;
  /// Dollars per hour of all that a state says; infinite where a placement may not have so much.
  double price(size_t state) const { return prices[state]; }

private:
  /// One figure of a state: at most so many of a type.
  struct Digit {
    int type;
    std::vector<int> levels; // ascending
    size_t stride;

    size_t indexIn(size_t state) const { return state / stride % levels.size(); }
    int valueIn(size_t state) const { return levels[indexIn(state)]; }
    /// Before a stage that takes so many and leads to the level with an index, or `none`.
    size_t indexBefore(size_t index, int taken) const;
  };
  /// The steps of a stage on some option.
  struct Steps {
    std::vector<Segment> all, inRow;
    std::vector<size_t> rows;
  };
  static std::vector<Digit> digitsOf(const SearchSpace &space,
                                     const std::map<int, size_t> &options);
  static std::vector<Digit> digitsOf(const SearchSpace &space);
  int figureOf(const GroupOption &option, const Digit &digit) const;
  void setPrices(const SearchSpace &space, const Problem &problem, size_t count);
  Steps stepsOn(const GroupOption &option) const;
  void addCheap(Segment segment, std::vector<Segment> &found) const;
  size_t rowOf(const GroupOption &option, size_t row) const;

  const double mostPrice;
  const bool priceMatters;
  std::vector<Digit> digits;
  std::vector<Steps> stepsOf; // by option
  std::vector<double> prices; // by state
};

} // namespace heterplan
