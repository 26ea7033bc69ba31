// What stages have taken of the devices, as a number: recursions over the cuts that keep it have
// the limits on devices exactly, and know what a placement costs per hour.
#pragma once

#include "search/problem/SearchSpace.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <vector>

namespace heterplan {

/// A state says for each type that at most so many slots were taken (GroupOption::slots); where
/// money matters, so many devices, so that what they cost follows: then placements may lack slots.
class DeviceStates {
public:
  /// Of the types that have devices in `options`: by index into those of `space` the number of
  /// stages that have one. States that cost more than `mostPrice` dollars per hour are of no
  /// interest.
  DeviceStates(const SearchSpace &space, const Problem &problem,
               const std::map<int, size_t> &options, double mostPrice);

  /// Of all options that are not for one-stage plans only, whatever they cost.
  static size_t count(const SearchSpace &space);

  size_t size() const { return prices.size(); }
  /// Consecutive states.
  struct Run {
    size_t first, count;
  };
  /// The states that may be reached by a stage on `option`, one of those above; before it the state
  /// is taken(option) less.
  llvm::ArrayRef<Run> runs(int option) const { return runsOf[option]; }
  size_t taken(int option) const { return takenBy[option]; }
  /// Rows are so many consecutive states that differ in one figure only.
  size_t rowLength() const { return digits.empty() ? 1 : digits.back().values; }
  /// Whether the last state of a row may be reached by a stage on `option`, whatever it costs.
  bool holds(int option, size_t row) const { return rowsOf[option][row]; }
  /// Whether `state` may be reached by a stage on `option`, whatever it costs.
  bool mayEndIn(size_t state, int option) const {
    const size_t length = rowLength();
    return holds(option, state / length) && state % length >= taken(option) % length;
  }
  /// Dollars per hour of all that a state says; infinite where a placement may not have so much.
  double price(size_t state) const { return prices[state]; }

private:
  /// One figure of a state.
  struct Digit {
    int type;
    size_t values, stride;
  };
  static std::vector<Digit> digitsOf(const SearchSpace &space,
                                     const std::map<int, size_t> &options);
  int figureOf(const GroupOption &option, const Digit &digit) const;
  void setPrices(const SearchSpace &space, const Problem &problem, size_t count);
  void setRuns(const GroupOption &option, int index);
  bool holdsOthers(const GroupOption &option, size_t row) const;
  size_t valueOf(size_t state, const Digit &digit) const {
    return state / digit.stride % digit.values;
  }

  const double mostPrice;
  const bool priceMatters;
  std::vector<Digit> digits;
  std::vector<std::vector<Run>> runsOf;  // by option
  std::vector<std::vector<char>> rowsOf; // by option and row: whether it holds the option
  std::vector<size_t> takenBy;           // by option
  std::vector<double> prices;            // by state
};

} // namespace heterplan
