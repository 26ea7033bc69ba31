// Simulated annealing over assignments, from the best of the quick plans.
#include "search/provision/AssignmentSearch.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

Solution improveLocally(Evaluator &evaluator, const SearchOptions &options, double workShare,
                        const std::optional<Placement> &incumbent) {
  constexpr double hottest = 0.05, coldest = 5e-4; // of the logarithm of the objective
  constexpr int restartAfter = 400;                // moves without a new best
  AssignmentSearch search(evaluator, options, workShare);
  search.consider(incumbent);
  TypeAssignment current = search.bestAssignment();
  double score = search.bestScore();
  for (int idle = 0; !search.exhausted(); ++idle) {
    if (idle > restartAfter) {
      current = search.bestAssignment();
      score = search.bestScore();
      idle = 0;
    }
    double best = search.bestScore();
    TypeAssignment next = neighbour(search.assignments, current, search.random);
    double value = search.score(next);
    double temperature = hottest * std::pow(coldest / hottest, search.progress());
    bool better = !(value > score); // also from infinity to infinity
    if (better || std::exp(std::log(score / value) / temperature) > drawReal(search.random)) {
      current = std::move(next);
      score = value;
    }
    if (search.bestScore() < best)
      idle = 0;
  }
  return search.solution();
}

Expected<Solution> LocalSearch::run(Evaluator &evaluator, const SearchOptions &options) {
  constexpr double workShare = 0.1;
  return improveLocally(evaluator, options, workShare, greedyPlacement(evaluator));
}

} // namespace heterplan
