// The kernels of our own, for what moves memory rather than computes. Shapes, not tensors: who
// calls them knows that the memory is there. Everything is told to the device's stream.
#pragma once

#include "cost/kernels/cuda/Device.h"
#include "cost/kernels/cuda/Plans.h"
#include "cost/kernels/cuda/Storage.h"

namespace heterplan::kernels::cuda {

enum class Unary { Relu, Sigmoid, Tanh, Sqrt, Exp, Log, Erf, Clip, Gelu, Swish };
enum class Binary { Sum, Difference, Times, Quotient, Square };

/// A function of one value; Clip has bounds.
struct UnaryFunction {
  Unary kind{};
  float low = 0, high = 0;
};

/// y = f(x), and dx = dy·f'(x).
void unary(Device &device, Format format, UnaryFunction function, int64_t count, const void *x,
           void *y);
void unaryGradient(Device &device, Format format, UnaryFunction function, int64_t count,
                   const void *x, const void *dy, void *dx);

/// c = f(a, b), with a and b tensors 0 and 1 of `walk`; c lies row by row and may be a or b where
/// it is no broadcast one.
void binary(Device &device, Format format, Binary function, int64_t count, const Walk &walk,
            const void *a, const void *b, void *c);
/// The gradient of a (`ofLeft`) or b. Tensors of `folding`: a, b and dc; its results lie row by
/// row.
void binaryGradient(Device &device, Format format, Binary function, bool ofLeft,
                    const Folding &folding, Buffer &scratch, const void *a, const void *b,
                    const void *dc, void *gradient);

/// c = mask ? a : b; the mask lies as c does.
void choose(Device &device, Format format, int64_t count, const Walk &walk, const uint8_t *mask,
            const void *a, const void *b, void *c);
/// Computes the gradient of a (`chosen`: where the mask is true) or of b. Tensor 0 of `folding` is
/// the mask and dc.
void chooseGradient(Device &device, Format format, bool chosen, const Folding &folding,
                    Buffer &scratch, const uint8_t *mask, const void *dc, void *gradient);

/// y = factor · sum of x, which is tensor 0 of `folding`; the result lies row by row.
void sum(Device &device, Format format, float factor, const Folding &folding, Buffer &scratch,
         const void *x, void *y);
/// to = factor · from, tensors 0 and 1 of `walk`: copies of boxes, and broadcasts.
void copy(Device &device, Format format, float factor, int64_t count, const Walk &walk,
          const void *from, void *to);

/// y = looked up rows; each of `count` elements of y. Integers are of 64 bits.
void lookUp(Device &device, Format format, const Lookup &lookup, const int64_t *indices,
            const void *table, void *y);
void lookUpIntegers(Device &device, const Lookup &lookup, const int64_t *indices,
                    const int64_t *table, int64_t *y);
/// Adds what arrives to the rows of `gradient`, which are of fp32 in every format.
void scatter(Device &device, Format format, const Lookup &lookup, const int64_t *indices,
             const void *dy, float *gradient);

/// y = (x - mean) / deviation · scale + shift in each row; `statistics`: mean and inverse deviation
/// of each row, for the gradients. `shift` may be null. Scale and shift are of fp32.
void normalize(Device &device, Format format, Rows shape, float epsilon, const void *x,
               const float *scale, const float *shift, void *y, float *statistics);
void normalizeGradient(Device &device, Format format, Rows shape, const void *x, const float *scale,
                       const float *statistics, const void *dy, void *dx);
/// Gradients of scale and shift.
void normalizeParameters(Device &device, Format format, Rows shape, Buffer &scratch, const void *x,
                         const float *statistics, const void *dy, float *dscale, float *dshift);

/// Softmax, or its logarithm, along the middle axis of (outer, width, inner).
struct Along {
  int64_t outer = 0, width = 0, inner = 0;
};
void softmax(Device &device, Format format, bool logarithm, Along shape, const void *x, void *y);
void softmaxGradient(Device &device, Format format, bool logarithm, Along shape, const void *y,
                     const void *dy, void *dx);

/// The updates of Update, in fp32. `step` counts from 1.
void updateSgd(Device &device, int64_t count, const float *gradient, float *value);
void updateMomentum(Device &device, int64_t count, const float *gradient, float *velocity,
                    float *value);
void updateAdam(Device &device, int64_t count, int step, const float *gradient, float *mean,
                float *square, float *value);

/// Random values from 0.5 to 1.5, the same for a seed.
void fillRandom(Device &device, Format format, unsigned seed, int64_t count, void *values);
void fillConstant(Device &device, Format format, float value, int64_t count, void *values);

} // namespace heterplan::kernels::cuda
