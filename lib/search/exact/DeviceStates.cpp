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

bool moneyMatters(const Request &request) {
  return request.objective == Objective::Cost || request.maxCostPerHour > DollarsPerHour(0) ||
         std::isfinite(request.highestCost().value());
}
} // namespace

DeviceStates::DeviceStates(const SearchSpace &space, const Problem &problem,
                           const std::map<int, size_t> &options, double mostPrice)
    : mostPrice(mostPrice), priceMatters(moneyMatters(problem.request)),
      digits(digitsOf(space, options)) {
  size_t count = 1;
  for (Digit &digit : reverse(digits)) {
    digit.stride = count;
    count *= digit.values;
  }
  setPrices(space, problem, count);
  runsOf.resize(space.options.size());
  rowsOf.resize(space.options.size());
  takenBy.assign(space.options.size(), 0);
  for (auto [option, stages] : options)
    setRuns(space.options[option], option);
}

size_t DeviceStates::count(const SearchSpace &space) {
  std::map<int, size_t> options;
  for (size_t option = 0; option < space.options.size(); ++option)
    if (!space.options[option].wholeModelOnly)
      options[int(option)] = 1;
  double count = 1; // may be very many
  for (const Digit &digit : digitsOf(space, options))
    count *= double(digit.values);
  return size_t(std::min(count, 1e18));
}

int DeviceStates::figureOf(const GroupOption &option, const Digit &digit) const {
  if (!priceMatters)
    return option.slots[digit.type];
  auto counts = find_if(option.group.counts, [&](auto each) { return each.first == digit.type; });
  return counts == option.group.counts.end() ? 0 : counts->second;
}

/// Runs are longer for the digits that come first: those are of the types that most stages use.
std::vector<DeviceStates::Digit> DeviceStates::digitsOf(const SearchSpace &space,
                                                        const std::map<int, size_t> &options) {
  std::vector<std::pair<size_t, Digit>> ordered; // by how many stages use the type
  for (int type = 0; type < int(space.available.size()); ++type) {
    size_t users = 0;
    for (auto [option, stages] : options)
      users += space.options[option].slots[type] > 0 ? stages : 0;
    if (users > 0)
      ordered.push_back({users, {type, size_t(space.available[type]) + 1, 0}});
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<Digit> digits;
  digits.reserve(ordered.size());
  for (const auto &[users, digit] : ordered)
    digits.push_back(digit);
  return digits;
}

void DeviceStates::setPrices(const SearchSpace &space, const Problem &problem, size_t count) {
  const double budget = problem.request.maxCostPerHour.value() * (1 + 1e-9);
  const double most = budget > 0 ? std::min(mostPrice, budget) : mostPrice;
  std::vector<int> slots(space.available.size());
  prices.assign(count, 0);
  for (size_t state = 0; state < count; ++state) {
    std::fill(slots.begin(), slots.end(), 0);
    for (const Digit &digit : digits) {
      const size_t value = valueOf(state, digit);
      prices[state] += problem.cluster.types[digit.type].price.value() * double(value);
      slots[digit.type] = int(value);
    }
    if (!space.keepsSharedLimits(slots) || (priceMatters && prices[state] > most))
      prices[state] = infinity;
  }
}

/// Whether the figures of `row` suffice, but for the one that its states differ in.
bool DeviceStates::holdsOthers(const GroupOption &option, size_t row) const {
  return all_of(ArrayRef(digits).drop_back(), [&](const Digit &digit) {
    return int(valueOf(row * rowLength(), digit)) >= figureOf(option, digit);
  });
}

void DeviceStates::setRuns(const GroupOption &option, int index) {
  for (const Digit &digit : digits)
    takenBy[index] += size_t(figureOf(option, digit)) * digit.stride;
  const size_t least = digits.empty() ? 0 : size_t(figureOf(option, digits.back()));
  const size_t length = rowLength();
  std::vector<Run> &runs = runsOf[index];
  rowsOf[index].assign(prices.size() / length, false);
  bool isLinked = false; // to the last run, by states that may be
  for (size_t row = 0; row < prices.size() / length; ++row) {
    const bool holds = least < length && (digits.empty() || holdsOthers(option, row));
    rowsOf[index][row] = holds;
    isLinked &= holds && least == 0;
    for (size_t state = row * length + least; holds && state < (row + 1) * length; ++state) {
      if (std::isinf(prices[state]))
        continue;
      if (isLinked && state - (runs.back().first + runs.back().count) < shortGap)
        runs.back().count = state + 1 - runs.back().first;
      else
        runs.push_back({state, 1});
      isLinked = true;
    }
  }
}

} // namespace heterplan
