// Functions of values, sums and copies of boxes.
#include "cost/kernels/cuda/Launch.h"
#include "cost/kernels/cuda/Operations.h"

namespace heterplan::kernels::cuda {
namespace {
HETERPLAN_ANYWHERE inline float valueOf(UnaryFunction f, float x) {
  switch (f.kind) {
  case Unary::Relu:
    return x > 0 ? x : 0;
  case Unary::Sigmoid:
    return 1 / (1 + expf(-x));
  case Unary::Tanh:
    return tanhf(x);
  case Unary::Sqrt:
    return sqrtf(x);
  case Unary::Exp:
    return expf(x);
  case Unary::Log:
    return logf(x);
  case Unary::Erf:
    return erff(x);
  case Unary::Clip:
    return x < f.low ? f.low : x > f.high ? f.high : x;
  case Unary::Gelu:
    return x * (0.5f + 0.5f * erff(x * 0.7071067812f));
  case Unary::Swish:
    return x / (1 + expf(-x));
  }
  return 0;
}

HETERPLAN_ANYWHERE inline float slopeOf(UnaryFunction f, float x) {
  switch (f.kind) {
  case Unary::Relu:
    return x > 0 ? 1 : 0;
  case Unary::Sigmoid: {
    float y = 1 / (1 + expf(-x));
    return y * (1 - y);
  }
  case Unary::Tanh: {
    float y = tanhf(x);
    return 1 - y * y;
  }
  case Unary::Sqrt:
    return 0.5f / sqrtf(x);
  case Unary::Exp:
    return expf(x);
  case Unary::Log:
    return 1 / x;
  case Unary::Erf:
    return GaussError::slope(x);
  case Unary::Clip:
    return x > f.low && x < f.high ? 1 : 0;
  case Unary::Gelu:
    return 0.5f + 0.5f * erff(x * 0.7071067812f) + x * 0.3989422804f * expf(-x * x / 2);
  case Unary::Swish: {
    float y = 1 / (1 + expf(-x));
    return y * (1 + x * (1 - y));
  }
  }
  return 0;
}

HETERPLAN_ANYWHERE inline float valueOf(Binary f, float a, float b) {
  switch (f) {
  case Binary::Sum:
    return Sum::value(a, b);
  case Binary::Difference:
    return Difference::value(a, b);
  case Binary::Times:
    return Times::value(a, b);
  case Binary::Quotient:
    return Quotient::value(a, b);
  case Binary::Square:
    return Square::value(a, b);
  }
  return 0;
}

template <typename Function> HETERPLAN_ANYWHERE float slope(bool left, float a, float b) {
  return left ? Function::left(a, b) : Function::right(a, b);
}

HETERPLAN_ANYWHERE inline float slopeOf(Binary f, bool left, float a, float b) {
  switch (f) {
  case Binary::Sum:
    return slope<Sum>(left, a, b);
  case Binary::Difference:
    return slope<Difference>(left, a, b);
  case Binary::Times:
    return slope<Times>(left, a, b);
  case Binary::Quotient:
    return slope<Quotient>(left, a, b);
  case Binary::Square:
    return slope<Square>(left, a, b);
  }
  return 0;
}

template <typename T> struct UnaryBody {
  UnaryFunction function;
  const T *x;
  T *y;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const { y[i] = valueOf(function, x[i]); }
};

template <typename T> struct UnaryGradientBody {
  UnaryFunction function;
  const T *x, *dy;
  T *dx;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const {
    dx[i] = float(dy[i]) * slopeOf(function, x[i]);
  }
};

template <typename T> struct BinaryBody {
  Binary function;
  Walk walk;
  const T *a, *b;
  T *c;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const {
    c[i] = valueOf(function, a[walk.offset(i, 0)], b[walk.offset(i, 1)]);
  }
};

template <typename T> struct BinaryGradientBody : Adding {
  Binary function;
  bool ofLeft;
  Folding folding;
  const T *a, *b, *dc;
  T *gradient;
  HETERPLAN_ANYWHERE float term(int64_t result, int64_t term) const {
    float slope = slopeOf(function, ofLeft, a[folding.offset(result, term, 0)],
                          b[folding.offset(result, term, 1)]);
    return float(dc[folding.offset(result, term, 2)]) * slope;
  }
  HETERPLAN_ANYWHERE void finish(int64_t result, float total) const { gradient[result] = total; }
};

template <typename T> struct ChooseBody {
  Walk walk;
  const uint8_t *mask;
  const T *a, *b;
  T *c;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const {
    c[i] = mask[i] ? a[walk.offset(i, 0)] : b[walk.offset(i, 1)];
  }
};

template <typename T> struct ChooseGradientBody : Adding {
  bool chosen;
  Folding folding;
  const uint8_t *mask;
  const T *dc;
  T *gradient;
  HETERPLAN_ANYWHERE float term(int64_t result, int64_t term) const {
    int64_t at = folding.offset(result, term, 0);
    return (mask[at] != 0) == chosen ? float(dc[at]) : 0;
  }
  HETERPLAN_ANYWHERE void finish(int64_t result, float total) const { gradient[result] = total; }
};

template <typename T> struct SumBody : Adding {
  float factor;
  Folding folding;
  const T *x;
  T *y;
  HETERPLAN_ANYWHERE float term(int64_t result, int64_t term) const {
    return x[folding.offset(result, term, 0)];
  }
  HETERPLAN_ANYWHERE void finish(int64_t result, float total) const { y[result] = factor * total; }
};

template <typename T> struct CopyBody {
  float factor;
  Walk walk;
  const T *from;
  T *to;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const {
    to[walk.offset(i, 1)] = factor * float(from[walk.offset(i, 0)]);
  }
};
} // namespace

void unary(Device &device, Format format, UnaryFunction function, int64_t count, const void *x,
           void *y) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, count, UnaryBody<T>{function, in<T>(x), out<T>(y)});
  });
}

