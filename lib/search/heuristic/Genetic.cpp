// A genetic algorithm over assignments: tournaments, two-point crossover, mutation of runs; the
// best few stay.
#include "search/provision/AssignmentSearch.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double workShare = 0.1;
constexpr int population = 48, elite = 4, tournament = 3;

struct Individual {
  TypeAssignment assignment;
  double score;
};

class Generations {
public:
  Generations(Evaluator &evaluator, const SearchOptions &options)
      : search(evaluator, options, workShare) {}

  Solution run() {
    while (static_cast<int>(people.size()) < population)
      add(people, search.assignments.random(search.random));
    while (!search.exhausted()) {
      std::stable_sort(people.begin(), people.end(),
                       [](const Individual &a, const Individual &b) { return a.score < b.score; });
      std::vector<Individual> next(people.begin(), people.begin() + elite);
      while (static_cast<int>(next.size()) < population && !search.exhausted()) {
        TypeAssignment child = cross(winner(), winner());
        add(next, draw(search.random, 2)
                      ? neighbour(search.assignments, std::move(child), search.random)
                      : std::move(child));
      }
      people = std::move(next);
    }
    return search.solution();
  }

private:
  void add(std::vector<Individual> &to, TypeAssignment assignment) {
    double score = search.score(assignment);
    to.push_back({std::move(assignment), score});
  }

  const TypeAssignment &winner() {
    const Individual *best = nullptr;
    for (int i = 0; i < tournament; ++i) {
      const Individual &one = people[draw(search.random, int(people.size()))];
      if (!best || one.score < best->score)
        best = &one;
    }
    return best->assignment;
  }

  TypeAssignment cross(const TypeAssignment &a, const TypeAssignment &b) {
    TypeAssignment child = a;
    int from = draw(search.random, search.assignments.blocks);
    int to = from + draw(search.random, search.assignments.blocks - from) + 1;
    std::copy(b.actions.begin() + from, b.actions.begin() + to, child.actions.begin() + from);
    if (draw(search.random, 2))
      child.choice = b.choice;
    return child;
  }

  AssignmentSearch search;
  std::vector<Individual> people;
};
} // namespace

Expected<Solution> Genetic::run(Evaluator &evaluator, const SearchOptions &options) {
  return Generations(evaluator, options).run();
}

} // namespace heterplan
