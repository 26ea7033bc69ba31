#include "search/LimitShares.h"

#include <algorithm>

namespace heterplan {

Seconds secondsToWrite(int64_t devices) {
  const Seconds ofDevice(1.2e-4); // on two cores of 2024, in files of some 10 KB
  return ofDevice * double(devices);
}

Seconds secondsBesideSearch(Seconds limit, Seconds reading, Seconds writing) {
  Seconds read = std::min(reading, limit / 2);
  return read + std::min(writing, (limit - read) / 2);
}

} // namespace heterplan
