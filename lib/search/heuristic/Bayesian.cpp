// Bayesian optimisation over assignments: a Gaussian process on the logarithm of the objective,
// with a kernel of the number of blocks that differ, and the expected improvement of candidates
// near the best assignments and at random. Source: Jones, Schonlau and Welch, EGO, J. Global
// Optimization 1998.
#include "search/provision/AssignmentSearch.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double workShare = 0.1;
constexpr int mostPoints = 160, firstPoints = 24, candidates = 48;

class GaussianProcess {
public:
  /// Adds a point of value `y`; one that is like another is left out.
  void add(const TypeAssignment &x, double y) {
    std::vector<double> row = solve(correlations(x));
    double rest = 1 + noise;
    for (double value : row)
      rest -= value * value;
    if (rest < 1e-9)
      return;
    row.push_back(std::sqrt(rest));
    factor.push_back(std::move(row));
    points.push_back(x);
    values.push_back(y);
  }

  /// Fits the mean and the weights to all points.
  void fit() {
    mean = 0;
    for (double value : values)
      mean += value / double(values.size());
    deviation = 0;
    for (double value : values)
      deviation += (value - mean) * (value - mean) / double(values.size());
    deviation = std::sqrt(std::max(deviation, 1e-12));
    std::vector<double> centred;
    for (double value : values)
      centred.push_back((value - mean) / deviation);
    weights = solve(centred);
    for (size_t i = weights.size(); i-- > 0;) { // back substitution by the transpose
      for (size_t j = i + 1; j < weights.size(); ++j)
        weights[i] -= factor[j][i] * weights[j];
      weights[i] /= factor[i][i];
    }
  }

  /// How much `x` is expected to be below `best`.
  double expectedImprovement(const TypeAssignment &x, double best) const {
    std::vector<double> k = correlations(x), v = solve(k);
    double estimate = 0, variance = 1 + noise;
    for (size_t i = 0; i < k.size(); ++i) {
      estimate += k[i] * weights[i];
      variance -= v[i] * v[i];
    }
    double sigma = deviation * std::sqrt(std::max(variance, 1e-12));
    double gain = best - (mean + deviation * estimate), z = gain / sigma;
    double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    return gain * std::erfc(-z / std::sqrt(2.0)) / 2 + sigma * density;
  }

  size_t size() const { return points.size(); }

private:
  static constexpr double noise = 1e-6;

  static double correlation(const TypeAssignment &a, const TypeAssignment &b) {
    constexpr double range = 0.25; // of the blocks
    double differ = a.choice != b.choice;
    for (size_t i = 0; i < a.actions.size(); ++i)
      differ += a.actions[i] != b.actions[i];
    return std::exp(-differ / (range * double(a.actions.size()) + 1));
  }
  std::vector<double> correlations(const TypeAssignment &x) const {
    std::vector<double> result;
    for (const TypeAssignment &point : points)
      result.push_back(correlation(x, point));
    return result;
  }
  /// L⁻¹·b, with L the Cholesky factor of the correlations.
  std::vector<double> solve(std::vector<double> b) const {
    for (size_t i = 0; i < b.size(); ++i) {
      for (size_t j = 0; j < i; ++j)
        b[i] -= factor[i][j] * b[j];
      b[i] /= factor[i][i];
    }
    return b;
  }

  std::vector<TypeAssignment> points;
  std::vector<double> values, weights;
  std::vector<std::vector<double>> factor; // lower triangle
  double mean = 0, deviation = 1;
};

/// Infeasible assignments count as somewhat worse than the worst feasible one.
class Ego {
public:
  Ego(Evaluator &evaluator, const SearchOptions &options) : search(evaluator, options, workShare) {}

  Solution run() {
    for (int type = 0; type < search.assignments.types; ++type)
      observe(search.assignments.uniform(type, draw(search.random, search.assignments.choices)));
    for (int i = 0; i < firstPoints; ++i)
      observe(search.assignments.random(search.random));
    for (int tries = 0; tries < 2 * mostPoints && process.size() < mostPoints; ++tries) {
      if (search.exhausted())
        break;
      process.fit();
      observe(choose());
    }
    return search.solution();
  }

private:
  void observe(const TypeAssignment &assignment) {
    constexpr double penalty = 0.5;
    double value = std::log(search.score(assignment));
    if (std::isfinite(value))
      worst = std::max(worst, value);
    process.add(assignment, std::isfinite(value) ? value : worst + penalty);
    search.meter.add(int64_t(process.size()) * 20);
  }

  TypeAssignment choose() {
    double best = std::isfinite(search.bestScore()) ? std::log(search.bestScore()) : worst;
    TypeAssignment chosen = search.bestAssignment();
    double most = -1;
    for (int i = 0; i < candidates; ++i) {
      TypeAssignment candidate = search.bestAssignment();
      for (int moves = 1 + i % 4; moves > 0; --moves)
        candidate = neighbour(search.assignments, std::move(candidate), search.random);
      if (i % 3 == 0)
        candidate = search.assignments.random(search.random);
      double gain = process.expectedImprovement(candidate, best);
      if (gain > most) {
        most = gain;
        chosen = std::move(candidate);
      }
    }
    return chosen;
  }

  AssignmentSearch search;
  GaussianProcess process;
  double worst = 0;
};
} // namespace

Expected<Solution> Bayesian::run(Evaluator &evaluator, const SearchOptions &options) {
  return Ego(evaluator, options).run();
}

} // namespace heterplan
