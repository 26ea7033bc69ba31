#include "cost/WorkFit.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace heterplan;

namespace {
/// t = c · flops^a · bytes^b, times noise.
std::vector<WorkSample> powerLaw(double a, double b, double noise, int layers, int batches) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> size(10, 20);
  std::normal_distribution<double> normal(0, noise);
  std::vector<WorkSample> samples;
  for (int layer = 0; layer < layers; ++layer) {
    double flops = std::exp(size(random)), bytes = std::exp(size(random));
    for (int64_t batch = 1; batch < int64_t(1) << batches; batch *= 2) {
      WorkFeatures features =
          workFeatures(Flops(flops * batch), Bytes(bytes * batch), Samples(batch));
      double time = std::exp(-20 + a * features[0] + b * features[1] + normal(random));
      samples.push_back({features, Seconds(time), unsigned(layer)});
    }
  }
  return samples;
}

double predicted(const WorkFit &fit, double flops, double bytes, int64_t batch) {
  return fit.at(workFeatures(Flops(flops), Bytes(bytes), Samples(batch))).value();
}

TEST(WorkFit, FindsAPowerLawAgain) {
  WorkFit fit(powerLaw(0.7, 0.2, 0, 20, 4));
  EXPECT_EQ(fit.refusal(), "");
  EXPECT_EQ(fit.samples(), 80u);
  EXPECT_EQ(fit.layers(), 20u);
  EXPECT_LT(fit.medianError(), 0.01); // the ridge
  double expected = std::exp(-20) * std::pow(1e7, 0.7) * std::pow(1e6, 0.2);
  EXPECT_NEAR(predicted(fit, 1e7, 1e6, 2) / expected, 1, 0.02);
}

TEST(WorkFit, StatesAnErrorOfTheSizeOfTheNoise) {
  WorkFit fit(powerLaw(0.7, 0.2, 0.2, 40, 4));
  EXPECT_GT(fit.medianError(), 0.08);
  EXPECT_LT(fit.medianError(), 0.25);
  EXPECT_GT(fit.worstError(), fit.medianError());
}

TEST(WorkFit, RefusesFewLayersHoweverManyTheirBatches) {
  EXPECT_EQ(WorkFit().refusal(), "fewer than 4 layers measured");
  EXPECT_EQ(WorkFit(powerLaw(0.7, 0.2, 0, 3, 6)).refusal(), "fewer than 4 layers measured");
  EXPECT_EQ(WorkFit(powerLaw(0.7, 0.2, 0, 5, 1)).refusal(), "fewer than 6 measurements");
  EXPECT_EQ(WorkFit(powerLaw(0.7, 0.2, 0, 6, 1)).refusal(), "");
}

TEST(WorkFit, RefusesWhatItsWorkDoesNotExplain) {
  EXPECT_EQ(WorkFit(powerLaw(0, 0, 2, 30, 1)).refusal(), "leave-one-out error too large");
}

TEST(WorkFit, MoreWorkNeverTakesLess) {
  // Times that fall with the work would give a negative exponent.
  WorkFit fit(powerLaw(-0.5, 0.6, 0.3, 30, 5));
  double before = 0;
  for (int64_t batch = 1; batch < 100000; batch = batch * 3 / 2 + 1) {
    double now = predicted(fit, 1e5 * double(batch), 1e5 * double(batch), batch);
    EXPECT_GE(now, before);
    before = now;
  }
}

TEST(WorkFit, BeyondTheLargestItIsProportional) {
  WorkFit fit(powerLaw(0.4, 0.2, 0, 20, 4)); // within: far less than proportional
  double far = predicted(fit, 1e15, 1e15, 1 << 20), farther = predicted(fit, 4e15, 4e15, 1 << 22);
  EXPECT_NEAR(farther / far, 4, 1e-6);
}

TEST(WorkFit, MoreSamplesOfLessWorkAreNoMoreWork) {
  WorkFit fit(powerLaw(0.7, 0.2, 0, 20, 4)); // batches up to 8
  EXPECT_LE(predicted(fit, 1e7, 1e6, 256), 1.1 * predicted(fit, 1e7, 1e6, 8));
}

TEST(WorkFit, OutliersAreLeftOutAndListed) {
  std::vector<WorkSample> samples = powerLaw(0.7, 0.2, 0.05, 20, 4);
  double before = predicted(WorkFit(samples), 1e7, 1e6, 2);
  samples[17].time = samples[17].time * 50;
  samples[40].time = samples[40].time / 80;
  WorkFit fit(samples);
  EXPECT_EQ(fit.outliers(), (std::vector<size_t>{17, 40}));
  EXPECT_EQ(fit.samples(), samples.size() - 2);
  EXPECT_NEAR(predicted(fit, 1e7, 1e6, 2) / before, 1, 0.02);
}

TEST(WorkFit, EqualLayersAndExtremesStayFinite) {
  std::vector<WorkSample> same(8, {workFeatures(Flops(0), Bytes(0), Samples(1)), Seconds(1e-3), 0});
  for (size_t i = 0; i < same.size(); ++i)
    same[i].layer = unsigned(i);
  EXPECT_NEAR(predicted(WorkFit(same), 0, 0, 1), 1e-3, 1e-9);
  same[0].time = Seconds(1e30);
  same[1].time = Seconds(1e-300);
  same[2].features = workFeatures(Flops(1e30), Bytes(1e30), Samples(2147483647));
  WorkFit fit(same);
  EXPECT_TRUE(std::isfinite(fit.medianError()));
  EXPECT_TRUE(std::isfinite(predicted(fit, 1e30, 1e30, 2147483647)));
}
} // namespace
