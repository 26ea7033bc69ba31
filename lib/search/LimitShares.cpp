#include "search/LimitShares.h"

#include <algorithm>

namespace heterplan {

Seconds secondsToWrite(int64_t devices, Samples batch) {
  const Seconds ofDevice(4e-5), ofMember(2e-8); // on two cores of 2024
  double members = double(devices) * double(std::min(devices, batch.value()));
  return ofDevice * double(devices) + ofMember * members;
}

Seconds secondsBesideSearch(Seconds limit, Seconds reading, Seconds writing) {
  Seconds read = std::min(reading, limit / 2);
  return read + std::min(writing, (limit - read) / 2);
}

} // namespace heterplan
