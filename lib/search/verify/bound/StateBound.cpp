#include "search/verify/bound/StateBound.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double safety = 1 - 1e-10; // of sums of doubles
constexpr int levels = 8;            // of iterations, if they are paid for
constexpr size_t mostTypes = BoundStep::mostTypes;
} // namespace

StateBound::StateBound(const NeighbourBound &paths)
    : paths(paths), cell(paths.ofCell()), microBatches(paths.numberOfMicroBatches()),
      highestPrice(paths.ofBounds().highestPrice()), times(paths.restsFor(false, 0)) {
  const std::vector<BoundStep> &steps = paths.all();
  const size_t last = size_t(paths.ofBounds().cutCount()) - 1;
  firstStep.assign(last + 2, steps.size());
  priceAfter.assign(last + 1, infinity);
  priceAfter[last] = 0;
  for (size_t i = steps.size(); i-- > 0;) {
    const size_t begin = size_t(steps[i].begin);
    firstStep[begin] = i;
    priceAfter[begin] =
        std::min(priceAfter[begin], steps[i].price + priceAfter[size_t(steps[i].end)]);
  }
  for (size_t cut = last + 1; cut-- > 0;)
    firstStep[cut] = std::min(firstStep[cut], firstStep[cut + 1]);
  leasts = {cell.least};
  if (paths.isPaid() && std::isfinite(cell.most) && cell.least > 0)
    for (int level = 1; level < levels; ++level)
      leasts.push_back(cell.least * std::pow(cell.most / cell.least, double(level) / levels));
  for (double least : leasts)
    rests.push_back(paths.restsFor(true, least));
}

/// Works out the bound of a state; infinite if it has no plan in the cell.
void StateBound::setBound(State &state, int cut) const {
  state.bound = infinity;
  const size_t index = paths.indexOf(cut, state.place);
  const BoundRest &time = times[index];
  const double slowest =
      (microBatches - 1) * std::max({cell.low, state.slowest, state.last}) * safety;
  const double seconds =
      std::max(state.fill + time.fill, state.forward + time.forward) * safety + slowest;
  const double price = (state.price + priceAfter[size_t(cut)]) * safety;
  if (!std::isfinite(seconds) || seconds > cell.most || price > highestPrice)
    return;
  const double iteration = std::max(seconds, cell.least);
  size_t level = 0;
  while (level + 1 < leasts.size() && leasts[level + 1] <= iteration)
    ++level;
  const BoundRest &rest = rests[level][index];
  const double second = paths.worthOfSecond();
  const double least =
      paths.chargeOf(state.taken, state.price) +
      std::max(second * state.fill + rest.fill, second * state.forward + rest.forward);
  if (paths.isPaid())
    state.bound = std::max((least + state.price * iteration) * safety - paths.refund(),
                           price * iteration * safety);
  else
    state.bound = std::max(least * safety - paths.refund() + slowest, seconds);
}

bool StateBound::isNoWorse(const State &a, const State &b) const {
  if (a.fill > b.fill || a.forward > b.forward || a.slowest > b.slowest || a.last > b.last ||
      a.price > b.price || !paths.coversPlace(a.place, b.place))
    return false;
  for (size_t type = 0; type < mostTypes; ++type)
    if (a.taken[type] > b.taken[type])
      return false;
  return true;
}

StateBound::State StateBound::after(const State &state, const BoundStep &step, bool inNode) const {
  State result = state;
  result.bound = infinity;
  for (size_t type = 0; type < mostTypes; ++type)
    if ((result.taken[type] += step.taken[type]) > paths.devices()[type])
      return result;
  const BoundHop hop = paths.hopOf(paths.runs().choiceOf(state.place), step, inNode);
  result.last = step.passes + hop.receive;
  if (result.last > cell.high || state.last + hop.gradient > cell.high)
    return result;
  result.slowest = std::max({cell.low, state.slowest, state.last + hop.gradient});
  result.fill = result.last + std::max(state.fill + hop.gradient, state.forward + step.sync);
  result.forward += step.forward + hop.receive;
  result.price += step.price;
  result.place =
      inNode ? paths.runs().joined(state.place, step.choice) : paths.runs().first(step.choice);
  setBound(result, step.end);
  return result;
}

