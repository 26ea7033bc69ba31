// How values lie in the memory of a GPU. Everything is computed in fp32.
#pragma once

#include "cost/kernels/Functions.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heterplan::kernels::cuda {

enum class Format { Float, BFloat16 };

constexpr size_t bytesOf(Format format) { return format == Format::Float ? 4 : 2; }

/// The upper half of a float, rounded to the nearest, ties to even.
class BFloat16 {
public:
  BFloat16() = default;
  HETERPLAN_ANYWHERE BFloat16(float value) {
    uint32_t whole;
    memcpy(&whole, &value, sizeof whole);
    bool isNan = (whole & 0x7fffffff) > 0x7f800000;
    bits = uint16_t((isNan ? whole | 0x400000 : whole + 0x7fff + ((whole >> 16) & 1)) >> 16);
  }
  HETERPLAN_ANYWHERE operator float() const {
    uint32_t whole = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &whole, sizeof value);
    return value;
  }

private:
  uint16_t bits;
};

} // namespace heterplan::kernels::cuda
