// Layer normalisation and softmax.
#include "cost/kernels/cuda/Launch.h"
#include "cost/kernels/cuda/Operations.h"

namespace heterplan::kernels::cuda {
namespace {
/// Number, mean and squared deviations of values (Chan, Golub and LeVeque, 1979).
struct Moments {
  float count, mean, squares;
};

template <typename T> struct NormalizeBody {
  using Total = Moments;
  int64_t width;
  float epsilon;
  const T *x;
  const float *scale, *shift;
  T *y;
  float *statistics;

  HETERPLAN_ANYWHERE static Moments none() { return {0, 0, 0}; }
  HETERPLAN_ANYWHERE static Moments join(Moments a, Moments b) {
    float count = a.count + b.count;
    if (count == 0)
      return a;
    float share = b.count / count, apart = b.mean - a.mean;
    return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
  }
  HETERPLAN_ANYWHERE Moments term(int64_t row, int64_t k) const {
    return {1, x[row * width + k], 0};
  }
  HETERPLAN_ANYWHERE float inverse(Moments total) const {
    return 1 / sqrtf(total.squares / total.count + epsilon);
  }
  HETERPLAN_ANYWHERE void finish(int64_t row, Moments total) const {
    statistics[2 * row] = total.mean;
    statistics[2 * row + 1] = inverse(total);
  }
  HETERPLAN_ANYWHERE void apply(int64_t row, int64_t k, Moments total) const {
    float normal = (float(x[row * width + k]) - total.mean) * inverse(total);
    y[row * width + k] = normal * scale[k] + (shift ? shift[k] : 0);
  }
};

/// Two sums at once.
struct Pair {
  float first, second;
};
struct AddingPairs {
  using Total = Pair;
  HETERPLAN_ANYWHERE static Pair none() { return {0, 0}; }
  HETERPLAN_ANYWHERE static Pair join(Pair a, Pair b) {
    return {a.first + b.first, a.second + b.second};
  }
};

template <typename T> struct NormalizeGradientBody : AddingPairs {
  int64_t width;
  const T *x;
  const float *scale, *statistics;
  const T *dy;
  T *dx;

  HETERPLAN_ANYWHERE float normal(int64_t row, int64_t k) const {
    return (float(x[row * width + k]) - statistics[2 * row]) * statistics[2 * row + 1];
  }
  HETERPLAN_ANYWHERE float slope(int64_t row, int64_t k) const {
    return float(dy[row * width + k]) * scale[k];
  }
  HETERPLAN_ANYWHERE Pair term(int64_t row, int64_t k) const {
    float arriving = slope(row, k);
    return {arriving, arriving * normal(row, k)};
  }
  HETERPLAN_ANYWHERE void finish(int64_t, Pair) const {}
  HETERPLAN_ANYWHERE void apply(int64_t row, int64_t k, Pair total) const {
    float common = (total.first + normal(row, k) * total.second) / float(width);
    dx[row * width + k] = statistics[2 * row + 1] * (slope(row, k) - common);
  }
};

template <typename T> struct NormalizeParametersBody : AddingPairs {
  int64_t width;
  const T *x;
  const float *statistics;
  const T *dy;
  float *dscale, *dshift;

  HETERPLAN_ANYWHERE Pair term(int64_t k, int64_t row) const {
    float normal = (float(x[row * width + k]) - statistics[2 * row]) * statistics[2 * row + 1];
    float arriving = dy[row * width + k];
    return {arriving * normal, arriving};
  }
  HETERPLAN_ANYWHERE void finish(int64_t k, Pair total) const {
    if (dscale)
      dscale[k] = total.first;
    if (dshift)
      dshift[k] = total.second;
  }
};

/// Where values of a row along the middle axis lie.
HETERPLAN_ANYWHERE inline int64_t placeOf(const Along &shape, int64_t row, int64_t k) {
  int64_t block = quotient(row, shape.inner);
  return (block * shape.width + k) * shape.inner + (row - block * shape.inner);
}

/// The largest value, and the sum of exponentials below it (Milakov and Gimelshein, 2018).
template <typename T> struct SoftmaxBody {
  using Total = Pair;
  bool logarithm;
  Along shape;
  const T *x;
  T *y;

  HETERPLAN_ANYWHERE static Pair none() { return {-INFINITY, 0}; }
  HETERPLAN_ANYWHERE static Pair join(Pair a, Pair b) {
    float most = a.first > b.first ? a.first : b.first;
    if (most == -INFINITY)
      return a;
    return {most, a.second * expf(a.first - most) + b.second * expf(b.first - most)};
  }
  HETERPLAN_ANYWHERE Pair term(int64_t row, int64_t k) const {
    return {x[placeOf(shape, row, k)], 1};
  }
  HETERPLAN_ANYWHERE void finish(int64_t, Pair) const {}
  HETERPLAN_ANYWHERE void apply(int64_t row, int64_t k, Pair total) const {
    int64_t at = placeOf(shape, row, k);
    float below = float(x[at]) - total.first;
    y[at] = logarithm ? below - logf(total.second) : expf(below) / total.second;
  }
};

/// dx = (dy - sum of dy·y)·y, and for the logarithm dx = dy - exp(y)·sum of dy.
template <typename T> struct SoftmaxGradientBody : Adding {
  bool logarithm;
  Along shape;
  const T *y, *dy;
  T *dx;

  HETERPLAN_ANYWHERE float term(int64_t row, int64_t k) const {
    int64_t at = placeOf(shape, row, k);
    return logarithm ? float(dy[at]) : float(dy[at]) * float(y[at]);
  }
  HETERPLAN_ANYWHERE void finish(int64_t, float) const {}
  HETERPLAN_ANYWHERE void apply(int64_t row, int64_t k, float total) const {
    int64_t at = placeOf(shape, row, k);
    float arriving = dy[at], value = y[at];
    dx[at] = logarithm ? arriving - expf(value) * total : (arriving - total) * value;
  }
};
} // namespace

void normalize(Device &device, Format format, Rows shape, float epsilon, const void *x,
               const float *scale, const float *shift, void *y, float *statistics) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    rows(device, shape.groups, shape.width,
         NormalizeBody<T>{shape.width, epsilon, in<T>(x), scale, shift, out<T>(y), statistics});
  });
}

void normalizeGradient(Device &device, Format format, Rows shape, const void *x, const float *scale,
                       const float *statistics, const void *dy, void *dx) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    rows(device, shape.groups, shape.width,
         NormalizeGradientBody<T>{
             {}, shape.width, in<T>(x), scale, statistics, in<T>(dy), out<T>(dx)});
  });
}

void normalizeParameters(Device &device, Format format, Rows shape, Buffer &scratch, const void *x,
                         const float *statistics, const void *dy, float *dscale, float *dshift) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    NormalizeParametersBody<T> body{{},        shape.width, in<T>(x), statistics,
                                    in<T>(dy), dscale,      dshift};
    sums(device, shape.width, shape.groups, false, scratch, body);
  });
}

void softmax(Device &device, Format format, bool logarithm, Along shape, const void *x, void *y) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    rows(device, shape.outer * shape.inner, shape.width,
         SoftmaxBody<T>{logarithm, shape, in<T>(x), out<T>(y)});
  });
}

void softmaxGradient(Device &device, Format format, bool logarithm, Along shape, const void *y,
                     const void *dy, void *dx) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    rows(device, shape.outer * shape.inner, shape.width,
         SoftmaxGradientBody<T>{{}, logarithm, shape, in<T>(y), in<T>(dy), out<T>(dx)});
  });
}

} // namespace heterplan::kernels::cuda
