// What stages have taken of the devices, as a number: recursions over the cuts that keep it have
// the limits on devices exactly, and know what a placement costs per hour.
#pragma once

#include "search/problem/SearchSpace.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <vector>

namespace heterplan {

/// How much states say of money, where it matters: of how many slots devices are not paid for, as a
/// group has fewer devices than slots; or only how many that are at most.
enum class StatePrices { Exact, AtLeast };

/// A state says for each type that at most so many slots were taken (GroupOption::slots), and with
/// exact prices how many of them exactly are not paid for.
class DeviceStates {
public:
  /// Of the types that have devices in `options`: by index into those of `space` the number of
  /// stages that have one. States that cost more than `mostPrice` dollars per hour are of no
  /// interest.
  DeviceStates(const SearchSpace &space, const Problem &problem,
               const std::map<int, size_t> &options, double mostPrice, StatePrices accuracy);

  /// Of all options that are not for one-stage plans only, whatever they cost.
  static size_t count(const SearchSpace &space, const Problem &problem, StatePrices accuracy);

  size_t size() const { return prices.size(); }
  /// Consecutive states.
  struct Run {
    size_t first, count;
  };
  /// The states that may be reached by a stage on `option`, one of those above; before it the state
  /// is taken(option) less.
  llvm::ArrayRef<Run> runs(int option) const { return runsOf[option]; }
  size_t taken(int option) const { return takenBy[option]; }
  /// Dollars per hour of all that a state says, or at least so many; infinite where a placement may
  /// not have so much.
  double price(size_t state) const { return prices[state]; }
  /// Whether nothing was taken, which is at most what the state says.
  bool mayBeEmpty(size_t state) const { return empty[state]; }

private:
  /// One figure of a state.
  struct Digit {
    int type;
    bool isUnpaid; // slots that are not paid for
    size_t values, stride;
    double mostUnpaid; // of the slots, as a share
  };
  static std::vector<Digit> digitsOf(const SearchSpace &space, bool isExact,
                                     const std::map<int, size_t> &options);
  static int figureOf(const GroupOption &option, const Digit &digit);
  void setPrices(const SearchSpace &space, const Problem &problem, size_t count);
  void setRuns(const GroupOption &option, int index);
  size_t valueOf(size_t state, const Digit &digit) const {
    return state / digit.stride % digit.values;
  }

  const double mostPrice;
  std::vector<Digit> digits;
  std::vector<std::vector<Run>> runsOf; // by option
  std::vector<size_t> takenBy;          // by option
  std::vector<double> prices;           // by state
  std::vector<char> empty;
};

} // namespace heterplan
