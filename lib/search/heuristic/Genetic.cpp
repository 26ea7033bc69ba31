// A genetic algorithm over layouts: tournaments, two-point crossover, mutation of runs; the best
// few stay.
#include "search/provision/LayoutSearch.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double workShare = 0.1;
constexpr int population = 48, elite = 4, tournament = 3;

struct Individual {
  Layout layout;
  double score;
};

class Generations {
public:
  Generations(Evaluator &evaluator, const SearchOptions &options)
      : search(evaluator, options, workShare) {}

  Solution run() {
    while (static_cast<int>(people.size()) < population)
      add(people, search.layouts.random(search.random));
    while (!search.meter.exhausted()) {
      std::stable_sort(people.begin(), people.end(),
                       [](const Individual &a, const Individual &b) { return a.score < b.score; });
      std::vector<Individual> next(people.begin(), people.begin() + elite);
      while (static_cast<int>(next.size()) < population && !search.meter.exhausted()) {
        Layout child = cross(winner(), winner());
        add(next, draw(search.random, 2)
                      ? neighbour(search.layouts, std::move(child), search.random)
                      : std::move(child));
      }
      people = std::move(next);
    }
    return search.solution();
  }

private:
  void add(std::vector<Individual> &to, Layout layout) {
    double score = search.score(layout);
    to.push_back({std::move(layout), score});
  }

  const Layout &winner() {
    const Individual *best = nullptr;
    for (int i = 0; i < tournament; ++i) {
      const Individual &one = people[draw(search.random, int(people.size()))];
      if (!best || one.score < best->score)
        best = &one;
    }
    return best->layout;
  }

  Layout cross(const Layout &a, const Layout &b) {
    Layout child = a;
    int from = draw(search.random, search.layouts.blocks);
    int to = from + draw(search.random, search.layouts.blocks - from) + 1;
    std::copy(b.symbols.begin() + from, b.symbols.begin() + to, child.symbols.begin() + from);
    if (draw(search.random, 2))
      child.choice = b.choice;
    return child;
  }

  LayoutSearch search;
  std::vector<Individual> people;
};
} // namespace

Expected<Solution> Genetic::run(Evaluator &evaluator, const SearchOptions &options) {
  return Generations(evaluator, options).run();
}

} // namespace heterplan
