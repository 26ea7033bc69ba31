// Functions of values that have no tensor: the same text for the CPU and for GPUs.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define HETERPLAN_ANYWHERE __host__ __device__
#else
#define HETERPLAN_ANYWHERE
#endif

namespace heterplan::kernels {

// Functions of two values, with their slopes for the left and the right one.
struct Sum {
  HETERPLAN_ANYWHERE static float value(float a, float b) { return a + b; }
  HETERPLAN_ANYWHERE static float left(float, float) { return 1; }
  HETERPLAN_ANYWHERE static float right(float, float) { return 1; }
};
struct Difference {
  HETERPLAN_ANYWHERE static float value(float a, float b) { return a - b; }
  HETERPLAN_ANYWHERE static float left(float, float) { return 1; }
  HETERPLAN_ANYWHERE static float right(float, float) { return -1; }
};
struct Times {
  HETERPLAN_ANYWHERE static float value(float a, float b) { return a * b; }
  HETERPLAN_ANYWHERE static float left(float, float b) { return b; }
  HETERPLAN_ANYWHERE static float right(float a, float) { return a; }
};
struct Quotient {
  HETERPLAN_ANYWHERE static float value(float a, float b) { return a / b; }
  HETERPLAN_ANYWHERE static float left(float, float b) { return 1 / b; }
  HETERPLAN_ANYWHERE static float right(float a, float b) { return -a / (b * b); }
};
struct Square { // the right operand is the constant 2
  HETERPLAN_ANYWHERE static float value(float a, float) { return a * a; }
  HETERPLAN_ANYWHERE static float left(float a, float) { return 2 * a; }
  HETERPLAN_ANYWHERE static float right(float, float) { return 0; }
};

/// Errors of Gauss, and their slope.
struct GaussError {
  HETERPLAN_ANYWHERE static float value(float x) { return std::erf(x); }
  HETERPLAN_ANYWHERE static float slope(float x) {
    constexpr float factor = 1.12837916709551257f; // 2/sqrt(pi)
    return factor * std::exp(-x * x);
  }
};

} // namespace heterplan::kernels
