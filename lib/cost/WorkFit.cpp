#include "cost/WorkFit.h"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int width = std::tuple_size<WorkFeatures>::value;
constexpr int samplesFeature = 2; // of WorkFeatures
constexpr double ridge = 1e-3;
constexpr double leastDeviation = 1e-6; // of a logarithm: less is no variation
constexpr double outlierDeviations = 5, outlierFactor = 3;
constexpr double deviationOfMedian = 1.4826; // of a normal distribution

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double logOf(Seconds time) { return std::log(time.value()); }
} // namespace

WorkFeatures workFeatures(Flops work, Bytes moved, Samples batch) {
  auto logarithm = [](double value) { return std::log(std::max(value, 1.0)); };
  return {logarithm(work.value()), logarithm(moved.value()), logarithm(double(batch.value()))};
}

/// Sums of samples and of their products, so that the samples of a layer can be taken out.
class WorkFit::Moments {
public:
  static constexpr int size = width + 1; // the last one: logarithm of the time
  using Vector = Eigen::Matrix<double, size, 1>;
  using Matrix = Eigen::Matrix<double, size, size>;

  void add(const WorkSample &sample) {
    Vector row;
    for (int i = 0; i < width; ++i)
      row[i] = sample.features[i];
    row[width] = logOf(sample.time);
    weight += 1;
    sum += row;
    products += row * row.transpose();
  }
  Moments without(const Moments &other) const {
    Moments result = *this;
    result.weight -= other.weight;
    result.sum -= other.sum;
    result.products -= other.products;
    return result;
  }
  Vector mean() const { return sum / weight; }
  Matrix covariance() const { return products / weight - mean() * mean().transpose(); }

private:
  double weight = 0;
  Vector sum = Vector::Zero();
  Matrix products = Matrix::Zero();
};

double WorkFit::Law::logTime(const WorkFeatures &features) const {
  double result = constant;
  for (int i = 0; i < width; ++i)
    result += exponents[i] * features[i];
  return result;
}

namespace {
/// Standardised features: their correlations, and their covariances with the logarithm of the time.
struct Standardised {
  Eigen::Matrix<double, width, width> correlations;
  Eigen::Matrix<double, width, 1> withTime;
};

/// The weights of the features in `subset` (bits), none negative; none otherwise.
std::optional<Eigen::VectorXd> weightsOf(const Standardised &problem, unsigned subset) {
  std::vector<int> chosen;
  for (int i = 0; i < width; ++i)
    if (subset >> i & 1)
      chosen.push_back(i);
  Eigen::MatrixXd matrix = problem.correlations(chosen, chosen);
  matrix.diagonal().array() += ridge;
  Eigen::VectorXd solution = matrix.ldlt().solve(problem.withTime(chosen));
  if (!(solution.minCoeff() >= 0))
    return std::nullopt;
  Eigen::VectorXd weights = Eigen::VectorXd::Zero(width);
  for (size_t i = 0; i < chosen.size(); ++i)
    weights[chosen[i]] = solution[i];
  return weights;
}

/// The reduction of the squared error by a subset without a negative weight is withTime·weights.
Eigen::VectorXd bestWeights(const Standardised &problem, unsigned varying) {
  Eigen::VectorXd best = Eigen::VectorXd::Zero(width);
  for (unsigned subset = 1; subset < 1u << width; ++subset) {
    if (subset & ~varying)
      continue;
    std::optional<Eigen::VectorXd> weights = weightsOf(problem, subset);
    if (weights && problem.withTime.dot(*weights) > problem.withTime.dot(best))
      best = *weights;
  }
  return best;
}
} // namespace

WorkFit::Law WorkFit::solve(const Moments &moments) {
  Moments::Vector mean = moments.mean();
  Moments::Matrix covariance = moments.covariance();
  Eigen::Matrix<double, width, 1> deviations =
      covariance.diagonal().head<width>().cwiseMax(0).cwiseSqrt();
  unsigned varying = 0;
  for (int i = 0; i < width; ++i)
    if (deviations[i] > leastDeviation)
      varying |= 1u << i;
    else
      deviations[i] = 1;
  Standardised problem{
      covariance.topLeftCorner<width, width>().cwiseQuotient(deviations * deviations.transpose()),
      covariance.col(width).head<width>().cwiseQuotient(deviations)};
  Eigen::VectorXd weights = bestWeights(problem, varying);
  Law law;
  law.constant = mean[width];
  for (int i = 0; i < width; ++i) {
    law.exponents[i] = weights[i] / deviations[i];
    law.constant -= law.exponents[i] * mean[i];
  }
  return law;
}

void WorkFit::findOutliers(ArrayRef<WorkSample> samples) {
  std::vector<double> residuals, absolute;
  for (const WorkSample &sample : samples)
    residuals.push_back(logOf(sample.time) - law.logTime(sample.features));
  double middle = medianOf(residuals);
  for (double residual : residuals)
    absolute.push_back(std::abs(residual - middle));
  double allowed =
      std::max(outlierDeviations * deviationOfMedian * medianOf(absolute), std::log(outlierFactor));
  for (size_t i = 0; i < samples.size(); ++i)
    if (absolute[i] > allowed)
      leftOut.push_back(i);
}

void WorkFit::measureErrors(ArrayRef<WorkSample> kept, const Moments &all) {
  std::map<unsigned, std::vector<const WorkSample *>> byLayer;
  for (const WorkSample &sample : kept)
    byLayer[sample.layer].push_back(&sample);
  layerCount = byLayer.size();
  if (layerCount < 2)
    return;
  std::vector<double> errors;
  for (const auto &[layer, own] : byLayer) {
    Moments moments;
    for (const WorkSample *sample : own)
      moments.add(*sample);
    Law others = solve(all.without(moments));
    for (const WorkSample *sample : own)
      errors.push_back(
          std::abs(std::exp(others.logTime(sample->features) - logOf(sample->time)) - 1));
  }
  worst = *std::max_element(errors.begin(), errors.end());
  median = medianOf(std::move(errors));
}

WorkFit::WorkFit(ArrayRef<WorkSample> samples) {
  if (samples.empty())
    return;
  Moments all;
  for (const WorkSample &sample : samples)
    all.add(sample);
  law = solve(all);
  findOutliers(samples);
  std::vector<WorkSample> kept;
  Moments moments;
  for (size_t i = 0; i < samples.size(); ++i)
    if (!std::binary_search(leftOut.begin(), leftOut.end(), i))
      kept.push_back(samples[i]);
  for (const WorkSample &sample : kept) {
    moments.add(sample);
    for (int i = 0; i < width; ++i)
      largest[i] = std::max(largest[i], sample.features[i]);
  }
  count = kept.size();
  if (!leftOut.empty())
    law = solve(moments);
  measureErrors(kept, moments);
}

std::string WorkFit::refusal() const {
  if (layerCount < leastLayers)
    return "fewer than " + std::to_string(leastLayers) + " layers measured";
  if (count < leastSamples)
    return "fewer than " + std::to_string(leastSamples) + " measurements";
  return median > largestError ? "leave-one-out error too large" : "";
}

Seconds WorkFit::at(const WorkFeatures &features) const {
  WorkFeatures within = features;
  double beyond = 0;
  for (int i = 0; i < width; ++i) {
    if (i != samplesFeature)
      beyond = std::max(beyond, features[i] - largest[i]);
    within[i] = std::min(features[i], largest[i]);
  }
  return Seconds(std::exp(law.logTime(within) + beyond));
}

} // namespace heterplan
