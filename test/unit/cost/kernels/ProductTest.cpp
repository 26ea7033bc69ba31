// Convolutions and matrix products.
#include "Harness.h"

using namespace heterplan;
using namespace heterplan::kernels;

namespace {
/// Convolution of (n, c, h, w), a padding of 1 on all sides, with bias.
Values convolve(const std::vector<Values> &in, const Dims &x, const Dims &w, const Dims &y,
                int64_t stride, int64_t group) {
  Values result;
  int64_t perGroup = y[1] / group;
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t i = 0; i < y[2]; ++i)
        for (int64_t j = 0; j < y[3]; ++j) {
          double sum = in[2][o];
          for (int64_t c = 0; c < w[1]; ++c)
            for (int64_t p = 0; p < w[2]; ++p)
              for (int64_t q = 0; q < w[3]; ++q) {
                int64_t row = i * stride + p - 1, column = j * stride + q - 1;
                int64_t channel = o / perGroup * w[1] + c;
                if (row >= 0 && row < x[2] && column >= 0 && column < x[3])
                  sum += in[0][((n * x[1] + channel) * x[2] + row) * x[3] + column] *
                         in[1][((o * w[1] + c) * w[2] + p) * w[3] + q];
              }
          result.push_back(sum);
        }
  return result;
}

Values multiply(const Values &a, const Values &b, int64_t m, int64_t k, int64_t n, bool turnA,
                bool turnB) {
  Values c;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += (turnA ? a[l * m + i] : a[i * k + l]) * (turnB ? b[j * k + l] : b[l * n + j]);
      c.push_back(sum);
    }
  return c;
}

Case convolution(int64_t channels, int64_t stride, int64_t group) {
  Dims x{2, channels, 6, 5}, w{8, channels / group, 3, 3};
  Dims y{2, 8, (6 - 1) / stride + 1, (5 - 1) / stride + 1};
  return {"Conv",
          {x, w, {8}},
          y,
          [=](const std::vector<Values> &in) { return convolve(in, x, w, y, stride, group); },
          {{"pads", std::vector<int64_t>{1, 1, 1, 1}},
           {"strides", std::vector<int64_t>{stride, stride}},
           {"group", group}},
          {}};
}

TEST_F(KernelTest, Convolution) { check(convolution(4, 1, 1)); }
TEST_F(KernelTest, ConvolutionWithStride) { check(convolution(3, 2, 1)); }
TEST_F(KernelTest, ConvolutionInGroups) { check(convolution(8, 1, 8)); }

TEST_F(KernelTest, Gemm) {
  for (bool turnA : {false, true})
    for (bool turnB : {false, true})
      check({"Gemm",
             {turnA ? Dims{4, 3} : Dims{3, 4}, turnB ? Dims{5, 4} : Dims{4, 5}, {5}},
             {3, 5},
             [=](const std::vector<Values> &in) {
               Values c = multiply(in[0], in[1], 3, 4, 5, turnA, turnB);
               for (size_t i = 0; i < c.size(); ++i)
                 c[i] += in[2][i % 5];
               return c;
             },
             {{"transA", int64_t(turnA)}, {"transB", int64_t(turnB)}},
             {}});
}

TEST_F(KernelTest, MatMul) {
  check(
      {"MatMul",
       {{2, 3, 4}, {4, 5}},
       {2, 3, 5},
       [](const std::vector<Values> &in) { return multiply(in[0], in[1], 6, 4, 5, false, false); },
       {},
       {}});
  check({"MatMul",
         {{2, 3, 4}, {2, 4, 5}},
         {2, 3, 5},
         [](const std::vector<Values> &in) {
           Values c;
           for (int b = 0; b < 2; ++b) {
             Values left(in[0].begin() + b * 12, in[0].begin() + (b + 1) * 12);
             Values right(in[1].begin() + b * 20, in[1].begin() + (b + 1) * 20);
             Values part = multiply(left, right, 3, 4, 5, false, false);
             c.insert(c.end(), part.begin(), part.end());
           }
           return c;
         },
         {},
         {}});
}
} // namespace
