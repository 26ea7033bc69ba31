#include "search/problem/Cuts.h"

#include "cost/IterationRules.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int mostPositions = 40;
constexpr int mostFittedPositions = 256; // where a stage is merged with its neighbours
} // namespace

std::vector<std::pair<int, int>> separatedPairs(const Problem &problem) {
  const LayerGraph &graph = problem.graph;
  std::vector<std::pair<int, int>> pairs;
  for (const LayerSet &set : problem.request.separations) {
    std::set<int> layers;
    for (const std::string &layer : set)
      layers.insert(graph.find(layer));
    for (auto layer = layers.begin(); std::next(layer) != layers.end(); ++layer)
      pairs.push_back({*layer, *std::next(layer)});
  }
  std::map<int, std::string> pinned;
  for (const Pin &pin : problem.request.pins)
    pinned.emplace(graph.find(pin.layer), pin.type);
  for (auto pin = pinned.begin(); pin != pinned.end(); ++pin)
    if (auto next = std::next(pin); next != pinned.end() && next->second != pin->second)
      pairs.push_back({pin->first, next->first});
  return pairs;
}

/// Bursts keep all tied parameters in one stage: their stages hide the sums of gradients behind
/// each other, and a sum over stages cannot be hidden.
std::vector<bool> allowedCuts(const Problem &problem) {
  std::vector<bool> allowed = problem.graph.allowedCuts();
  if (problem.request.schedule == ScheduleChoice::Burst)
    for (const TiedParameter &tied : problem.graph.tiedParameters())
      std::fill(allowed.begin() + tied.layers.front() + 1, allowed.begin() + tied.layers.back() + 1,
                false);
  for (const LayerSet &set : problem.request.colocations) {
    int first = problem.graph.size(), last = 0;
    for (const std::string &layer : set) {
      first = std::min(first, problem.graph.find(layer));
      last = std::max(last, problem.graph.find(layer));
    }
    std::fill(allowed.begin() + first + 1, allowed.begin() + last + 1, false);
  }
  return allowed;
}

namespace {
/// The cuts that may be, the best first: series positions, then narrow ones; how many are series.
std::pair<std::vector<Cut>, size_t> rankedCuts(const Problem &problem) {
  const LayerGraph &graph = problem.graph;
  std::vector<Cut> cuts = graph.cuts();
  std::vector<bool> allowed = allowedCuts(problem);
  auto crossing = [&](const Cut &cut) {
    return std::count_if(cut.tensors.begin(), cut.tensors.end(),
                         [&](int tensor) { return graph.tensors[tensor].differentiable; });
  };
  std::vector<Cut> inner(cuts.begin() + 1, cuts.end() - 1);
  inner.erase(std::remove_if(inner.begin(), inner.end(),
                             [&](const Cut &cut) { return !allowed[cut.position]; }),
              inner.end());
  std::stable_sort(inner.begin(), inner.end(), [&](const Cut &a, const Cut &b) {
    bool aBranched = crossing(a) > 1, bBranched = crossing(b) > 1;
    return aBranched != bBranched ? bBranched : a.forwardBytes < b.forwardBytes;
  });
  size_t series =
      std::count_if(inner.begin(), inner.end(), [&](const Cut &cut) { return crossing(cut) <= 1; });
  return {std::move(inner), series};
}

/// So many of a long chain's.
std::vector<int> evenly(ArrayRef<Cut> series, int limit) {
  std::vector<int> chain, chosen;
  for (const Cut &cut : series)
    chain.push_back(cut.position);
  llvm::sort(chain);
  for (int i = 0; i < limit; ++i)
    chosen.push_back(chain[i * chain.size() / limit]);
  return chosen;
}

/// The first `series` of them; of the others those that are the best in their part of the layers,
/// of half as many equally long ones as `limit`, before any more. At most `limit`.
std::vector<int> bestOfParts(ArrayRef<Cut> ranked, size_t series, int limit,
                             const Problem &problem) {
  const int parts = std::max(1, limit / 2);
  std::vector<char> hasOne(parts, false);
  std::vector<int> chosen, others;
  for (size_t i = 0; i < ranked.size(); ++i) {
    const int64_t part = int64_t(ranked[i].position) * parts / problem.graph.size();
    const bool isFirst = !std::exchange(hasOne[part], true);
    (isFirst || i < series ? chosen : others).push_back(ranked[i].position);
  }
  llvm::append_range(chosen, others);
  chosen.resize(std::min<size_t>(chosen.size(), limit));
  return chosen;
}

/// Adds a cut, the best, between layers that are to be apart where there is none.
void separate(const Problem &problem, ArrayRef<Cut> ranked, std::set<int> &positions) {
  for (auto [first, second] : separatedPairs(problem)) {
    auto between = [first = first, second = second](int position) {
      return position > first && position <= second;
    };
    auto best = find_if(ranked, [&](const Cut &cut) { return between(cut.position); });
    if (best != ranked.end() && none_of(positions, between))
      positions.insert(best->position);
  }
}
} // namespace

size_t innerCutCount(const Problem &problem) { return rankedCuts(problem).first.size(); }

std::vector<int> cutPositions(const Problem &problem, int limit) {
  const auto [ranked, series] = rankedCuts(problem);
  std::vector<int> chosen = series > size_t(limit)
                                ? evenly(ArrayRef(ranked).take_front(series), limit)
                                : bestOfParts(ranked, series, limit, problem);
  std::set<int> positions(chosen.begin(), chosen.end());
  positions.insert({0, problem.graph.size()});
  separate(problem, ranked, positions);
  return {positions.begin(), positions.end()};
}

std::vector<int> narrowCuts(const Problem &problem) {
  const bool fitted = rulesOf(problem.request.iterationModel).fitsSizes();
  return cutPositions(problem, fitted ? mostFittedPositions : mostPositions);
}

std::vector<int> everyCut(const Problem &problem) {
  if (rulesOf(problem.request.iterationModel).fitsSizes())
    return narrowCuts(problem);
  return cutPositions(problem, problem.graph.size());
}

} // namespace heterplan
