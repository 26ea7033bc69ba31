#include "search/burst/Pool.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double rounding = 1e-9;

bool isPower(int64_t number) { return (number & (number - 1)) == 0; }
} // namespace

Pool::Pool(const Cluster &cluster, int type, int most, Samples batch, Widths widths)
    : cluster(cluster), types{{type, most}}, batch(batch), devices(devicesOf(cluster, type)),
      deviceTypes(devices.size(), type) {
  int64_t limit = std::min<int64_t>(most, batch.value());
  for (int64_t width = 1; width <= limit; ++width) {
    bool divides = batch.value() % width == 0;
    if (divides && (isPower(width) || widths == Widths::Any))
      addEqual(static_cast<int>(width));
    leavesOut |= isPower(width) && !divides;
  }
  fillMoves();
}

Pool::Pool(const Cluster &cluster, std::vector<PoolClass> given, Samples batch, Widths widths,
           DollarsPerHour mostPrice, Divide divide)
    : cluster(cluster), types(std::move(given)), batch(batch) {
  int before = 0, number = 0; // devices of faster types, and of all
  for (const PoolClass &each : types)
    number += each.count;
  bool isAny = widths == Widths::Any && number <= mostOfAnyNumber;
  for (const PoolClass &each : types) {
    std::vector<DeviceRef> own = devicesOf(cluster, each.type);
    devices.insert(devices.end(), own.begin(), own.begin() + each.count);
    deviceTypes.insert(deviceTypes.end(), each.count, each.type);
    bool isLast = &each == &types.back();
    for (int more = 1; more <= each.count && before + more <= batch.value(); ++more)
      if (isAny || isPower(more) || (more == each.count && !isLast))
        addUneven(before + more, divide);
    before += each.count;
  }
  erase_if(all, [&](int width) { return price(width) > mostPrice * (1 + rounding); });
  fillMoves();
}

std::vector<PoolClass> Pool::firstOf(int width) const {
  std::vector<PoolClass> result;
  for (const PoolClass &each : types) {
    int count = std::min(width, each.count);
    if (count > 0)
      result.push_back({each.type, count});
    width -= count;
  }
  return result;
}

void Pool::addEqual(int width) {
  Prefix prefix;
  prefix.group.counts = {{type(), width}};
  prefix.held.assign(width, batch.value() / width);
  add(width, std::move(prefix));
}

void Pool::addUneven(int width, Divide divide) {
  Prefix prefix;
  std::vector<PoolClass> some = firstOf(width);
  std::vector<std::vector<int64_t>> shares = divide(some, batch);
  if (shares.empty())
    return;
  for (const std::vector<int64_t> &each : shares)
    prefix.held.insert(prefix.held.end(), each.begin(), each.end());
  prefix.group = groupOf(cluster, ArrayRef<DeviceRef>(devices).take_front(width));
  for (const auto &entry : prefix.group.counts) { // in the order of the cluster
    auto same = [&](const PoolClass &each) { return each.type == entry.first; };
    prefix.shares.push_back(shares[find_if(some, same) - some.begin()]);
  }
  add(width, std::move(prefix));
}

/// `prefix` has its group and its samples.
void Pool::add(int width, Prefix prefix) {
  for (const PoolClass &each : firstOf(width))
    prefix.price += cluster.types[each.type].price * double(each.count);
  for (int device = 0; device < width; ++device)
    if (PoolKind kind{deviceTypes[device], prefix.held[device]};
        prefix.kinds.empty() || prefix.kinds.back() != kind)
      prefix.kinds.push_back(kind);
  prefix.largest = *std::max_element(prefix.held.begin(), prefix.held.end());
  prefix.begins.resize(width);
  int64_t begin = 0;
  for (int device : order(width)) {
    prefix.begins[device] = begin;
    begin += prefix.held[device];
  }
  prefixes.resize(width + 1);
  prefixes[width] = std::move(prefix);
  all.push_back(width);
}

void Pool::fillMoves() {
  for (int from : all)
    for (int to : all)
      if (from != to)
        moves[{from, to}] = {moved(DeviceRun{0, from}, DeviceRun{0, to}),
                             nestedTransferPath(cluster, group(from), group(to))};
}

/// By their numbers with the bits in reverse order (van der Corput's sequence): device d + n stands
/// behind device d < n, where n is a power of two.
std::vector<int> Pool::order(int width) {
  std::vector<int> devices{0};
  for (int joined = 1; joined < width; joined *= 2) {
    std::vector<int> more;
    more.reserve(2 * devices.size());
    for (int device : devices) {
      more.push_back(device);
      if (device + joined < width)
        more.push_back(device + joined);
    }
    devices = std::move(more);
  }
  return devices;
}

int64_t Pool::missing(DeviceRun own, DeviceRun other, int device) const {
  const Prefix &mine = of(own.width), &theirs = of(other.width);
  int place = device - own.first, otherPlace = device - other.first;
  int64_t wanted = mine.held[place];
  if (otherPlace < 0 || otherPlace >= other.width)
    return wanted;
  int64_t begin = mine.begins[place], otherBegin = theirs.begins[otherPlace];
  int64_t common =
      std::min(begin + wanted, otherBegin + theirs.held[otherPlace]) - std::max(begin, otherBegin);
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

BoundaryCost Pool::boundary(DeviceRun from, DeviceRun to, const MessageBytes &bytes) const {
  if (from == to)
    return {};
  const MovedShares &shares = moved(from, to);
  return boundaryCost(moves.at({from.width, to.width}).path, shares.sent, shares.received, bytes);
}

} // namespace heterplan
