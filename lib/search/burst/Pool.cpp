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
    : cluster(cluster), deviceType(type), batch(batch), devices(devicesOf(cluster, type)) {
  int64_t limit = std::min<int64_t>(most, batch.value());
  for (int64_t width = 1; width <= limit; ++width) {
    bool isPower = (width & (width - 1)) == 0, divides = batch.value() % width == 0;
    if (divides && (isPower || widths == Widths::Any))
      all.push_back(static_cast<int>(width));
    leavesOut |= isPower && !divides;
  }
  begins.resize(all.back() + 1);
  for (int width : all) {
    std::vector<int64_t> &first = begins[width];
    first.resize(width);
    std::vector<int> placed = order(width);
    for (int place = 0; place < width; ++place)
      first[placed[place]] = place * share(width).value();
  }
  for (int from : all)
    for (int to : all)
      if (from != to)
        moves[{from, to}] = {moved(DeviceRun{0, from}, DeviceRun{0, to}),
                             nestedTransferPath(cluster, group(from), group(to))};
}

std::vector<int> Pool::order(int width) {
  std::vector<int> devices(width);
  std::iota(devices.begin(), devices.end(), 0);
  std::sort(devices.begin(), devices.end(),
            [](int a, int b) { return reversed(uint32_t(a)) < reversed(uint32_t(b)); });
  return devices;
}

int64_t Pool::missing(DeviceRun own, DeviceRun other, int device) const {
  int64_t wanted = share(own.width).value();
  if (device < other.first || device >= other.end())
    return wanted;
  int64_t mine = begins[own.width][device - own.first];
  int64_t theirs = begins[other.width][device - other.first];
  int64_t held = share(other.width).value();
  int64_t common = std::min(mine + wanted, theirs + held) - std::max(mine, theirs);
  return wanted - std::max<int64_t>(0, common);
}

const MovedShares &Pool::moved(DeviceRun from, DeviceRun to) const {
  auto [entry, isNew] = counted.try_emplace({from.first, from.width, to.first, to.width});
  if (isNew)
    entry->second = countMoved(from, to);
  return entry->second;
}

MovedShares Pool::countMoved(DeviceRun from, DeviceRun to) const {
  auto most = [&](DeviceRun own, DeviceRun other) {
    int64_t result = 0, all = share(own.width).value();
    for (int device = own.end(); result < all && device-- > own.first;) // the last are alone
      result = std::max(result, missing(own, other, device));
    return Samples(result);
  };
  return {most(from, to), most(to, from)};
}

Seconds Pool::receiptTime(DeviceRun own, ArrayRef<std::pair<DeviceRun, Seconds>> times) const {
  Seconds all{}, longest{};
  for (const auto &[other, time] : times)
    all += time;
  for (int device = own.end(); longest < all && device-- > own.first;) {
    Seconds sum{};
    for (const auto &[other, time] : times)
      if (missing(own, other, device) > 0)
        sum += time;
    longest = std::max(longest, sum);
  }
  return longest;
}

bool Pool::liesAsFirst(DeviceRun run) const {
  if (run.end() > static_cast<int>(devices.size()))
    return false;
  auto [entry, isNew] = placed.try_emplace({run.first, run.width}, true);
  ArrayRef<DeviceRef> of(devices);
  if (isNew)
    entry->second = groupOf(cluster, of.slice(run.first, run.width)) ==
                    groupOf(cluster, of.take_front(run.width));
  return entry->second;
}

Seconds Pool::moveTime(int from, int to, Bytes perSample, Bytes fixed) const {
  if (from == to)
    return Seconds();
  const auto &[shares, path] = moves.at({from, to});
  return path.time(shares.sent, shares.received, perSample, fixed);
}

Seconds Pool::moveTime(DeviceRun from, DeviceRun to, Bytes perSample, Bytes fixed) const {
  if (from == to)
    return Seconds();
  const MovedShares &shares = moved(from, to);
  return moves.at({from.width, to.width}).path.time(shares.sent, shares.received, perSample, fixed);
}

} // namespace heterplan