void unaryGradient(Device &device, Format format, UnaryFunction function, int64_t count,
                   const void *x, const void *dy, void *dx) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, count, UnaryGradientBody<T>{function, in<T>(x), in<T>(dy), out<T>(dx)});
  });
}

void binary(Device &device, Format format, Binary function, int64_t count, const Walk &walk,
            const void *a, const void *b, void *c) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, count, BinaryBody<T>{function, walk, in<T>(a), in<T>(b), out<T>(c)});
  });
}

void binaryGradient(Device &device, Format format, Binary function, bool ofLeft,
                    const Folding &folding, Buffer &scratch, const void *a, const void *b,
                    const void *dc, void *gradient) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    BinaryGradientBody<T> body{{},       function, ofLeft,    folding,
                               in<T>(a), in<T>(b), in<T>(dc), out<T>(gradient)};
    sums(device, folding.resultCount, folding.termCount, folding.neighbours, scratch, body);
  });
}

void choose(Device &device, Format format, int64_t count, const Walk &walk, const uint8_t *mask,
            const void *a, const void *b, void *c) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, count, ChooseBody<T>{walk, mask, in<T>(a), in<T>(b), out<T>(c)});
  });
}

void chooseGradient(Device &device, Format format, bool chosen, const Folding &folding,
                    Buffer &scratch, const uint8_t *mask, const void *dc, void *gradient) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    ChooseGradientBody<T> body{{}, chosen, folding, mask, in<T>(dc), out<T>(gradient)};
    sums(device, folding.resultCount, folding.termCount, folding.neighbours, scratch, body);
  });
}

void sum(Device &device, Format format, float factor, const Folding &folding, Buffer &scratch,
         const void *x, void *y) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    SumBody<T> body{{}, factor, folding, in<T>(x), out<T>(y)};
    sums(device, folding.resultCount, folding.termCount, folding.neighbours, scratch, body);
  });
}

void copy(Device &device, Format format, float factor, int64_t count, const Walk &walk,
          const void *from, void *to) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, count, CopyBody<T>{factor, walk, in<T>(from), out<T>(to)});
  });
}

} // namespace heterplan::kernels::cuda
