#include "search/balance/Predictors.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace heterplan;

namespace {
/// Mean relative error on the last half of a series.
double errorOf(llvm::StringRef name, llvm::ArrayRef<Observation> series) {
  auto predictor = makePredictor(name);
  double sum = 0;
  size_t half = series.size() / 2;
  for (size_t i = 0; i < series.size(); ++i) {
    if (i >= half)
      sum += std::abs(predictor->predict() / series[i].speed - 1);
    predictor->observe(series[i]);
  }
  return sum / double(series.size() - half);
}

std::vector<Observation> wave() {
  std::vector<Observation> series;
  for (int i = 0; i < 200; ++i)
    series.push_back({2 + std::sin(i / 4.0), 0.5, 0.5});
  return series;
}
} // namespace

TEST(Predictors, aConstantSpeedIsForeseen) {
  std::vector<Observation> series(40, {3.5, 0.2, 0.1});
#define HETERPLAN_PREDICTOR(name, cls, help) EXPECT_LT(errorOf(name, series), 1e-9) << name;
#include "search/balance/Predictors.def"
  EXPECT_EQ(makePredictor("crystal-ball"), nullptr);
}

TEST(Predictors, aWaveIsLearnedByThoseThatLearn) {
  double last = errorOf("last", wave());
  EXPECT_LT(errorOf("ar", wave()), last / 4);
  EXPECT_LT(errorOf("narx", wave()), last);
}
