#include "search/burst/Pool.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace heterplan {

namespace {
/// The bits of `value` in reverse order, as a fraction of 2^32 (van der Corput's sequence).
uint32_t reversed(uint32_t value) {
  uint32_t result = 0;
  for (int bit = 0; bit < 32; ++bit, value >>= 1)
    result = result << 1 | (value & 1);
  return result;
}
} // namespace

Pool::Pool(const Cluster &cluster, int type, int most, Samples batch, Widths widths)
    : deviceType(type), batch(batch) {
  int64_t limit = std::min<int64_t>(most, batch.value());
  for (int64_t width = 1; width <= limit; ++width) {
    bool isPower = (width & (width - 1)) == 0, divides = batch.value() % width == 0;
    if (divides && (isPower || widths == Widths::Any))
      all.push_back(static_cast<int>(width));
    leavesOut |= isPower && !divides;
  }
  for (int from : all)
    for (int to : all)
      if (from != to)
        moves[{from, to}] = {countMoved(from, to),
                             nestedTransferPath(cluster, group(from), group(to))};
}

std::vector<int> Pool::order(int width) {
  std::vector<int> devices(width);
  std::iota(devices.begin(), devices.end(), 0);
  std::sort(devices.begin(), devices.end(),
            [](int a, int b) { return reversed(uint32_t(a)) < reversed(uint32_t(b)); });
  return devices;
}

MovedShares Pool::countMoved(int from, int to) const {
  auto begins = [&](int width) {
    std::vector<int64_t> result(width);
    std::vector<int> devices = order(width);
    for (int place = 0; place < width; ++place)
      result[devices[place]] = place * share(width).value();
    return result;
  };
  std::vector<int64_t> before = begins(from), after = begins(to);
  int64_t held = share(from).value(), wanted = share(to).value(), least = std::min(held, wanted);
  for (int device = 0; device < std::min(from, to); ++device) {
    int64_t begin = std::max(before[device], after[device]);
    int64_t end = std::min(before[device] + held, after[device] + wanted);
    least = std::min(least, std::max<int64_t>(0, end - begin));
  }
  // A device of the wider set only keeps nothing.
  return {Samples(from > to ? held : held - least), Samples(to > from ? wanted : wanted - least)};
}

Seconds Pool::moveTime(int from, int to, Bytes perSample, Bytes fixed) const {
  if (from == to)
    return Seconds();
  const auto &[shares, path] = moves.at({from, to});
  return path.time(shares.sent, shares.received, perSample, fixed);
}

} // namespace heterplan
