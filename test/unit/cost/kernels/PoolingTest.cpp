// Pooling, normalisation and softmax.
#include "Harness.h"

#include <cmath>

using namespace heterplan;
using namespace heterplan::kernels;

namespace {
/// Windows of 2x2 with stride 2 over (1, 2, 4, 4).
Reference pool(bool maximum) {
  return [maximum](const std::vector<Values> &in) {
    Values result;
    for (int c = 0; c < 2; ++c)
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
          double most = -1e9, sum = 0;
          for (int p = 0; p < 2; ++p)
            for (int q = 0; q < 2; ++q) {
              double value = in[0][(c * 4 + 2 * i + p) * 4 + 2 * j + q];
              most = std::max(most, value);
              sum += value / 4;
            }
          result.push_back(maximum ? most : sum);
        }
    return result;
  };
}

TEST_F(KernelTest, Pooling) {
  std::map<std::string, Attribute> windows = {{"kernel_shape", std::vector<int64_t>{2, 2}},
                                              {"strides", std::vector<int64_t>{2, 2}}};
  check({"MaxPool", {{1, 2, 4, 4}}, {1, 2, 2, 2}, pool(true), windows, {}});
  check({"AveragePool", {{1, 2, 4, 4}}, {1, 2, 2, 2}, pool(false), windows, {}});
  check({"GlobalAveragePool",
         {{1, 2, 2, 2}},
         {1, 2, 1, 1},
         [](const std::vector<Values> &in) {
           const Values &x = in[0];
           return Values{(x[0] + x[1] + x[2] + x[3]) / 4, (x[4] + x[5] + x[6] + x[7]) / 4};
         },
         {},
         {}});
}

/// (x - mean) / sqrt(variance + 1e-5) of those of `groups` groups that `groupOf` puts together.
Values normalise(const Values &x, int groups, const std::function<int(int)> &groupOf) {
  Values mean(groups), variance(groups), count(groups), result;
  for (size_t i = 0; i < x.size(); ++i)
    mean[groupOf(int(i))] += x[i], ++count[groupOf(int(i))];
  for (size_t i = 0; i < x.size(); ++i)
    variance[groupOf(int(i))] += std::pow(x[i] - mean[groupOf(int(i))] / count[groupOf(int(i))], 2);
  for (size_t i = 0; i < x.size(); ++i) {
    int g = groupOf(int(i));
    result.push_back((x[i] - mean[g] / count[g]) / std::sqrt(variance[g] / count[g] + 1e-5));
  }
  return result;
}

TEST_F(KernelTest, Normalisation) {
  check({"BatchNormalization",
         {{4, 3, 2, 2}, {3}, {3}},
         {4, 3, 2, 2},
         [](const std::vector<Values> &in) {
           Values y = normalise(in[0], 3, [](int i) { return i / 4 % 3; });
           for (size_t i = 0; i < y.size(); ++i)
             y[i] = y[i] * in[1][i / 4 % 3] + in[2][i / 4 % 3];
           return y;
         },
         {},
         {}});
  check({"LayerNormalization",
         {{4, 6}, {6}, {6}},
         {4, 6},
         [](const std::vector<Values> &in) {
           Values y = normalise(in[0], 4, [](int i) { return i / 6; });
           for (size_t i = 0; i < y.size(); ++i)
             y[i] = y[i] * in[1][i % 6] + in[2][i % 6];
           return y;
         },
         {},
         {}});
}

/// Softmax over the rows of (3, 5), or its logarithm.
Reference softmax(bool logarithm) {
  return [logarithm](const std::vector<Values> &in) {
    Values result;
    for (int row = 0; row < 3; ++row) {
      double sum = 0;
      for (int i = 0; i < 5; ++i)
        sum += std::exp(in[0][row * 5 + i]);
      for (int i = 0; i < 5; ++i) {
        double x = in[0][row * 5 + i];
        result.push_back(logarithm ? x - std::log(sum) : std::exp(x) / sum);
      }
    }
    return result;
  };
}

TEST_F(KernelTest, Softmax) {
  check({"Softmax", {{3, 5}}, {3, 5}, softmax(false), {{"axis", int64_t(1)}}, {}});
  check({"LogSoftmax", {{3, 5}}, {3, 5}, softmax(true), {{"axis", int64_t(-1)}}, {}});
}
} // namespace
