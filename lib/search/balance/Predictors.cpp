#include "search/balance/Predictors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace llvm;

namespace heterplan {

namespace {
// As in heterplan_runtime/predictors.py, which says what they are.
constexpr double smoothing = 0.5;
constexpr size_t order = 3, window = 32;
constexpr double regularisation = 1e-2;
constexpr size_t hidden = 6, replayed = 16, uses = 2, inputs = 1 + order + 2 * uses;
constexpr double rate = 0.05;
constexpr double fastestChange = 4;

double bounded(double speed, double last) {
  return std::min(std::max(speed, last / fastestChange), last * fastestChange);
}

template <size_t n> double dot(const std::array<double, n> &a, const std::array<double, n> &b) {
  double total = 0;
  for (size_t i = 0; i < n; ++i)
    total += a[i] * b[i];
  return total;
}

template <typename Item> void keepLast(std::vector<Item> &items, size_t most) {
  if (items.size() > most)
    items.erase(items.begin(), items.end() - static_cast<ptrdiff_t>(most));
}

class LastValue : public Predictor {
public:
  void observe(const Observation &observation) override { speed = observation.speed; }
  double predict() const override { return speed; }

private:
  double speed = 0;
};

class ExponentialAverage : public Predictor {
public:
  void observe(const Observation &observation) override {
    double gap = observation.speed - speed;
    speed = speed != 0 ? speed + smoothing * gap : observation.speed;
  }
  double predict() const override { return speed; }

private:
  double speed = 0;
};

/// AR(p) by ridge regression of the change from the last value.
class Autoregressive : public Predictor {
public:
  void observe(const Observation &observation) override {
    speeds.push_back(observation.speed);
    keepLast(speeds, window + order);
  }

  double predict() const override {
    double last = speeds.back();
    if (speeds.size() <= order + 1)
      return last;
    double scale = 0;
    for (double speed : speeds)
      scale += speed;
    scale /= double(speeds.size());
    Equations equations{};
    for (size_t i = 0; i <= order; ++i)
      equations[i][i] = regularisation;
    for (size_t end = order; end < speeds.size(); ++end)
      add(equations, lags(end, scale), (speeds[end] - speeds[end - 1]) / scale);
    double change = dot(solve(equations), lags(speeds.size(), scale));
    return bounded(last + change * scale, last);
  }

private:
  using Row = std::array<double, order + 1>;
  using Equations = std::array<std::array<double, order + 2>, order + 1>; // and right sides

  /// 1 and the speeds before `end`, the newest first.
  Row lags(size_t end, double scale) const {
    Row row{1};
    for (size_t lag = 0; lag < order; ++lag)
      row[1 + lag] = speeds[end - 1 - lag] / scale;
    return row;
  }

  static void add(Equations &equations, const Row &row, double change) {
    for (size_t i = 0; i <= order; ++i) {
      for (size_t j = 0; j <= order; ++j)
        equations[i][j] += row[i] * row[j];
      equations[i][order + 1] += row[i] * change;
    }
  }

  /// Gaussian elimination with partial pivoting.
  static Row solve(Equations rows) {
    for (size_t column = 0; column <= order; ++column) {
      size_t pivot = column;
      for (size_t row = column + 1; row <= order; ++row)
        if (std::abs(rows[row][column]) > std::abs(rows[pivot][column]))
          pivot = row;
      std::swap(rows[column], rows[pivot]);
      for (size_t row = column + 1; row <= order; ++row) {
        double factor = rows[row][column] / rows[column][column];
        for (size_t k = column; k <= order + 1; ++k)
          rows[row][k] -= factor * rows[column][k];
      }
    }
    Row result{};
    for (size_t row = order + 1; row-- > 0;) {
      double known = 0;
      for (size_t k = row + 1; k <= order; ++k)
        known += rows[row][k] * result[k];
      result[row] = (rows[row][order + 1] - known) / rows[row][row];
    }
    return result;
  }

  std::vector<double> speeds;
};

/// Uniform in [-1/2, 1/2) (Park and Miller, CACM 1988).
class FirstWeights {
public:
  double next() {
    state = state * 48271 % 2147483647;
    return double(state) / 2147483647 - 0.5;
  }

private:
  int64_t state = 1;
};

/// One layer of tanh units; it gives the change from the last speed, and begins with none.
class Narx : public Predictor {
public:
  Narx() {
    FirstWeights draws;
    for (Row &unit : weights)
      for (double &weight : unit)
        weight = draws.next();
  }

  void observe(const Observation &observation) override {
    seen.push_back(observation);
    keepLast(seen, replayed + order);
    double scale = meanSpeed();
    for (size_t end = order; end < seen.size(); ++end)
      learn(rowBefore(end, scale), (seen[end].speed - seen[end - 1].speed) / scale);
  }

  double predict() const override {
    double last = seen.back().speed;
    if (seen.size() < order)
      return last;
    double scale = meanSpeed();
    return bounded(last + dot(output, units(rowBefore(seen.size(), scale))) * scale, last);
  }

private:
  using Row = std::array<double, inputs>;
  using Units = std::array<double, hidden>;

  double meanSpeed() const {
    double total = 0;
    for (const Observation &each : seen)
      total += each.speed;
    return total / double(seen.size());
  }

  /// Regressors that are known before observation `end`.
  Row rowBefore(size_t end, double scale) const {
    Row row{1};
    for (size_t lag = 0; lag < order; ++lag)
      row[1 + lag] = seen[end - 1 - lag].speed / scale - 1;
    for (size_t lag = 0; lag < uses; ++lag) {
      row[1 + order + lag] = seen[end - 1 - lag].cpu - 0.5;
      row[1 + order + uses + lag] = seen[end - 1 - lag].memory - 0.5;
    }
    return row;
  }

  Units units(const Row &row) const {
    Units values{};
    for (size_t unit = 0; unit < hidden; ++unit)
      values[unit] = std::tanh(dot(weights[unit], row));
    return values;
  }

  /// A step of gradient descent on half the square of the error, at most 1 of it.
  void learn(const Row &row, double change) {
    Units values = units(row);
    double error = std::min(std::max(dot(output, values) - change, -1.0), 1.0);
    for (size_t unit = 0; unit < hidden; ++unit) {
      double inner = error * output[unit] * (1 - values[unit] * values[unit]);
      output[unit] -= rate * error * values[unit];
      for (size_t i = 0; i < inputs; ++i)
        weights[unit][i] -= rate * inner * row[i];
    }
  }

  std::vector<Observation> seen;
  std::array<Row, hidden> weights{};
  Units output{};
};
} // namespace

std::unique_ptr<Predictor> makePredictor(StringRef name) {
#define HETERPLAN_PREDICTOR(text, cls, help)                                                       \
  if (name == text)                                                                                \
    return std::make_unique<cls>();
#include "search/balance/Predictors.def"
  return nullptr;
}

} // namespace heterplan
