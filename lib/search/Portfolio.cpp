// The strategy `auto`: the exact search within its work, then local search and reinforcement
// learning from its plan in rounds, each sharing the best found, until the gap is small enough.
// Every member has its own evaluator and its own random numbers and they are merged in a fixed
// order, so that the number of threads does not show.
#include "search/exact/Bottleneck.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

class Portfolio {
public:
  Portfolio(Evaluator &evaluator, const SearchOptions &options)
      : evaluator(evaluator), options(options), meter(options) {}

  Expected<Solution> run() {
    if (std::isinf(options.gap)) // any plan will do: the quickest way to one first
      merge({greedyPlacement(evaluator), /*bound=*/0, /*complete=*/false});
    if (!done() && evaluator.space.steady) {
      auto solver = makeShortestPaths(evaluator);
      Expected<Solution> byBottleneck =
          searchByBottleneck(evaluator, *solver, options, 0.5, std::nullopt);
      if (!byBottleneck)
        return byBottleneck;
      merge(*byBottleneck);
    }
    if (!done() && labelsFit()) {
      Expected<Solution> labels = LabelSetting::run(evaluator, options);
      if (!labels)
        return labels;
      merge(*labels);
    }
    // Where the slowest stage alone does not set the throughput, learning has not improved on
    // labels and local search on any of the bundled models.
    int rounds = evaluator.space.steady ? 2 : 1;
    for (int round = 0; round < rounds && !done() && !meter.interrupted(); ++round)
      improve(round);
    return std::move(best);
  }

private:
  static constexpr double workShare = 0.02; // of each member in each round

  /// The table of all stages has to fit into memory, and to be filled in time.
  bool labelsFit() const {
    constexpr size_t mostEntries = 2'000'000;
    size_t positions = evaluator.space.positions.size();
    return positions * (positions - 1) / 2 * evaluator.space.options.size() <= mostEntries;
  }

  bool done() const {
    if (std::isinf(options.gap) && best.placement)
      return true;
    return best.complete || objective <= best.bound * (1 + options.gap) * (1 + 1e-12);
  }

  void merge(const Solution &other) {
    if (other.placement) {
      std::optional<Evaluation> evaluation = evaluator.evaluate(*other.placement);
      if (evaluation && evaluation->objective < objective) {
        objective = evaluation->objective;
        best.placement = other.placement;
      }
    }
    best.bound = std::min(std::max(best.bound, other.bound), objective);
    best.complete |= other.complete;
  }

  void improve(int round) {
    using Member =
        Solution (*)(Evaluator &, const SearchOptions &, double, const std::optional<Placement> &);
    constexpr Member members[] = {improveLocally, learn};
    std::vector<Solution> results(evaluator.space.steady ? std::size(members) : 1);
    auto work = [&](size_t member) {
      Evaluator own(evaluator.problem);
      SearchOptions mine = options;
      mine.seed = options.seed * 2 + round;
      results[member] = members[member](own, mine, workShare, best.placement);
    };
    for (size_t next = 0; next < results.size();) {
      std::vector<std::thread> others;
      for (int i = 1; i < options.threads && next + 1 < results.size(); ++i)
        others.emplace_back(work, next++);
      work(next++);
      for (std::thread &other : others)
        other.join();
    }
    for (const Solution &result : results)
      merge(result);
  }

  Evaluator &evaluator;
  const SearchOptions &options;
  SearchBudget meter;
  Solution best;
  double objective = infinity;
};
} // namespace

Expected<Solution> runPortfolio(Evaluator &evaluator, const SearchOptions &options) {
  return Portfolio(evaluator, options).run();
}

} // namespace heterplan
