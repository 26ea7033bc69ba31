// Random numbers that are the same on every machine.
#pragma once

#include <cstdint>

namespace heterplan {

/// The next number of splitmix64 (Steele et al., OOPSLA 2014); `state` is the seed at first.
inline uint64_t nextRandom(uint64_t &state) {
  uint64_t value = state += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

} // namespace heterplan
