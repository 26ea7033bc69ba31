#include "search/exact/DeviceStates.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Dear states between others that are looked at too, as fewer runs take less time.
constexpr size_t shortGap = 64;

bool priceMatters(const Problem &problem) {
  const Request &request = problem.request;
  return request.objective == Objective::Cost || request.maxCostPerHour > DollarsPerHour(0) ||
         std::isfinite(request.highestCost().value());
}

/// Slots of a type that are taken beyond the devices.
int unpaidSlots(const GroupOption &option, int type) {
  int devices = 0;
  for (auto [of, count] : option.group.counts)
    devices += of == type ? count : 0;
  return option.slots[type] - devices;
}
} // namespace

DeviceStates::DeviceStates(const SearchSpace &space, const Problem &problem,
                           const std::map<int, size_t> &options, double mostPrice,
                           StatePrices accuracy)
    : mostPrice(mostPrice),
      digits(digitsOf(space, priceMatters(problem) && accuracy == StatePrices::Exact, options)) {
  size_t count = 1;
  for (Digit &digit : reverse(digits)) {
    digit.stride = count;
    count *= digit.values;
  }
  setPrices(space, problem, count);
  runsOf.resize(space.options.size());
  takenBy.assign(space.options.size(), 0);
  for (auto [option, stages] : options)
    setRuns(space.options[option], option);
}

size_t DeviceStates::count(const SearchSpace &space, const Problem &problem, StatePrices accuracy) {
  std::map<int, size_t> options;
  for (size_t option = 0; option < space.options.size(); ++option)
    if (!space.options[option].wholeModelOnly)
      options[int(option)] = 1;
  const bool isExact = priceMatters(problem) && accuracy == StatePrices::Exact;
  double count = 1; // may be very many
  for (const Digit &digit : digitsOf(space, isExact, options))
    count *= double(digit.values);
  return size_t(std::min(count, 1e18));
}

int DeviceStates::figureOf(const GroupOption &option, const Digit &digit) {
  return digit.isUnpaid ? unpaidSlots(option, digit.type) : option.slots[digit.type];
}

/// Runs are longer for the digits that come first: those are of the types that most stages use.
std::vector<DeviceStates::Digit> DeviceStates::digitsOf(const SearchSpace &space, bool isExact,
                                                        const std::map<int, size_t> &options) {
  std::vector<std::pair<double, Digit>> ordered;
  for (int type = 0; type < int(space.available.size()); ++type) {
    double most = 0; // of what there is, that may remain unpaid
    size_t users = 0;
    for (auto [option, stages] : options)
      if (int slots = space.options[option].slots[type]; slots > 0) {
        users += stages;
        most = std::max(most, double(unpaidSlots(space.options[option], type)) / slots);
      }
    const int available = space.available[type];
    if (users > 0)
      ordered.push_back(
          {-double(users), {type, false, size_t(available) + 1, 0, isExact ? 0 : most}});
    if (isExact && most > 0)
      ordered.push_back({-infinity, {type, true, size_t(most * available + 1e-9) + 1, 0, 0}});
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<Digit> digits;
  digits.reserve(ordered.size());
  for (const auto &[order, digit] : ordered)
    digits.push_back(digit);
  return digits;
}

void DeviceStates::setPrices(const SearchSpace &space, const Problem &problem, size_t count) {
  const double budget = problem.request.maxCostPerHour.value() * (1 + 1e-9);
  const double most = budget > 0 ? std::min(mostPrice, budget) : mostPrice;
  std::vector<int> slots(space.available.size());
  prices.assign(count, 0);
  empty.assign(count, true);
  for (size_t state = 0; state < count; ++state) {
    std::fill(slots.begin(), slots.end(), 0);
    for (const Digit &digit : digits) {
      const int value = int(valueOf(state, digit));
      const double price = problem.cluster.types[digit.type].price.value();
      const double paid =
          digit.isUnpaid ? -value : value - std::floor(digit.mostUnpaid * value + 1e-9);
      prices[state] += price * paid;
      if (digit.isUnpaid)
        empty[state] &= value == 0;
      else
        slots[digit.type] = value;
    }
    if (!space.keepsSharedLimits(slots) || (priceMatters(problem) && prices[state] > most))
      prices[state] = infinity;
  }
}

void DeviceStates::setRuns(const GroupOption &option, int index) {
  for (const Digit &digit : digits)
    takenBy[index] += size_t(figureOf(option, digit)) * digit.stride;
  std::vector<Run> &runs = runsOf[index];
  bool isLinked = false; // to the last run, by states that may be
  for (size_t state = 0; state < prices.size(); ++state) {
    bool mayBe = all_of(digits, [&](const Digit &digit) {
      return int(valueOf(state, digit)) >= figureOf(option, digit);
    });
    isLinked &= mayBe;
    if (!mayBe || std::isinf(prices[state]))
      continue;
    if (isLinked && state - (runs.back().first + runs.back().count) < shortGap)
      runs.back().count = state + 1 - runs.back().first;
    else
      runs.push_back({state, 1});
    isLinked = true;
  }
}

} // namespace heterplan
