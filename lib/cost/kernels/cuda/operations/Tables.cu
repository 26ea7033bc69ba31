// Looking up, updates, and first values.
#include "cost/kernels/cuda/Launch.h"
#include "cost/kernels/cuda/Operations.h"

namespace heterplan::kernels::cuda {
namespace {
/// Where element `i` of what was looked up comes from.
struct Looking {
  int64_t rows, width, count;
  const int64_t *indices;
  HETERPLAN_ANYWHERE int64_t source(int64_t i) const {
    int64_t line = quotient(i, width), block = quotient(line, count);
    return (block * rows + indices[line - block * count]) * width + (i - line * width);
  }
};

template <typename T> struct LookUpBody {
  Looking looking;
  const T *table;
  T *y;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const { y[i] = table[looking.source(i)]; }
};

template <typename T> struct ScatterBody {
  Looking looking;
  const T *dy;
  float *gradient;
  __device__ void operator()(int64_t i) const {
    atomicAdd(gradient + looking.source(i), float(dy[i]));
  }
};

Looking lookingOf(const Lookup &lookup, const int64_t *indices) {
  return {lookup.rows, lookup.width, int64_t(lookup.indices.size()), indices};
}

int64_t foundOf(const Lookup &lookup) {
  return lookup.outer * lookup.width * int64_t(lookup.indices.size());
}

struct SgdBody {
  const float *gradient;
  float *value;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const { value[i] -= Update::rate * gradient[i]; }
};

struct MomentumBody {
  const float *gradient;
  float *velocity, *value;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const {
    float now = 0.9f * velocity[i] + gradient[i];
    velocity[i] = now;
    value[i] -= Update::rate * now;
  }
};

struct AdamBody {
  float scale, root;
  const float *gradient;
  float *mean, *square, *value;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const {
    float slope = gradient[i];
    float first = 0.9f * mean[i] + 0.1f * slope;
    float second = 0.999f * square[i] + 0.001f * slope * slope;
    mean[i] = first;
    square[i] = second;
    value[i] -= scale * first / (sqrtf(second) * root + 1e-8f);
  }
};

/// A hash of the index (Wang, 32 bits).
template <typename T> struct RandomBody {
  uint32_t seed;
  T *values;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const {
    uint32_t key = uint32_t(i) + seed * 0x9e3779b9u;
    key = (key ^ 61) ^ (key >> 16);
    key *= 9;
    key ^= key >> 4;
    key *= 0x27d4eb2du;
    key ^= key >> 15;
    values[i] = 0.5f + float(key >> 8) * (1.0f / 16777216.0f);
  }
};

template <typename T> struct ConstantBody {
  float value;
  T *values;
  HETERPLAN_ANYWHERE void operator()(int64_t i) const { values[i] = value; }
};
} // namespace

void lookUp(Device &device, Format format, const Lookup &lookup, const int64_t *indices,
            const void *table, void *y) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, foundOf(lookup),
         LookUpBody<T>{lookingOf(lookup, indices), in<T>(table), out<T>(y)});
  });
}

void lookUpIntegers(Device &device, const Lookup &lookup, const int64_t *indices,
                    const int64_t *table, int64_t *y) {
  each(device, foundOf(lookup), LookUpBody<int64_t>{lookingOf(lookup, indices), table, y});
}

void scatter(Device &device, Format format, const Lookup &lookup, const int64_t *indices,
             const void *dy, float *gradient) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, foundOf(lookup), ScatterBody<T>{lookingOf(lookup, indices), in<T>(dy), gradient});
  });
}

void updateSgd(Device &device, int64_t count, const float *gradient, float *value) {
  each(device, count, SgdBody{gradient, value});
}

void updateMomentum(Device &device, int64_t count, const float *gradient, float *velocity,
                    float *value) {
  each(device, count, MomentumBody{gradient, velocity, value});
}

void updateAdam(Device &device, int64_t count, int step, const float *gradient, float *mean,
                float *square, float *value) {
  float scale = Update::rate / (1 - std::pow(0.9f, float(step)));
  float root = 1 / std::sqrt(1 - std::pow(0.999f, float(step)));
  each(device, count, AdamBody{scale, root, gradient, mean, square, value});
}

void fillRandom(Device &device, Format format, unsigned seed, int64_t count, void *values) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, count, RandomBody<T>{seed, out<T>(values)});
  });
}

void fillConstant(Device &device, Format format, float value, int64_t count, void *values) {
  withType(format, [&](auto t) {
    using T = decltype(t);
    each(device, count, ConstantBody<T>{value, out<T>(values)});
  });
}

} // namespace heterplan::kernels::cuda