/// Drops states that others are no worse than, and merges those beyond `width`.
void StateBound::keepBest(std::vector<State> &states, size_t width, int cut, size_t &work) const {
  llvm::sort(states, [](const State &a, const State &b) {
    return std::tie(a.bound, a.fill, a.forward, a.price, a.place, a.taken) <
           std::tie(b.bound, b.fill, b.forward, b.price, b.place, b.taken);
  });
  size_t kept = 0;
  const size_t exact = width / 2;
  for (size_t i = 0; i < states.size(); ++i) {
    const size_t compared = std::min(kept, exact);
    work += compared / 4;
    if (std::none_of(states.begin(), states.begin() + long(compared),
                     [&](const State &a) { return isNoWorse(a, states[i]); }))
      states[kept++] = states[i];
  }
  states.resize(kept);
  if (kept > width)
    merge(states, exact, width, cut);
}

/// Merges states that are much alike, but for the `exact` first ones: first those that hardly
/// differ, then more and more.
void StateBound::merge(std::vector<State> &states, size_t exact, size_t width, int cut) const {
  const double time = std::isfinite(cell.most) ? cell.most : paths.ofGoal();
  std::map<std::array<int, mostTypes + 2>, State> merged;
  for (int parts = 256; parts > 0; parts /= 2) {
    merged.clear();
    for (size_t i = exact; i < states.size(); ++i) {
      const State &state = states[i];
      std::array<int, mostTypes + 2> key{};
      for (size_t type = 0; type < mostTypes; ++type)
        if (paths.devices()[type] > 0)
          key[type] = int(int64_t(state.taken[type]) * parts / paths.devices()[type]);
      key[mostTypes] = int(state.slowest * microBatches / time * parts);
      key[mostTypes + 1] = int(state.place);
      State &all = merged.try_emplace(key, state).first->second;
      all.fill = std::min(all.fill, state.fill);
      all.forward = std::min(all.forward, state.forward);
      all.slowest = std::min(all.slowest, state.slowest);
      all.last = std::min(all.last, state.last);
      all.price = std::min(all.price, state.price);
      for (size_t type = 0; type < mostTypes; ++type)
        all.taken[type] = std::min(all.taken[type], state.taken[type]);
    }
    if (exact + merged.size() <= width)
      break;
  }
  states.resize(exact);
  for (auto &[key, state] : merged) {
    setBound(state, cut);
    states.push_back(state);
  }
}

double StateBound::value(size_t width, size_t most, size_t &work) const {
  const int last = paths.ofBounds().cutCount() - 1;
  const double goal = paths.ofGoal();
  std::vector<std::vector<State>> states(size_t(last) + 1);
  states[0].push_back({});
  for (int cut = 0; cut < last; ++cut) {
    std::vector<State> here = std::move(states[size_t(cut)]);
    keepBest(here, width, cut, work);
    for (const State &state : here) {
      const size_t from = firstStep[size_t(cut)], to = firstStep[size_t(cut) + 1];
      work += 4 * (to - from);
      if (work > most)
        return 0;
      for (size_t i = from; i < to; ++i) {
        const BoundStep &step = paths.all()[i];
        for (bool inNode : {false, true}) {
          if (inNode && !paths.mayMeet(state.place, step.choice))
            break;
          State next = after(state, step, inNode);
          if (next.bound < goal)
            states[size_t(step.end)].push_back(next);
        }
      }
    }
  }
  double least = goal;
  for (const State &state : states.back())
    least = std::min(least, state.bound);
  return least;
}

} // namespace heterplan
