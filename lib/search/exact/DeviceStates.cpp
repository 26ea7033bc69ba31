#include "search/exact/DeviceStates.h"

#include "search/exact/DeviceLevels.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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

void DeviceStates::Segment::appendTo(std::vector<Segment> &segments) const {
  Segment *last = segments.empty() ? nullptr : &segments.back();
  if (last && last->before + last->count == before && last->behind + last->count == behind)
    last->count += count;
  else
    segments.push_back(*this);
}

DeviceStates::DeviceStates(const SearchSpace &space, const Problem &problem,
                           const std::map<int, size_t> &options, double mostPrice,
                           size_t mostStates)
    : mostPrice(mostPrice), priceMatters(moneyMatters(problem.request)),
      digits(digitsOf(space, options)), stepsOf(space.options.size()) {
  if (mayRound(space, problem.request) && count(space) > mostStates) {
    DeviceLevels levels(space, options, mostStates);
    for (Digit &digit : digits)
      digit.levels = levels.of(digit.type);
  }
  size_t states = 1;
  for (Digit &digit : reverse(digits)) {
    digit.stride = states;
    states *= digit.levels.size();
  }
  setPrices(space, problem, states);
  for (auto [option, stages] : options)
    stepsOf[option] = stepsOn(space.options[option]);
}

bool DeviceStates::mayRound(const SearchSpace &space, const Request &request) {
  constexpr size_t mostTypes = 3;
  return !moneyMatters(request) && space.sharedLimits.empty() &&
         digitsOf(space).size() <= mostTypes;
}

size_t DeviceStates::count(const SearchSpace &space) {
  double count = 1; // may be very many
  for (const Digit &digit : digitsOf(space))
    count *= double(digit.levels.size());
  return size_t(std::min(count, 1e18));
}

/// Digits for all options that are not for one-stage plans only.
std::vector<DeviceStates::Digit> DeviceStates::digitsOf(const SearchSpace &space) {
  std::map<int, size_t> options;
  for (size_t option = 0; option < space.options.size(); ++option)
    if (!space.options[option].wholeModelOnly)
      options[int(option)] = 1;
  return digitsOf(space, options);
}

int DeviceStates::figureOf(const GroupOption &option, const Digit &digit) const {
  if (!priceMatters)
    return option.slots[digit.type];
  auto counts = find_if(option.group.counts, [&](auto each) { return each.first == digit.type; });
  return counts == option.group.counts.end() ? 0 : counts->second;
}

/// Segments are longer for the digits that come first: those are of the types that most stages use.
std::vector<DeviceStates::Digit> DeviceStates::digitsOf(const SearchSpace &space,
                                                        const std::map<int, size_t> &options) {
  std::vector<std::pair<size_t, int>> ordered; // by how many stages use the type
  for (int type = 0; type < int(space.available.size()); ++type) {
    size_t users = 0;
    for (auto [option, stages] : options)
      users += space.options[option].slots[type] > 0 ? stages : 0;
    if (users > 0)
      ordered.push_back({users, type});
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<Digit> digits;
  for (auto [users, type] : ordered) {
    digits.push_back({type, std::vector<int>(space.available[type] + 1), 0});
    std::iota(digits.back().levels.begin(), digits.back().levels.end(), 0);
  }
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
      const int value = digit.valueIn(state);
      prices[state] += problem.cluster.types[digit.type].price.value() * value;
      slots[digit.type] = value;
    }
    if (!space.keepsSharedLimits(slots) || (priceMatters && prices[state] > most))
      prices[state] = infinity;
  }
}

size_t DeviceStates::Digit::indexBefore(size_t index, int taken) const {
  const int left = levels[index] - taken;
  return left < 0 ? none : size_t(lower_bound(levels, left) - levels.begin());
}

/// The figures of a row without the one in which its states differ.
size_t DeviceStates::rowOf(const GroupOption &option, size_t row) const {
  const size_t state = row * rowLength();
  size_t before = 0;
  for (const Digit &digit : ArrayRef(digits).drop_back()) {
    const size_t index = digit.indexBefore(digit.indexIn(state), figureOf(option, digit));
    if (index == none)
      return none;
    before += index * digit.stride;
  }
  return before / rowLength();
}

size_t DeviceStates::before(size_t state, int option) const {
  const size_t length = rowLength(), row = rowBefore(option, state / length);
  if (row == none)
    return none;
  for (const Segment &segment : segmentsOfRow(option))
    if (const size_t place = state % length - segment.behind; place < segment.count)
      return row * length + segment.before + place;
  return none;
}

DeviceStates::Steps DeviceStates::stepsOn(const GroupOption &option) const {
  Steps steps;
  const size_t length = rowLength();
  for (size_t index = 0; index < length; ++index) {
    const Digit *last = digits.empty() ? nullptr : &digits.back();
    const size_t before = last ? last->indexBefore(index, figureOf(option, *last)) : 0;
    if (before != none)
      Segment{before, index, 1}.appendTo(steps.inRow);
  }
  std::vector<Segment> segments;
  for (size_t row = 0; row < prices.size() / length; ++row) {
    const size_t before = digits.empty() ? 0 : rowOf(option, row);
    steps.rows.push_back(before);
    for (const Segment &of : steps.inRow)
      if (before != none)
        Segment{before * length + of.before, row * length + of.behind, of.count}.appendTo(segments);
  }
  for (const Segment &segment : segments)
    addCheap(segment, steps.all);
  return steps;
}

/// Adds the states of `segment` that do not cost too much, and some between them.
void DeviceStates::addCheap(Segment segment, std::vector<Segment> &found) const {
  const size_t first = found.size();
  for (size_t i = 0; i < segment.count; ++i) {
    const size_t behind = segment.behind + i;
    if (std::isinf(prices[behind]))
      continue;
    if (found.size() > first && behind - (found.back().behind + found.back().count) < shortGap)
      found.back().count = behind + 1 - found.back().behind;
    else
      found.push_back({segment.before + i, behind, 1});
  }
}

} // namespace heterplan
