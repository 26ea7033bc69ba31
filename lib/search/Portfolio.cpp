// The strategy `auto`: the exact search within its work, then local search and reinforcement
// learning from its plan in rounds, each sharing the best found, until the gap is small enough.
// Every member has its own evaluator and its own random numbers and they are merged in a fixed
// order, so that the number of threads does not show.
#include "search/exact/steady/Bottleneck.h"
#include "support/Parallel.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

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
      merge({greedyPlacement(evaluator), /*bound=*/0, Termination::Feasible});
    if (!done() && evaluator.rules.slowestDecides()) {
      auto solver = makeShortestPaths(evaluator, options.tuning);
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
    if (best.isFirstLook)
      return std::move(best);
    // Where the slowest stage alone does not set the throughput, learning has not improved on
    // labels and local search on any of the bundled models.
    int rounds = evaluator.rules.slowestDecides() ? 2 : 1;
    for (int round = 0; round < rounds && !done() && !meter.interrupted(); ++round)
      if (Error error = improve(round))
        return error;
    if (!isProof(best.termination))
      best.termination = ending();
    if (Error error = boundFewCuts())
      return error;
    return std::move(best);
  }

private:
  /// The work of each member in each round. Learning has more on large problems, as bounds are weak
  /// there.
  static constexpr double workShare = 0.02, learningShare = 0.1;
  static constexpr size_t largeProblem = 4096; // cuts times types

  /// The table of all stages has to fit into memory, and to be filled in time.
  bool labelsFit() const {
    constexpr size_t mostEntries = 2'000'000;
    return evaluator.space.stages(narrowCuts(evaluator.problem).size()) <= mostEntries;
  }

  bool done() const {
    if (std::isinf(options.gap) && best.placement)
      return true;
    return isProof(best.termination) ||
           (best.bound && objective <= *best.bound * (1 + options.gap) * (1 + 1e-12));
  }

  void merge(const Solution &other) {
    best.leftOut.insert(best.leftOut.end(), other.leftOut.begin(), other.leftOut.end());
    if (other.placement) {
      Placement placement = evaluator.shareNodes(*other.placement);
      std::optional<Evaluation> evaluation = evaluator.evaluate(placement);
      if (evaluation && evaluation->objective < objective) {
        objective = evaluation->objective;
        best.placement = std::move(placement);
      }
    }
    if (other.bound)
      best.bound = std::max(best.bound.value_or(0), *other.bound);
    if (best.bound)
      best.bound = std::min(*best.bound, objective);
    if (isProof(other.termination))
      best.termination = other.termination;
    best.isFirstLook |= other.isFirstLook;
    limited |= other.termination == Termination::Limit;
  }

  /// Without a proof: with a plan as good as asked for, or by what ended the members.
  Termination ending() const {
    Termination end = meter.termination(/*proven=*/false, best.placement.has_value());
    return end == Termination::Feasible && limited && !done() ? Termination::Limit : end;
  }

  /// Few, those of the best plan, and their neighbours.
  std::vector<int> cutsToImprove() const {
    std::vector<int> few = narrowCuts(evaluator.problem);
    bool hasFew = !best.placement || !best.bound;
    return hasFew ? few : cutsNear(*best.placement, few, evaluator.space.positions);
  }

  /// The bound of plans that no exact search has seen.
  Error boundFewCuts() {
    Evaluator narrow(evaluator.problem);
    if (best.bound || !best.placement || narrow.space.positions == evaluator.space.positions)
      return Error::success();
    best.leftOut.push_back("all but " + std::to_string(narrow.space.positions.size() - 2) +
                           " cuts");
    Expected<double> bound = rootBound(narrow, best.placement, options);
    if (!bound)
      return bound.takeError();
    best.bound = *bound;
    return narrow.takeError();
  }

  Error improve(int round) {
    using Member = Expected<Solution> (*)(Evaluator &, const SearchOptions &, double,
                                          const std::optional<Placement> &);
    constexpr Member members[] = {[](Evaluator &own, const SearchOptions &mine, double share,
                                     const std::optional<Placement> &from) -> Expected<Solution> {
                                    return improveLocally(own, mine, share, from);
                                  },
                                  learn};
    const std::vector<int> cuts = cutsToImprove();
    std::vector<Solution> results(evaluator.rules.slowestDecides() ? std::size(members) : 1);
    auto work = [&](size_t member) -> Error {
      Evaluator own(evaluator.problem, cuts);
      SearchOptions mine = options;
      mine.seed = options.seed * 2 + round;
      const bool isLarge = cuts.size() * evaluator.problem.cluster.types.size() >= largeProblem;
      double share = isLarge && members[member] == learn ? learningShare : workShare;
      Expected<Solution> solution = members[member](own, mine, share, best.placement);
      if (!solution)
        return joinErrors(solution.takeError(), own.takeError());
      results[member] = std::move(*solution);
      return own.takeError();
    };
    if (Error failure = tryInParallel(results.size(), options.threads, work))
      return failure;
    for (const Solution &result : results)
      merge(result);
    return Error::success();
  }

  Evaluator &evaluator;
  const SearchOptions &options;
  SearchBudget meter;
  Solution best;
  double objective = infinity;
  bool limited = false; // a member's search
};
} // namespace

Expected<Solution> runPortfolio(Evaluator &evaluator, const SearchOptions &options) {
  return Portfolio(evaluator, options).run();
}

} // namespace heterplan
